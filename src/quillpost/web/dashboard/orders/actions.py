"""Canceling, changing and repeating an order."""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Conflict, Invalid, Refused, Unpaid
from quillpost.orders import create, items
from quillpost.orders.models import Order
from quillpost.web import csrf
from quillpost.web.api.dependencies import Unit, id_in_path
from quillpost.web.api.orders.endpoints import ChangedOrder, Replay, changed, draft_again
from quillpost.web.api.send.service import keep_files, place
from quillpost.web.cookies import zone_of
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.compose.estimates import Price, priced
from quillpost.web.dashboard.forms import (
    EMPTY,
    Filled,
    are_you_sure,
    local_time,
    read_body,
    show_form,
    typed_moment,
    typed_zone,
    when_values,
)
from quillpost.web.dashboard.orders.labels import piece_words
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import cents, go
from quillpost.web.sessions import OurParts, Reader

router = APIRouter(include_in_schema=False)

WHOLE: Final = "order"
"""Where faults are told that belong to no field of the form."""
MANY: Final = 50_000


@router.get("/orders/{order_id}/cancel")
def cancel_page(request: Request, order_id: str, who: Reader, parts: OurParts) -> Response:
    order = _read(order_id, who, parts)
    if not order.is_cancellable:
        return go(f"/orders/{order.id}", said="order_not_cancellable")
    return _cancel_page(request, who, order)


@router.post("/orders/{order_id}/cancel")
def cancel(request: Request, order_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    number = id_in_path(order_id)
    try:
        with parts.db.transaction(tenant(who.caller)) as tx:
            create.cancel(tx, number, now=parts.clock())
    except Refused as refused:
        return _cancel_page(request, who, _read(order_id, who, parts), refused=refused.message)
    return go(f"/orders/{number}", said="order_cancelled")


@router.get("/orders/{order_id}/change")
def change_page(request: Request, order_id: str, who: Reader, parts: OurParts) -> Response:
    order, zone = _read(order_id, who, parts), zone_of(request)
    if not order.is_cancellable:
        return go(f"/orders/{order.id}", said="order_not_changeable")
    later = local_time(order.schedule_for, zone) if order.schedule_for else ""
    usual = {"message": [order.message], "when": ["later" if later else "soon"], "send_on": [later]}
    return _change_page(request, who, parts, order, Filled(usual))


@router.post("/orders/{order_id}/change")
def change(request: Request, order_id: str, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    order, zone = _read(order_id, who, parts), typed_zone(request, form.fields)
    try:
        body = read_body(ChangedOrder, _given(form, order, zone))
        if not body.given():
            return go(f"/orders/{order.id}", said="order_as_it_was")
        with Unit(lambda: parts.db.transaction(tenant(who.caller))) as unit:
            changed(order.id, body, who.caller, parts, unit)
    except Invalid as wrong:
        names = {"schedule_for": "send_on"}
        told = Invalid({names.get(name, name): faults for name, faults in wrong.fields.items()})
        return _change_page(request, who, parts, order, Filled.back(form, told, at=WHOLE))
    except (Refused, Unpaid, Conflict) as refused:
        told = Invalid({WHOLE: [refused.message]})
        return _change_page(request, who, parts, order, Filled.back(form, told, at=WHOLE))
    return go(f"/orders/{order.id}", said="order_changed")


def _given(form: Form, order: Order, zone: ZoneInfo) -> Mapping[str, Any]:
    """What is other than it was: what stays is not priced or laid out again."""
    given: dict[str, Any] = {}
    message = form.text("message", most=10_000).replace("\r\n", "\n")
    if not order.pdf_only and message != order.message.replace("\r\n", "\n").strip():
        given["message"] = message
    is_later = form.text("when") == "later"
    wanted = typed_moment(form, "send_on", zone) if is_later else None
    had = order.schedule_for.replace(second=0, microsecond=0) if order.schedule_for else None
    if wanted != had:
        given["schedule_for"] = None if wanted is None else wanted.isoformat()
    return given


def _cancel_page(request: Request, who: SignedIn, order: Order, *, refused: str | None = None) -> Response:
    n = order.pieces
    unprinted = f"None of its {n:,} pieces is printed" if n > 1 else "It is not printed"
    means = [*_cost_of_cancelling(order, unprinted)]
    means += ["It cannot be begun again. To mail it after all, send it anew."]
    means += ["It has many pieces: this may take a minute."] if n > MANY else []
    return are_you_sure(
        request,
        who,
        title=f"Cancel order {order.id}?",
        means=means,
        button="Cancel the order",
        back=f"/orders/{order.id}",
        crumbs=[("/orders", "Orders"), (f"/orders/{order.id}", f"Order {order.id}")],
        refused=refused,
    )


def _cost_of_cancelling(order: Order, unprinted: str) -> Iterator[str]:
    """Pieces cost nothing then; addresses that were bought for it stay bought."""
    fee = cents(order.leads_fee)
    if order.mode == "test":
        yield f"{unprinted}. It is a test: nothing is billed."
        if order.leads_fee:
            yield f"Its addresses stay on their list. In live mode their {fee} would stay billed."
    elif order.leads_fee:
        yield f"{unprinted} or billed: what was held for that is credit again."
        yield f"Its addresses stay billed, {fee}. They stay on their list, to mail to for no further fee."
    else:
        yield f"{unprinted}, and nothing is billed: what was held for it is credit again."


def _change_page(
    request: Request, who: SignedIn, parts: Parts, order: Order, form: Filled = EMPTY
) -> Response:
    return show_form(
        request,
        "orders/change.html",
        who,
        form,
        order=order,
        piece=piece_words(order),
        others=form.unseen(("message", "send_on", WHOLE)),
        **when_values(typed_zone(request, form.typed), now=parts.clock()),
    )


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
            do_once(unit.tx, who, form.text(csrf.FIELD), instead=DONE, leads_to="/orders")
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
        return items.read_order(tx, id_in_path(order_id))
