"""Buying addresses around one: first their number and price, then the purchase."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Response

from quillpost.accounts.billing.rules import LEAD_CENTS
from quillpost.core.errors import Invalid, QuillpostError, Refused, Unavailable, Unpaid
from quillpost.core.paging import PageRequest
from quillpost.recipients.leads import service as lead_service
from quillpost.recipients.leads.rules import ALL_RECORDS, MAX_RECORDS, MIN_RECORDS
from quillpost.recipients.leads.search import LeadSearchResult
from quillpost.recipients.lists import queries as list_queries
from quillpost.web.api.bodies import strip_or_none
from quillpost.web.api.radius.schemas import RadiusCall
from quillpost.web.dashboard.forms import FormState, read_body
from quillpost.web.dashboard.lists.pages import find_query_list, list_path, list_sub_account_titles, render_list_page
from quillpost.web.dashboard.responses import RequestContext, UserContext
from quillpost.web.dependencies import parse_digits, parse_path_id
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.security import use_one_time_key

router = APIRouter(include_in_schema=False)

PAGE_PATH = "/lists/radius"
MAX_LISTS_OFFERED = 200
DEFAULT_FIELDS: Final = {"record_count": ["100"], "condos": ["on"], "businesses": ["on"]}
RECORD_TYPE_LABELS: Final[Mapping[str, str]] = {
    "newhomeowner": "New homeowners",
    "firsttimehomebuyer": "First-time home buyers",
    "likelytomove": "Likely to move",
    "likelytorefi": "Likely to refinance",
    "absenteeowner": "Owners who live elsewhere",
    "highnetworth": "High net worth",
    "majorityhomeequity": "Most of the home paid off",
    "homefreeclear": "No mortgage",
    "underwater": "Owing more than the home is worth",
    "kidsinhousehold": "With children",
    "renters": "Renters",
    "retiring": "Retiring soon",
    "retired": "Retired",
    "pool": "With a pool",
    "onlybusinesses": "Businesses only",
    "newbusiness": "New businesses",
}


@router.get(PAGE_PATH)
def radius_page(context: UserContext) -> Response:
    with context.transaction() as tx:
        mailing_list = find_query_list(tx, context.request)
    return _render_page(
        context, FormState(DEFAULT_FIELDS | ({} if mailing_list is None else {"list": [str(mailing_list.id)]}))
    )


@router.post(PAGE_PATH)
def count_leads(context: UserContext, form: PostedForm) -> Response:
    """Counting is free."""
    try:
        leads, _ = _find_leads(context, _read_body(form))
    except (Invalid, Refused, Unavailable) as error:
        return _render_errors(context, form, error)
    return _render_page(context, FormState(form.fields), leads)


@router.post(f"{PAGE_PATH}/buy")
def buy_leads(context: UserContext, form: PostedForm) -> Response:
    """Never for more than the price that was shown."""
    try:
        body = _read_body(form)
        leads, sub_account_id = _find_leads(context, body)
        if leads.cents > (parse_digits(form.text("shown")) or 0):
            return _render_page(context, FormState(form.fields), leads, is_price_changed=True)
        with context.transaction() as tx:
            use_one_time_key(tx, context.user, form.one_time_key, hint="The addresses are yours.", result_path="/lists")
            mailing_list, _ = lead_service.buy_onto_list(
                tx,
                context.user.caller,
                context.container.encryptor,
                leads,
                body.to_search(),
                mailing_list_id=body.mailing_list_id,
                sub_account_id=sub_account_id,
                name=strip_or_none(body.description),
                list_type="map",
                needs_credit=context.container.environments[context.user.mode].needs_credit,
                now=context.now(),
            )
    except (Invalid, Refused, Unavailable, Unpaid) as error:
        return _render_errors(context, form, error)
    return redirect(list_path(mailing_list.id), flash="radius_bought")


def _read_body(form: Form) -> RadiusCall:
    return read_body(RadiusCall, _radius_fields(form))


def _radius_fields(form: Form) -> Mapping[str, Any]:
    """In the API's names."""
    days = form.text("mailed_within_days")
    order_request: dict[str, Any] = {
        "address": form.text("address"),
        "record_count": _parse_number(form.text("record_count")),
        "record_types": ",".join(form.values("record_types")) or ALL_RECORDS,
        "include_condos": bool(form.text("condos")),
        "include_businesses": bool(form.text("businesses")),
        "use_property_owner": bool(form.text("owner")),
        "include_search_address": bool(form.text("itself")),
        "exclude_already_mailed": bool(form.text("unmailed")),
        "mailed_within_days": _parse_number(days) if days and form.text("unmailed") else None,
        "mailing_list_id": form.number("list"),
        "description": form.text("description") or None,
    }
    if order_request["mailing_list_id"] is None:
        order_request["sub_account_id"] = form.number("sub_account_id")
    return order_request


def _parse_number(text: str) -> int | str:
    number = parse_digits(text.replace(",", ""))
    return text if number is None else number


def _render_errors(context: RequestContext, form: Form, error: QuillpostError) -> Response:
    errors = dict(error.fields) if isinstance(error, Invalid) else {"address": [error.message]}
    form_fields = {"mailing_list_id": "list", "postal_code": "address"}
    return _render_page(
        context, FormState(form.fields, {form_fields.get(name, name): messages for name, messages in errors.items()})
    )


def _render_page(
    context: RequestContext, form: FormState, leads: LeadSearchResult | None = None, *, is_price_changed: bool = False
) -> Response:
    with context.transaction() as tx:
        offered_lists = list_queries.read_list_page(
            tx, PageRequest(1, MAX_LISTS_OFFERED), is_suppression_list=False
        ).rows
        titles = list_sub_account_titles(tx, context.user)
        chosen_id = parse_path_id(form.values.get("list", ""))
        if chosen_id and chosen_id not in {each.id for each in offered_lists}:
            offered_lists += list_queries.find_lists(tx, [chosen_id]).values()
    return render_list_page(
        context,
        "radius.html",
        form=form,
        lists=[each for each in offered_lists if each.kept_for is None],
        titles=titles,
        record_labels=RECORD_TYPE_LABELS,
        leads=leads,
        counted_fields=form.fields,
        is_price_changed=is_price_changed,
        min_count=MIN_RECORDS,
        max_count=MAX_RECORDS,
        lead_cents=LEAD_CENTS,
    )


def _find_leads(context: UserContext, body: RadiusCall) -> tuple[LeadSearchResult, int | None]:
    container, caller = context.container, context.user.caller
    return lead_service.find_leads(
        container.db,
        container.lead_providers[caller.mode],
        caller,
        body.to_search(),
        sub_account_id=body.sub_account_id,
        mailing_list_id=body.mailing_list_id,
        now=container.clock(),
    )
