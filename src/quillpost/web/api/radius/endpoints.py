"""Radius searches: how many there are, and buying them onto a list."""

from fastapi import Response

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.client import mailing_lists as wire
from quillpost.recipients.leads import service as lead_service
from quillpost.recipients.leads.search import LeadSearchResult
from quillpost.web.api.dependencies import ApiCaller, RequestUnitOfWork
from quillpost.web.api.radius.schemas import RadiusCall
from quillpost.web.api.responses import json_response
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.schemas import strip_or_none
from quillpost.web.dependencies import Services

router = ApiRouter("Mailing lists", resource="lists")


@router.post(
    "/mailing-lists-utils/count-radius-search",
    wire.RadiusCount,
    scope="lists:read",
    summary="Count the addresses around one",
)
def count_radius_search(body: RadiusCall, caller: ApiCaller, container: Services) -> Response:
    """How many could be bought, and for how much; asking is free. Whoever is on a suppression list is not
    counted, nor sold; in testing mode the addresses are made up."""
    leads, _ = _find_leads(body, caller, container)
    return json_response(wire.RadiusCount(message="success", count=len(leads.people), leads_fee=leads.cents))


@router.post(
    "/mailing-lists-utils/buy-radius-search",
    wire.RadiusPurchase,
    errors=[402],
    summary="Buy the addresses around one",
    description="The nearest go onto a new list of type radius, or onto `mailing_list_id`, for 5 cents each:"
    " records and fee together, or neither. In testing mode nothing is billed, and the addresses are made up:"
    " live mail never goes to them. Also at `/mailing-lists/buy-radius-search`.",
)
@router.post("/mailing-lists/buy-radius-search", wire.RadiusPurchase, include_in_schema=False)
def buy_radius_search(
    body: RadiusCall, caller: ApiCaller, container: Services, unit_of_work: RequestUnitOfWork
) -> Response:
    leads, sub_account_id = _find_leads(body, caller, container)
    mailing_list, purchase = lead_service.buy_onto_list(
        unit_of_work.tx,
        caller,
        container.encryptor,
        leads,
        body.to_search(),
        mailing_list_id=body.mailing_list_id,
        sub_account_id=sub_account_id,
        name=strip_or_none(body.description) or strip_or_none(body.name),
        needs_credit=container.environments[caller.mode].needs_credit,
        now=container.clock(),
    )
    return json_response(
        wire.RadiusPurchase(
            message="success",
            mailing_list_id=mailing_list.id,
            count=len(purchase.people),
            leads_fee=purchase.cents,
            failure=False,
        )
    )


def _find_leads(body: RadiusCall, caller: Caller, container: Container) -> tuple[LeadSearchResult, int | None]:
    return lead_service.find_leads(
        container.db,
        container.lead_providers[caller.mode],
        caller,
        body.to_search(),
        sub_account_id=body.sub_account_id,
        mailing_list_id=body.mailing_list_id,
        now=container.clock(),
    )
