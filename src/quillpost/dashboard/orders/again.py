"""Sending an order again: its price first, and then once."""

from typing import Any

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.api.needs import Unit, id_in_path
from quillpost.api.v2.order_changes import Replay, draft_again
from quillpost.api.v2.sending import keep_files, place
from quillpost.dashboard.compose.price import Price, priced
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import Filled, show_form
from quillpost.dashboard.orders.order_words import piece_words
from quillpost.dashboard.orders.stopping import WHOLE
from quillpost.dashboard.typed_times import typed_moment, typed_zone, when_values
from quillpost.kit.errors import Invalid, Refused, Unpaid
from quillpost.orders import store
from quillpost.orders.records import Order
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception import once
from quillpost.reception.forms import Form, PostedForm
from quillpost.reception.once import do_once
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

DONE = "Your new order is the first under Orders."
AGREED = "agreed"
"""How many pieces, and at what cost, the page said that it would be."""
OTHER_PRICE = "Meanwhile it has another price, or reaches others: look at it once more, and then send it."
NOBODY = "There is nobody left to mail to."
PRICED_AT_ONCE = 1_000
"""Everybody of a larger order is looked at only when somebody asks what it costs: that takes a while."""


@router.get("/orders/{order_id}/again")
def again_page(request: Request, order_id: str, who: Reader, parts: OurParts) -> Response:
    order = _read(order_id, who, parts)
    usual = Filled({"when": ["soon"], "repeats": ["on"]})
    return _page(request, who, parts, order, usual, is_priced=order.recipient_count <= PRICED_AT_ONCE)


@router.post("/orders/{order_id}/again")
def send_again(request: Request, order_id: str, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    order = _read(order_id, who, parts)
    if form.text("price") == "anew":
        return _page(request, who, parts, order, Filled(form.fields))
    try:
        draft = draft_again(order.id, _body(request, form), who.caller, parts)
        price = priced(draft, who.caller, parts)
        if not price.pieces:
            raise Refused(NOBODY)
        if form.text(AGREED) != _agreement(price):
            raise Refused(OTHER_PRICE)
        files = keep_files(draft, who.caller, parts)
        with Unit(lambda: parts.db.transaction(tenant(who.caller))) as unit:
            do_once(unit.tx, who, form.text(once.FIELD), instead=DONE, leads_to="/orders")
            made, _ = place(draft, files, who.caller, parts, unit)
    except (Invalid, Refused, Unpaid) as wrong:
        return _page(request, who, parts, order, Filled.back(form, _told(wrong), at=WHOLE))
    return go(f"/orders/{made.id}", said="order_sent_again")


def _body(request: Request, form: Form) -> Replay:
    given: dict[str, Any] = {"allow_duplicates": form.text("repeats") == "on"}
    if form.text("when") == "later":
        zone = typed_zone(request, form.fields)
        given["schedule_for"] = typed_moment(form, "send_on", zone).isoformat()
    return read_body(Replay, given)


def _told(wrong: Invalid | Refused | Unpaid) -> Invalid:
    """By the fields of our form."""
    if not isinstance(wrong, Invalid):
        return Invalid({WHOLE: [wrong.message]})
    if "send_on" in wrong.fields:
        return wrong
    at_its_field = {"schedule_for": "send_on"}
    told: dict[str, list[str]] = {}
    for name, faults in wrong.fields.items():
        told.setdefault(at_its_field.get(name, WHOLE), []).extend(faults)
    return Invalid(told)


def _page(
    request: Request, who: SignedIn, parts: Parts, order: Order, form: Filled, *, is_priced: bool = True
) -> Response:
    price = None
    try:
        asked = Form({name: list(values) for name, values in form.typed.items()})
        if is_priced:
            price = priced(draft_again(order.id, _body(request, asked), who.caller, parts), who.caller, parts)
    except (Invalid, Refused) as wrong:
        form = Filled(form.typed, form.faults or _told(wrong).fields)
    return show_form(
        request,
        "orders/again.html",
        who,
        form,
        order=order,
        piece=piece_words(order),
        price=price,
        is_priced=is_priced,
        agreed=_agreement(price) if price else "",
        **when_values(typed_zone(request, form.typed), now=parts.clock()),
    )


def _agreement(price: Price) -> str:
    return f"{price.pieces}:{price.total}"


def _read(order_id: str, who: SignedIn, parts: Parts) -> Order:
    with parts.db.transaction(tenant(who.caller)) as tx:
        return store.read_order(tx, id_in_path(order_id))
