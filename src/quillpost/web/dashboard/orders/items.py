"""The items of an order, and one of them.

What is stored is the day of the carrier's own clock, or of UTC where nobody saw the delivery.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.service import tenant
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, Invalid, NotFound, Refused, Unpaid
from quillpost.core.paging import Page, PageRequest
from quillpost.orders import items
from quillpost.orders import queries as order_queries
from quillpost.orders.giftcards.queries import Card, read_card
from quillpost.orders.models import Item
from quillpost.orders.rules import ItemStatus
from quillpost.orders.search import Sought, search
from quillpost.web import rendering as pages
from quillpost.web.api.dependencies import Pen, Unit, id_in_path
from quillpost.web.api.giftcards.invalidation import LONGEST_REASON, prepare_another, take_card_back
from quillpost.web.cookies import zone_of
from quillpost.web.dashboard.forms import EMPTY, Filled, show_form
from quillpost.web.dashboard.lists_common import asked_page
from quillpost.web.dashboard.orders import labels
from quillpost.web.dashboard.orders.actions import WHOLE
from quillpost.web.dashboard.orders.labels import whom
from quillpost.web.forms import PostedForm
from quillpost.web.live_updates import stream
from quillpost.web.rendering import go, show
from quillpost.web.sessions import OurParts, Reader, is_fragment

TOLD = sa.text(
    """
    select item_id, coalesce(seen_at, at) as at, inferred from facts
     where item_id = any(:items) and kind = 'item.status' order by id
    """
)


def told_day(at: datetime) -> date | None:
    """The day, where a carrier told that alone. It is kept as the midnight with which UTC's begins, and is
    the same day wherever one reads of it."""
    there = at.astimezone(UTC)
    return there.date() if there.time() == time.min else None


def delivered_days(tx: Tx, pieces: Iterable[Item], zone: ZoneInfo) -> dict[int, date]:
    """By the piece's id; only of those that are delivered."""
    delivered = {item.id: item for item in pieces if item.delivery_date is not None}
    told: dict[int, list[sa.Row[Any]]] = {}
    if delivered:
        for row in tx.execute(TOLD, {"items": list(delivered)}):
            told.setdefault(row.item_id, []).append(row)
    return {number: _day(item, told.get(number, ()), zone) for number, item in delivered.items()}


def _day(item: Item, told: Sequence[sa.Row[Any]], zone: ZoneInfo) -> date:
    stored = item.delivery_date
    assert stored is not None
    # Seen after all once it was inferred: of that the day is kept, and no moment.
    if not told or (told[-1].inferred and not item.delivery_inferred):
        return stored
    moments = [row.at for row in told[-1:]]
    if item.delivery_inferred:  # when it was last seen, or when nobody waited any longer
        moments = [row.at for row in reversed(told) if row.at.astimezone(UTC).date() == stored]
    if not moments or told_day(moments[0]):
        return stored
    there: datetime = moments[0].astimezone(zone)
    return there.date()


router = APIRouter(include_in_schema=False)

LIVE_PARTS = ("state", "way", "numbers", "card")
"""What of a piece's page changes while one looks on: each is a template."""
A_PAGE = 50
MOST_FOUND = 100
LONGEST_NAME = 100


@router.get("/orders/{order_id}/items")
def items_page(
    request: Request,
    order_id: str,
    who: Reader,
    parts: OurParts,
    page: str = "",
    status: str = "",
    q: str = "",
) -> Response:
    number, name = id_in_path(order_id), q.replace("\x00", "").strip()[:LONGEST_NAME]
    wanted = _status(status)
    asked, is_cut = asked_page(page, per_page=A_PAGE), False
    with parts.db.transaction(tenant(who.caller)) as tx:
        order = items.read_order(tx, number)
        if name:
            sought = Sought(name=name, order_id=order.id)
            found = search(parts.db, tx, tenant(who.caller), sought, most=MOST_FOUND)
            rows = [item for item in found.items if wanted in (None, item.status)]
            is_cut = found.is_cut
            listed = Page(rows, len(rows), PageRequest(1, MOST_FOUND))
        else:
            listed = order_queries.list_items(tx, order, asked, status=wanted)
        days = delivered_days(tx, listed.rows, zone_of(request))
    return show(
        request,
        "orders/items_found.html" if is_fragment(request) else "orders/items.html",
        who=who,
        order=order,
        piece=labels.piece_words(order),
        listed=listed,
        days=days,
        is_cut=is_cut,
        typed={"status": wanted.value if wanted else "", "q": name},
        statuses=[(each.value, labels.status_words(order, each)) for each in ItemStatus if order.tally[each]],
        whom=labels.whom,
        status_words=labels.status_words,
        given_address=labels.given_address,
    )


