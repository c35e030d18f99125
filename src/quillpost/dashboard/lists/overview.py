"""All lists of the reader, and making a new one."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.api.v2.mailing_lists import NewMailingList
from quillpost.audience import list_keeping, lists
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import Filled
from quillpost.dashboard.lists.list_pages import (
    BARS_BY,
    list_view,
    page_of,
    sought_in,
    sub_accounts_of,
)
from quillpost.dashboard.paging import asked_page
from quillpost.kit.errors import Invalid, Refused
from quillpost.kit.paging import PageRequest
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception import once
from quillpost.reception.forms import Form, PostedForm
from quillpost.reception.once import do_once
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

PAGE = "/lists"
PER_PAGE = 25


@router.get(PAGE)
def lists_page(request: Request, who: Reader, parts: OurParts) -> Response:
    """Suppression lists have a page of their own: nobody writes to those."""
    sought = sought_in(request)
    asked = asked_page(request.query_params.get("page", ""), per_page=PER_PAGE)
    with parts.db.transaction(tenant(who.caller)) as tx:
        page = lists.list_page(tx, asked, description=sought, bars=False)
        barring = lists.list_page(tx, PageRequest(1, 1), bars=True).total
        titles = sub_accounts_of(tx, who)
    return list_view(
        request, "index.html", who, parts, page=page, sought=sought, barring=barring, titles=titles
    )


@router.get(f"{PAGE}/new")
def new_page(request: Request, who: Reader, parts: OurParts) -> Response:
    bars = request.query_params.get("suppression") is not None
    usual = {"suppress_by": ["address"]} | ({"is_suppression_list": ["on"]} if bars else {})
    return _form_page(request, who, parts, Filled(usual))


@router.post(f"{PAGE}/new")
def create(request: Request, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    try:
        with parts.db.transaction(tenant(who.caller)) as tx:
            do_once(tx, who, form.text(once.FIELD), instead="Your list is there.", leads_to=PAGE)
            body = read_body(NewMailingList, list_fields(form))
            made = list_keeping.make_list(
                tx, who.caller, parts.sealer, body.columns(parts), now=parts.clock()
            )
    except (Invalid, Refused) as refused:
        return _form_page(request, who, parts, Filled.back(form, refused, at="description"))
    return go(page_of(made.id), said="list_made")


def list_fields(form: Form) -> Mapping[str, Any]:
    """A list as its form says it, in the words of the API."""
    bars = bool(form.text("is_suppression_list"))
    said: dict[str, Any] = {
        "description": form.text("description"),
        "qrcode_url": form.text("qrcode_url", most=3_000) or None,
        "is_suppression_list": bars,
    }
    if bars:
        said["suppress_by"] = form.text("suppress_by") or None
    if "sub_account_id" in form.fields:
        said["sub_account_id"] = form.number("sub_account_id")
    return said


def _form_page(request: Request, who: SignedIn, parts: Parts, form: Filled) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        titles = sub_accounts_of(tx, who)
    return list_view(request, "new.html", who, parts, form=form, titles=titles, bars_by=BARS_BY)
