"""Pictures of an order's pieces: drawn when somebody looks, and remembered for a while."""

import hashlib
from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa
from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import build_tenant
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.cache import LruCache
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items
from quillpost.core.errors import NotFound, Refused
from quillpost.fulfillment.proofs import draw_item
from quillpost.orders import designs
from quillpost.orders import items as order_items
from quillpost.orders import queries as order_queries
from quillpost.orders.models import Item, Order
from quillpost.web.api.bodies import parse_digits
from quillpost.web.api.dependencies import parse_path_id
from quillpost.web.dashboard.orders.labels import product_label, recipient_label
from quillpost.web.dependencies import Services
from quillpost.web.rendering import render_page
from quillpost.web.sessions import CurrentUser, is_fragment

router = APIRouter(include_in_schema=False)

CACHE_BYTES: Final = 24_000_000
ENVELOPE_NAME: Final = "envelope"

SidePicture = tuple[str, bytes]
"""What a picture shows, and the PNG."""
PictureCache = LruCache[str, Sequence[SidePicture]]


def new_picture_cache() -> PictureCache:
    """Pictures that were drawn lately. Each is known by all that it is drawn from, so that none is stale."""
    return LruCache(max_bytes=CACHE_BYTES, size_of=lambda pictures: sum(len(png) for _, png in pictures))


@router.get("/orders/{order_id}/looks")
def pictures_fragment(
    request: Request, order_id: str, user: CurrentUser, container: Services, item: str = "", alone: str = ""
) -> Response:
    """A part of the order's page, or a page by itself. `alone`: of one piece, without a way to the next."""
    number = parse_path_id(order_id)
    with container.db.transaction(build_tenant(user.caller)) as tx:
        order = order_items.read_order(tx, number)
        shown_item = _find_item(tx, order, item)
        previous_id, next_id = _neighbor_ids(tx, order, shown_item) if shown_item else (None, None)
    pictures: Sequence[SidePicture] = ()
    error_message = (
        "There are no pieces yet. They are drawn as soon as the order has some." if shown_item is None else None
    )
    if shown_item is not None:
        try:
            pictures = _draw_pictures(request, container, order, shown_item)
        except Refused as error:
            error_message = error.message
    return render_page(
        request,
        "orders/previews_fragment.html" if is_fragment(request) else "orders/previews.html",
        user=user,
        order=order,
        product=product_label(order),
        item=shown_item,
        recipient_label=recipient_label,
        side_names=[name for name, _ in pictures],
        previous_id=previous_id,
        next_id=next_id,
        error_message=error_message,
        is_single=bool(alone),
        etag=_picture_key(order, shown_item)[:12] if shown_item else "",
    )


@router.get("/orders/{order_id}/looks/{item_id}/{place}.png")
def item_picture(
    request: Request, order_id: str, item_id: str, place: str, user: CurrentUser, container: Services
) -> Response:
    """One of a piece's pictures. Browsers keep it, and ask whether it is still the same: what it is drawn
    from says so."""
    order, item = _read_order_item(user, container, parse_path_id(order_id), parse_path_id(item_id))
    etag = f'"{_picture_key(order, item)}-{parse_digits(place) or 0}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    pictures, number = _draw_pictures(request, container, order, item), parse_digits(place) or 0
    if not 1 <= number <= len(pictures):
        raise NotFound
    return Response(pictures[number - 1][1], media_type="image/png", headers=headers)


def _read_order_item(user: SignedInUser, container: Container, order_id: int, item_id: int) -> tuple[Order, Item]:
    with container.db.transaction(build_tenant(user.caller)) as tx:
        item = order_queries.read_item(tx, item_id)
        if item.order_id != order_id:
            raise NotFound
        return order_items.read_order(tx, order_id), item


def _find_item(tx: Tx, order: Order, item_id: str) -> Item | None:
    """The piece that was asked for, or the first."""
    number = parse_path_id(item_id.strip()) if item_id.strip() else 0
    if number:
        item = order_queries.read_item(tx, number)
        if item.order_id != order.id:
            raise NotFound
        return item
    return next(iter(order_queries.list_first_items(tx, order.id, limit=1)), None)


def _neighbor_ids(tx: Tx, order: Order, item: Item) -> tuple[int | None, int | None]:
    """The pieces before and after this one."""
    of_order = items.c.order_id == order.id
    previous_item = sa.select(items.c.id).where(of_order, items.c.id < item.id).order_by(items.c.id.desc())
    next_item = sa.select(items.c.id).where(of_order, items.c.id > item.id).order_by(items.c.id)
    return tx.scalar(previous_item.limit(1)), tx.scalar(next_item.limit(1))


def _draw_pictures(request: Request, container: Container, order: Order, item: Item) -> Sequence[SidePicture]:
    cache: PictureCache = request.app.state.order_preview_cache

    def draw() -> Sequence[SidePicture]:
        preview = draw_item(container.production, order, item)
        envelope = [] if preview.envelope is None else [(ENVELOPE_NAME, preview.envelope)]
        return [*preview.sides.items(), *envelope]

    return cache.get(_picture_key(order, item), draw)


def _picture_key(order: Order, item: Item) -> str:
    """By all that the picture is drawn from, and nothing that happens to the piece later."""
    design = designs.build_design(order, sender=order.sender, return_address=order.return_address, indicia=())
    key_fields = (
        design,
        order.mode,
        order.mail_class,
        order.qrcode_url,
        designs.DesignKey.for_item(item, order),
        designs.build_addressee(item, order),
        item.id,
        item.code,
    )
    return hashlib.sha256(repr(key_fields).encode()).hexdigest()[:32]