@router.get("/orders/{order_id}/items/{item_id}")
def item_page(request: Request, order_id: str, item_id: str, who: Reader, parts: OurParts) -> Response:
    moving = _moving(who, parts, id_in_path(order_id), id_in_path(item_id), zone_of(request))
    order, item = moving["order"], moving["item"]
    return show(
        request,
        "orders/item.html",
        who=who,
        **moving,
        now=parts.clock(),
        piece=labels.piece_words(order),
        name=labels.whom(item),
        given=labels.given_address(item),
        printed=labels.printed_address(item),
        extras=_extras(item),
    )


@router.get("/orders/{order_id}/items/{item_id}/live")
def follow(request: Request, order_id: str, item_id: str, who: Reader, parts: OurParts) -> StreamingResponse:
    number, piece, zone = id_in_path(order_id), id_in_path(item_id), zone_of(request)
    with parts.db.transaction(tenant(who.caller)) as tx:
        _of_order(order_queries.read_item(tx, piece), number)

    def draw() -> Mapping[str, str]:
        moving = _moving(who, parts, number, piece, zone)
        return {name: pages.text_of(f"orders/item_{name}.html", zone=zone, **moving) for name in LIVE_PARTS}

    return stream(request, who, ("item", piece), draw)


def _moving(who: SignedIn, parts: Parts, order_id: int, item_id: int, zone: ZoneInfo) -> dict[str, Any]:
    """What the parts of a piece's page show that change. `NotFound` where it is not the reader's."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        item = _of_order(order_queries.read_item(tx, item_id), order_id)
        card = read_card(tx, item.id)
        return {
            "order": items.read_order(tx, order_id),
            "item": item,
            "card": card,
            "can_take_back": _can_be_taken_back(card),
            "steps": order_queries.history(tx, item),
            "price": order_queries.price_of(tx, item.id),
            "day": delivered_days(tx, [item], zone).get(item.id),
            "told_day": told_day,
            "status_words": labels.status_words,
        }


def _of_order(item: Item, order_id: int) -> Item:
    if item.order_id != order_id:
        raise NotFound
    return item


def _can_be_taken_back(card: Card | None) -> bool:
    return (
        card is not None and card.issued_at is not None and card.claimed_at is None and card.voided_at is None
    )


def _extras(item: Item) -> list[tuple[str, str]]:
    """What else is known of whom it goes to."""
    known: list[tuple[str, str | None]] = [
        ("Company", item.company if item.name else None),
        ("E-mail", item.email),
        ("Phone", item.phone),
        ("Birthday", item.dob.isoformat() if item.dob else None),
        ("Anniversary", item.anniversary.isoformat() if item.anniversary else None),
        *((f"Custom {n}", value) for n, value in enumerate(item.custom, 1)),
    ]
    return [(name, value) for name, value in known if value]


def _status(given: str) -> ItemStatus | None:
    by_lower = {status.value.lower(): status for status in ItemStatus}
    return by_lower.get(given.strip().lower())


PATH = "/orders/{order_id}/items/{item_id}/take-back"


@router.get(PATH)
def take_back_page(request: Request, order_id: str, item_id: str, who: Reader, parts: OurParts) -> Response:
    return _giftcard_page(request, who, parts, id_in_path(order_id), id_in_path(item_id))


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
        return _giftcard_page(request, who, parts, number, piece, Filled.back(form, wrong, at=WHOLE))
    except (Refused, Unpaid, Conflict) as refused:
        told = Invalid({WHOLE: [refused.message]})
        return _giftcard_page(request, who, parts, number, piece, Filled.back(form, told, at=WHOLE))
    if reissues and sent is not None:
        return go(f"/orders/{sent}", said="giftcard_sent_anew")
    return go(f"/orders/{number}/items/{piece}", said="giftcard_taken_back")


def _require(who: SignedIn, parts: Parts, order_id: int, item_id: int) -> None:
    with parts.db.transaction(tenant(who.caller)) as tx:
        if order_queries.read_item(tx, item_id).order_id != order_id:
            raise NotFound


def _giftcard_page(
    request: Request, who: SignedIn, parts: Parts, order_id: int, item_id: int, form: Filled = EMPTY
) -> Response:
    _require(who, parts, order_id, item_id)
    with parts.db.transaction(tenant(who.caller)) as tx:
        order, item = items.read_order(tx, order_id), order_queries.read_item(tx, item_id)
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
