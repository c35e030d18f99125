"""The pieces of an order, and one of them, whose way is followed while one looks."""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.service import tenant
from quillpost.api.needs import id_in_path
from quillpost.dashboard.orders import order_words
from quillpost.dashboard.orders.delivered import delivered_days, told_day
from quillpost.dashboard.paging import asked_page
from quillpost.giftcards.cards import Card, read_card
from quillpost.kit.errors import NotFound
from quillpost.kit.paging import Page, PageRequest
from quillpost.orders import reading, store
from quillpost.orders.records import Item
from quillpost.orders.rules import ItemStatus
from quillpost.orders.search import Sought, search
from quillpost.pages import render as pages
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.live import stream
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts, Reader, is_fragment
from quillpost.reception.zones import zone_of

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
        order = store.read_order(tx, number)
        if name:
            sought = Sought(name=name, order_id=order.id)
            found = search(parts.db, tx, tenant(who.caller), sought, most=MOST_FOUND)
            rows = [item for item in found.items if wanted in (None, item.status)]
            is_cut = found.is_cut
            listed = Page(rows, len(rows), PageRequest(1, MOST_FOUND))
        else:
            listed = reading.list_items(tx, order, asked, status=wanted)
        days = delivered_days(tx, listed.rows, zone_of(request))
    return show(
        request,
        "orders/items_found.html" if is_fragment(request) else "orders/items.html",
        who=who,
        order=order,
        piece=order_words.piece_words(order),
        listed=listed,
        days=days,
        is_cut=is_cut,
        typed={"status": wanted.value if wanted else "", "q": name},
        statuses=[
            (each.value, order_words.status_words(order, each)) for each in ItemStatus if order.tally[each]
        ],
        whom=order_words.whom,
        status_words=order_words.status_words,
        given_address=order_words.given_address,
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
        piece=order_words.piece_words(order),
        name=order_words.whom(item),
        given=order_words.given_address(item),
        printed=order_words.printed_address(item),
        extras=_extras(item),
    )


@router.get("/orders/{order_id}/items/{item_id}/live")
def follow(request: Request, order_id: str, item_id: str, who: Reader, parts: OurParts) -> StreamingResponse:
    number, piece, zone = id_in_path(order_id), id_in_path(item_id), zone_of(request)
    with parts.db.transaction(tenant(who.caller)) as tx:
        _of_order(reading.read_item(tx, piece), number)

    def draw() -> Mapping[str, str]:
        moving = _moving(who, parts, number, piece, zone)
        return {name: pages.text_of(f"orders/item_{name}.html", zone=zone, **moving) for name in LIVE_PARTS}

    return stream(request, who, ("item", piece), draw)


def _moving(who: SignedIn, parts: Parts, order_id: int, item_id: int, zone: ZoneInfo) -> dict[str, Any]:
    """What the parts of a piece's page show that change. `NotFound` where it is not the reader's."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        item = _of_order(reading.read_item(tx, item_id), order_id)
        card = read_card(tx, item.id)
        return {
            "order": store.read_order(tx, order_id),
            "item": item,
            "card": card,
            "can_take_back": _can_be_taken_back(card),
            "steps": reading.history(tx, item),
            "price": reading.price_of(tx, item.id),
            "day": delivered_days(tx, [item], zone).get(item.id),
            "told_day": told_day,
            "status_words": order_words.status_words,
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
