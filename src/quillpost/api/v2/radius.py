"""Radius searches by themselves: how many there are, and buying them onto a list."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.api.answers import answer
from quillpost.api.bodies import said
from quillpost.api.docs import BODY_ERRORS, errors
from quillpost.api.needs import OneUnit, Parts, may
from quillpost.api.route import PREFIX, V2Route
from quillpost.api.v2.radius_body import RadiusCall
from quillpost.api.v2.schemas.radius import RadiusBought, RadiusCount
from quillpost.audience.lists import read_lists
from quillpost.kit.errors import Invalid
from quillpost.leads import buying
from quillpost.leads.finding import Find, find
from quillpost.parts import Parts as ServiceParts

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
def count_radius_search(body: RadiusCall, who: MayRead, parts: Parts) -> Response:
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
def buy_radius_search(body: RadiusCall, who: MayWrite, parts: Parts, unit: OneUnit) -> Response:
    found, home = found_by(body, who, parts)
    onto, bought = buying.buy_onto_list(
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
                raise Invalid({"mailing_list_id": [buying.BARS]})
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
