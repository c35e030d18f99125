"""Whom nothing is sent to: the lists that say so, and whether somebody is among them."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.api.v2.recipient_body import PersonFields
from quillpost.audience import barred, lists
from quillpost.audience.barred import Answer
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import EMPTY, Filled
from quillpost.dashboard.lists.list_pages import BARS_BY, list_view, texts_of
from quillpost.dashboard.paging import asked_page
from quillpost.kit.errors import Invalid
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import PostedForm
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

PAGE = "/lists/suppression"
PER_PAGE = 25
MOST_COUNTED = 10_001
ASKED = ("name", "address", "email")


@router.get(PAGE)
def suppression_page(request: Request, who: Reader, parts: OurParts) -> Response:
    return _page(request, who, parts, EMPTY)


@router.post(PAGE)
def look_up(request: Request, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    """Whether mail to somebody is held back. A form, though nothing changes: whom one asks for stands in no
    URL."""
    try:
        row = read_body(PersonFields, texts_of(form, ASKED)).person()
        with parts.db.transaction(tenant(who.caller)) as tx:
            answer = barred.ask(tx, who.caller, row)
    except Invalid as refused:
        loose = [told for name, several in refused.fields.items() if name not in ASKED for told in several]
        faults = {name: told for name, told in refused.fields.items() if name in ASKED}
        if loose:
            faults["address"] = [*faults.get("address", ()), *loose]
        return _page(request, who, parts, Filled(form.fields, faults))
    return _page(request, who, parts, Filled(form.fields), answer)


def _page(
    request: Request, who: SignedIn, parts: Parts, form: Filled, answer: Answer | None = None
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        page = lists.list_page(
            tx, asked_page(request.query_params.get("page", ""), per_page=PER_PAGE), bars=True
        )
        forgotten = barred.forgotten(tx, most=MOST_COUNTED)
    return list_view(
        request,
        "suppression.html",
        who,
        parts,
        form=form,
        page=page,
        forgotten=forgotten,
        most_counted=MOST_COUNTED,
        bars_by=BARS_BY,
        answer=answer,
    )
