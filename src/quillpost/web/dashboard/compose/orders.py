"""The composer's end: the order. Live mail is told once more in plain numbers before it is on its way."""

from contextlib import suppress
from typing import Final
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, Refused, Unpaid
from quillpost.orders import service as order_service
from quillpost.orders.drafts import Draft
from quillpost.orders.models import Order
from quillpost.orders.service import Files
from quillpost.web import csrf
from quillpost.web.api.send.service import keep_files
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.compose.estimates import Price, priced
from quillpost.web.dashboard.compose.forms import FORM, composed, draft, in_form_terms
from quillpost.web.dashboard.compose.pages import composer_page
from quillpost.web.dashboard.forms import typed_zone
from quillpost.web.forms import FIELD, Form, PostedLargeForm
from quillpost.web.rendering import go, show
from quillpost.web.sessions import OurParts, Reader

router = APIRouter(include_in_schema=False)

AGREED: Final = "agreed"
"""What a sender has seen on the page that asks whether they are sure: pieces and cents."""
SENT_BEFORE: Final = "Your order is there: see it under Orders."
NO_CREDIT: Final = "{} Nothing was sent. Credit is added under Money."
NOBODY: Final = "There is nobody left to mail to: see beside the price why."


class Changed(Exception):
    """What would be sent is not what its sender has agreed to."""


@router.post("/compose/send")
def send(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    zone = typed_zone(request, form.fields)
    _require_unsent(who, form, parts)
    try:
        drafted = draft(composed(form, parts, zone), who.caller, parts)
        expected = priced(drafted, who.caller, parts)
        if expected.pieces == 0:
            raise Invalid({FORM: [NOBODY]})
        if not who.caller.is_testing and form.text(AGREED) != _agreement(expected):
            return _are_you_sure(request, who, form, parts, drafted, expected, zone)
        try:
            order = _placed(who, form, parts, drafted, keep_files(drafted, who.caller, parts), expected)
        except Changed:
            expected = priced(drafted, who.caller, parts)
            return _are_you_sure(request, who, form, parts, drafted, expected, zone)
    except (Invalid, Refused) as wrong:
        told = wrong if isinstance(wrong, Invalid) else in_form_terms(wrong)
        return composer_page(request, who, parts, form, faults=told.fields)
    except Unpaid as unpaid:
        faults = {FORM: [NO_CREDIT.format(unpaid.message)]}
        return composer_page(request, who, parts, form, faults=faults, status=402)
    return go(f"/orders/{order.id}", said=_said(who, drafted))


class _Looked(Exception):
    """Ends a transaction that was only to look."""


def _require_unsent(who: SignedIn, form: Form, parts: Parts) -> None:
    """`DoneAlready` for a form that has made its order: all whom it is to have had it just now, and that
    would be told instead."""
    with suppress(_Looked), parts.db.transaction(tenant(who.caller)) as tx:
        _once(tx, who, form)
        raise _Looked


def _once(tx: Tx, who: SignedIn, form: Form) -> None:
    do_once(tx, who, form.text(csrf.FIELD), instead=SENT_BEFORE, leads_to="/orders")


def _placed(who: SignedIn, form: Form, parts: Parts, drafted: Draft, files: Files, expected: Price) -> Order:
    """One form is one order, however often it is sent."""
    world = parts.worlds[who.mode]
    with parts.db.transaction(tenant(who.caller)) as tx:
        _once(tx, who, form)
        order, found = order_service.place(
            tx,
            who.caller,
            parts.shelf,
            drafted,
            files,
            sealer=parts.sealer,
            review=world.review,
            needs_credit=world.needs_credit,
            now=parts.clock(),
        )
        if not who.caller.is_testing and found.pieces != expected.pieces:
            raise Changed
    return order


def _are_you_sure(
    request: Request,
    who: SignedIn,
    form: Form,
    parts: Parts,
    drafted: Draft,
    expected: Price,
    zone: ZoneInfo,
) -> Response:
    """All that the form holds goes along unseen."""
    now = parts.clock()
    due = order_service.due_at(drafted, review=parts.worlds[who.mode].review, now=now)
    hidden: list[tuple[str, str]] = [
        (name, value)
        for name, values in form.fields.items()
        if name not in (AGREED, FIELD, "find")
        for value in values
    ]
    return show(
        request,
        "compose/sure.html",
        who=who,
        price=expected,
        agreed=_agreement(expected),
        hidden=hidden,
        due=due,
        is_scheduled=drafted.wish.schedule_for is not None,
        zone=zone,
        now=now,
    )


def _agreement(expected: Price) -> str:
    return f"{expected.pieces}:{expected.total}"


def _said(who: SignedIn, drafted: Draft) -> str:
    how = "scheduled" if drafted.wish.schedule_for is not None else "sent"
    return f"composer_{how}_{who.mode}"
