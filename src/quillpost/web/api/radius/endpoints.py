"""Radius searches: how many there are, and buying them onto a list."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict, Field

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.app.container import Parts as ServiceParts
from quillpost.core.errors import Invalid
from quillpost.recipients.leads import service as lead_service
from quillpost.recipients.leads.search import Find, find
from quillpost.recipients.lists.queries import read_lists
from quillpost.web.api.bodies import said
from quillpost.web.api.dependencies import OneUnit, Services, may
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.orders.schemas import Money
from quillpost.web.api.radius.schemas import RadiusCall
from quillpost.web.api.responses import answer
from quillpost.web.api.routes import PREFIX, V2Route


class RadiusCount(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"message": "success", "count": 100, "leads_fee": 500}]}
    )

    message: str
    count: int = Field(description="How many there are, at most as many as were asked for.")
    leads_fee: Money


class RadiusBought(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "message": "success",
                    "mailing_list_id": 14,
                    "count": 100,
                    "leads_fee": 500,
                    "failure": False,
                }
            ]
        }
    )

    message: str
    mailing_list_id: int = Field(description="The list that they are on.")
    count: int = Field(description="How many were bought.")
    leads_fee: Money
    failure: bool


class RadiusPreviewData(BaseModel):
    count: int = Field(description="How many addresses there are.")
    leads_fee: Money
    unit_price: Money
    estimated_total: Money
    warnings: list[str] = Field(description="What deserves a look; X-Warnings says the same.")


class RadiusPreview(BaseModel):
    """What a send with `radius_search.preview` = true answers: no order is made."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "success": True,
                    "code": 200,
                    "message": "OK",
                    "data": {
                        "count": 100,
                        "leads_fee": 500,
                        "unit_price": 109,
                        "estimated_total": 11400,
                        "warnings": [],
                    },
                }
            ]
        }
    )

    success: bool
    code: int
    message: str
    data: RadiusPreviewData


router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Mailing lists"])

MayRead = Annotated[Caller, Depends(may("lists:read"))]
MayWrite = Annotated[Caller, Depends(may("lists:write"))]

LIST_HAS_ONE = "The list has a sub account of its own, or none: leave this out, or name no list."


@router.post(
    "/mailing-lists-utils/count-radius-search",
    response_model=RadiusCount,
    responses=errors(*BODY_ERRORS),
    summary="Count the addresses around one",
)
def count_radius_search(body: RadiusCall, who: MayRead, parts: Services) -> Response:
    """How many could be bought, and for how much; asking is free. Whoever is on a suppression list is not
    counted, nor sold; in testing mode the addresses are made up."""
    found, _ = found_by(body, who, parts)
    return answer({"message": "success", "count": len(found.people), "leads_fee": found.cents})


@router.post(
    "/mailing-lists-utils/buy-radius-search",
    response_model=RadiusBought,
    responses=errors(402, *BODY_ERRORS),
    summary="Buy the addresses around one",
    description="The nearest go onto a new list of type radius, or onto `mailing_list_id`, for 5 cents each:"
    " records and fee together, or neither. In testing mode nothing is billed, and the addresses are made up:"
    " live mail never goes to them. Also at `/mailing-lists/buy-radius-search`.",
)
@router.post("/mailing-lists/buy-radius-search", response_model=RadiusBought, include_in_schema=False)
def buy_radius_search(body: RadiusCall, who: MayWrite, parts: Services, unit: OneUnit) -> Response:
    found, home = found_by(body, who, parts)
    onto, bought = lead_service.buy_onto_list(
        unit.tx,
        who,
        parts.sealer,
        found,
        body.search(),
        into=body.mailing_list_id,
        home=home,
        name=said(body.description) or said(body.name),
        needs_credit=parts.worlds[who.mode].needs_credit,
        now=parts.clock(),
    )
    return answer(
        {
            "message": "success",
            "mailing_list_id": onto.id,
            "count": len(bought.people),
            "leads_fee": bought.cents,
            "failure": False,
        }
    )


def found_by(body: RadiusCall, who: Caller, parts: ServiceParts) -> tuple[Find, int | None]:
    """Whom the search finds, and the sub account that they are for."""
    home = body.sub_account_id if body.sub_account_id is not None else who.sub_account_id
    with parts.db.transaction(tenant(who)) as tx:
        if body.sub_account_id is not None:
            require_sub_account(tx, body.sub_account_id)
        if body.mailing_list_id is not None:
            [onto] = read_lists(tx, [body.mailing_list_id])
            if onto.is_suppression_list:
                raise Invalid({"mailing_list_id": [lead_service.BARS]})
            if body.sub_account_id not in (None, onto.sub_account_id):
                raise Invalid({"sub_account_id": [LIST_HAS_ONE]})
            home = onto.sub_account_id
    found = find(
        parts.db,
        parts.leads[who.mode],
        who,
        body.search(),
        home=home,
        into=body.mailing_list_id,
        now=parts.clock(),
    )
    return found, home
