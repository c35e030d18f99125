"""Buying the addresses around one onto a list: how many there are and what they cost first, then the deed."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from quillpost.accounts.billing.rules import LEAD_CENTS
from quillpost.accounts.service import tenant
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid, QuillpostError, Refused, Unavailable, Unpaid
from quillpost.core.paging import PageRequest
from quillpost.recipients.leads import service as lead_service
from quillpost.recipients.leads.rules import ALL, FEWEST, MOST
from quillpost.recipients.leads.search import Find
from quillpost.recipients.lists import queries as list_queries
from quillpost.web import csrf
from quillpost.web.api.bodies import said, whole_number
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.radius.endpoints import found_by
from quillpost.web.api.radius.schemas import RadiusCall
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import Filled, read_body
from quillpost.web.dashboard.lists.pages import list_asked, list_view, page_of, sub_accounts_of
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import OurParts, Reader

router = APIRouter(include_in_schema=False)

PAGE = "/lists/radius"
OFFERED = 200
USUAL: Final = {"record_count": ["100"], "condos": ["on"], "businesses": ["on"]}
RECORDS: Final[Mapping[str, str]] = {
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
"""Kinds of records, in words for people."""


@router.get(PAGE)
def radius_page(request: Request, who: Reader, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        into = list_asked(tx, request)
    return _page(request, who, parts, Filled(USUAL | ({} if into is None else {"list": [str(into.id)]})))


@router.post(PAGE)
def count(request: Request, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    """Asking is free."""
    try:
        found, _ = found_by(_body(form), who.caller, parts)
    except (Invalid, Refused, Unavailable) as refused:
        return _back(request, who, parts, form, refused)
    return _page(request, who, parts, Filled(form.fields), found)


@router.post(f"{PAGE}/buy")
def buy(request: Request, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    """Never for more than the price that was shown."""
    try:
        body = _body(form)
        found, home = found_by(body, who.caller, parts)
        if found.cents > (whole_number(form.text("shown")) or 0):
            return _page(request, who, parts, Filled(form.fields), found, is_another=True)
        with parts.db.transaction(tenant(who.caller)) as tx:
            do_once(tx, who, form.text(csrf.FIELD), instead="The addresses are yours.", leads_to="/lists")
            onto, _ = lead_service.buy_onto_list(
                tx,
                who.caller,
                parts.sealer,
                found,
                body.search(),
                into=body.mailing_list_id,
                home=home,
                name=said(body.description),
                kind="map",
                needs_credit=parts.worlds[who.mode].needs_credit,
                now=parts.clock(),
            )
    except (Invalid, Refused, Unavailable, Unpaid) as refused:
        return _back(request, who, parts, form, refused)
    return go(page_of(onto.id), said="radius_bought")


def _body(form: Form) -> RadiusCall:
    return read_body(RadiusCall, _wish(form))


def _wish(form: Form) -> Mapping[str, Any]:
    """The search as its form says it, in the words of the API."""
    days = form.text("mailed_within_days")
    wish: dict[str, Any] = {
        "address": form.text("address"),
        "record_count": _number(form.text("record_count")),
        "record_types": ",".join(form.many("record_types")) or ALL,
        "include_condos": bool(form.text("condos")),
        "include_businesses": bool(form.text("businesses")),
        "use_property_owner": bool(form.text("owner")),
        "include_search_address": bool(form.text("itself")),
        "exclude_already_mailed": bool(form.text("unmailed")),
        "mailed_within_days": _number(days) if days and form.text("unmailed") else None,
        "mailing_list_id": form.number("list"),
        "description": form.text("description") or None,
    }
    if wish["mailing_list_id"] is None:
        wish["sub_account_id"] = form.number("sub_account_id")
    return wish


def _number(written: str) -> int | str:
    number = whole_number(written.replace(",", ""))
    return written if number is None else number


def _back(request: Request, who: SignedIn, parts: Parts, form: Form, refused: QuillpostError) -> Response:
    faults = dict(refused.fields) if isinstance(refused, Invalid) else {"address": [refused.message]}
    names = {"mailing_list_id": "list", "postal_code": "address"}
    return _page(
        request,
        who,
        parts,
        Filled(form.fields, {names.get(name, name): told for name, told in faults.items()}),
    )


def _page(
    request: Request,
    who: SignedIn,
    parts: Parts,
    form: Filled,
    found: Find | None = None,
    *,
    is_another: bool = False,
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        offered = list_queries.list_page(tx, PageRequest(1, OFFERED), bars=False).rows
        titles = sub_accounts_of(tx, who)
        chosen = id_in_path(form.values.get("list", ""))
        if chosen and chosen not in {each.id for each in offered}:
            offered += list_queries.known_lists(tx, [chosen]).values()
    return list_view(
        request,
        "radius.html",
        who,
        parts,
        form=form,
        own=[each for each in offered if each.kept_for is None],
        titles=titles,
        records=RECORDS,
        found=found,
        counted=form.typed,
        is_another=is_another,
        fewest=FEWEST,
        most=MOST,
        cents_each=LEAD_CENTS,
    )
