"""Taking a gift card back while nobody has claimed it, and sending another in its place."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.api.audited import Pen
from quillpost.api.needs import Unit, id_in_path
from quillpost.api.v2.invalidating import LONGEST_REASON, prepare_another, take_card_back
from quillpost.dashboard.form_pages import EMPTY, Filled, show_form
from quillpost.dashboard.orders.order_words import whom
from quillpost.dashboard.orders.stopping import WHOLE
from quillpost.giftcards.cards import read_card
from quillpost.kit.errors import Conflict, Invalid, NotFound, Refused, Unpaid
from quillpost.orders import reading, store
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import PostedForm
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

PATH = "/orders/{order_id}/items/{item_id}/take-back"


@router.get(PATH)
def take_back_page(request: Request, order_id: str, item_id: str, who: Reader, parts: OurParts) -> Response:
    return _page(request, who, parts, id_in_path(order_id), id_in_path(item_id))


@router.post(PATH)
def take_back(
    request: Request, order_id: str, item_id: str, who: Reader, form: PostedForm, parts: OurParts
) -> Response:
    """Sent twice, it is done once: a void card stays void, and one that is sent anew is sent once."""
    number, piece = id_in_path(order_id), id_in_path(item_id)
    _require(who, parts, number, piece)
    reissues = form.text("reissue") == "on"
    log = Pen(who.caller, who.address, parts.clock, who.actor)
    try:
        why = form.text("reason", most=LONGEST_REASON) or None
        another = prepare_another(piece, who.caller, parts) if reissues else None
        with Unit(lambda: parts.db.transaction(tenant(who.caller))) as unit:
            sent = take_card_back(piece, who.caller, parts, unit, log, why=why, another=another)
    except Invalid as wrong:
        return _page(request, who, parts, number, piece, Filled.back(form, wrong, at=WHOLE))
    except (Refused, Unpaid, Conflict) as refused:
        told = Invalid({WHOLE: [refused.message]})
        return _page(request, who, parts, number, piece, Filled.back(form, told, at=WHOLE))
    if reissues and sent is not None:
        return go(f"/orders/{sent}", said="giftcard_sent_anew")
    return go(f"/orders/{number}/items/{piece}", said="giftcard_taken_back")


def _require(who: SignedIn, parts: Parts, order_id: int, item_id: int) -> None:
    with parts.db.transaction(tenant(who.caller)) as tx:
        if reading.read_item(tx, item_id).order_id != order_id:
            raise NotFound


def _page(
    request: Request, who: SignedIn, parts: Parts, order_id: int, item_id: int, form: Filled = EMPTY
) -> Response:
    _require(who, parts, order_id, item_id)
    with parts.db.transaction(tenant(who.caller)) as tx:
        order, item = store.read_order(tx, order_id), reading.read_item(tx, item_id)
        card = read_card(tx, item_id)
    if card is None or card.issued_at is None or card.voided_at is not None:
        return go(f"/orders/{order_id}/items/{item_id}", said="giftcard_not_there")
    return show_form(
        request,
        "orders/take_back.html",
        who,
        form,
        order=order,
        item=item,
        card=card,
        name=whom(item),
        others=form.unseen(("reason",)),
    )
