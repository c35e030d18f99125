"""Pictures of an order's pieces: drawn when somebody looks, and remembered for a while."""

import hashlib
from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa
from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.cache import Recent
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items
from quillpost.core.errors import NotFound, Refused
from quillpost.fulfillment.proofs import draw_piece
from quillpost.orders import designs
from quillpost.orders import items as store
from quillpost.orders import queries as order_queries
from quillpost.orders.models import Item, Order
from quillpost.web.api.bodies import whole_number
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.dashboard.orders.labels import piece_words, whom
from quillpost.web.rendering import show
from quillpost.web.sessions import OurParts, Reader, is_fragment

router = APIRouter(include_in_schema=False)

MOST_BYTES: Final = 24_000_000
ENVELOPE: Final = "envelope"

Look = tuple[str, bytes]
"""What a picture shows, and the PNG."""
Looks = Recent[str, Sequence[Look]]


def remembered_looks() -> Looks:
    """Pictures that were drawn lately. Each is known by all that it is drawn from, so that none is stale."""
    return Recent(most_bytes=MOST_BYTES, size=lambda looks: sum(len(png) for _, png in looks))


@router.get("/orders/{order_id}/looks")
def looks_part(
    request: Request, order_id: str, who: Reader, parts: OurParts, item: str = "", alone: str = ""
) -> Response:
    """A part of the order's page, or a page by itself. `alone`: of one piece, without a way to the next."""
    number = id_in_path(order_id)
    with parts.db.transaction(tenant(who.caller)) as tx:
        order = store.read_order(tx, number)
        shown = _chosen(tx, order, item)
        before, after = _neighbours(tx, order, shown) if shown else (None, None)
    looks: Sequence[Look] = ()
    trouble = (
        "There are no pieces yet. They are drawn as soon as the order has some." if shown is None else None
    )
    if shown is not None:
        try:
            looks = _looks(request, parts, order, shown)
        except Refused as refused:
            trouble = refused.message
    return show(
        request,
        "orders/looks_part.html" if is_fragment(request) else "orders/looks.html",
        who=who,
        order=order,
        piece=piece_words(order),
        item=shown,
        whom=whom,
        names=[name for name, _ in looks],
        before=before,
        after=after,
        trouble=trouble,
        is_alone=bool(alone),
        etag=_key(order, shown)[:12] if shown else "",
    )


@router.get("/orders/{order_id}/looks/{item_id}/{place}.png")
def picture(
    request: Request, order_id: str, item_id: str, place: str, who: Reader, parts: OurParts
) -> Response:
    """One of a piece's pictures. Browsers keep it, and ask whether it is still the same: what it is drawn
    from says so."""
    order, item = _own(who, parts, id_in_path(order_id), id_in_path(item_id))
    tag = f'"{_key(order, item)}-{whole_number(place) or 0}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    looks, number = _looks(request, parts, order, item), whole_number(place) or 0
    if not 1 <= number <= len(looks):
        raise NotFound
    return Response(looks[number - 1][1], media_type="image/png", headers=headers)


def _own(who: SignedIn, parts: Parts, order_id: int, item_id: int) -> tuple[Order, Item]:
    with parts.db.transaction(tenant(who.caller)) as tx:
        item = order_queries.read_item(tx, item_id)
        if item.order_id != order_id:
            raise NotFound
        return store.read_order(tx, order_id), item


def _chosen(tx: Tx, order: Order, asked: str) -> Item | None:
    """The piece that was asked for, or the first."""
    number = id_in_path(asked.strip()) if asked.strip() else 0
    if number:
        item = order_queries.read_item(tx, number)
        if item.order_id != order.id:
            raise NotFound
        return item
    return next(iter(order_queries.first_items(tx, order.id, most=1)), None)


def _neighbours(tx: Tx, order: Order, item: Item) -> tuple[int | None, int | None]:
    """The pieces before and after this one."""
    of_order = items.c.order_id == order.id
    before = sa.select(items.c.id).where(of_order, items.c.id < item.id).order_by(items.c.id.desc())
    after = sa.select(items.c.id).where(of_order, items.c.id > item.id).order_by(items.c.id)
    return tx.scalar(before.limit(1)), tx.scalar(after.limit(1))


def _looks(request: Request, parts: Parts, order: Order, item: Item) -> Sequence[Look]:
    kept: Looks = request.app.state.order_looks

    def draw() -> Sequence[Look]:
        drawn = draw_piece(parts.press, order, item)
        envelope = [] if drawn.envelope is None else [(ENVELOPE, drawn.envelope)]
        return [*drawn.sides.items(), *envelope]

    return kept.get(_key(order, item), draw)


def _key(order: Order, item: Item) -> str:
    """By all that the picture is drawn from, and nothing that happens to the piece later."""
    drawn_from = (
        order.id,
        order.mode,
        order.piece,
        order.mail_class,
        order.message,
        order.style,
        order.handwriting_color,
        order.handwriting_realism,
        order.font_size,
        order.pdf_only,
        order.brand,
        order.gift,
        order.sender,
        order.return_address,
        order.qrcode_url,
        designs.DesignKey.of(item, order),
        designs.addressee(item, or_current_resident=order.append_or_current_resident),
        item.id,
        item.code,
    )
    return hashlib.sha256(repr(drawn_from).encode()).hexdigest()[:32]
