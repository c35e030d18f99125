"""The items of an order, one of them, and their pictures."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, Final
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from fastapi import APIRouter, Response

from quillpost.core.cache import SharedCache
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items
from quillpost.core.errors import Conflict, Invalid, NotFound, Refused, Unpaid
from quillpost.core.paging import Page, PageRequest
from quillpost.fulfillment.service import draw_item
from quillpost.orders import designs
from quillpost.orders import queries as order_queries
from quillpost.orders.giftcards import service as giftcard_service
from quillpost.orders.giftcards.queries import ItemGiftcard, read_card
from quillpost.orders.giftcards.service import MAX_REASON_LENGTH
from quillpost.orders.handwriting.models import NO_OWN_HANDWRITING
from quillpost.orders.items import queries as item_queries
from quillpost.orders.items.models import Item
from quillpost.orders.items.queries import ItemQuery, search_by_recipient
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, parse_page
from quillpost.web.dashboard.orders import labels
from quillpost.web.dashboard.orders.actions import GENERAL_ERROR_FIELD
from quillpost.web.dashboard.orders.labels import product_label, recipient_label
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.dependencies import AuditWriter, parse_digits, parse_path_id
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.sessions import is_fragment

STATUS_FACTS_SQL = sa.text(
    """
    select item_id, coalesce(seen_at, at) as at, inferred from facts
     where item_id = any(:items) and kind = 'item.status' order by id
    """
)


def date_if_midnight(at: datetime) -> date | None:
    """The day, if the carrier gave only that: it is stored as midnight UTC, and the same day in every zone."""
    utc_time = at.astimezone(UTC)
    return utc_time.date() if utc_time.time() == time.min else None


def read_delivery_days(tx: Tx, order_items: Iterable[Item], zone: ZoneInfo) -> dict[int, date]:
    """By item id, of those that are delivered."""
    delivered_items = {item.id: item for item in order_items if item.delivery_date is not None}
    facts_by_item: dict[int, list[sa.Row[Any]]] = {}
    if delivered_items:
        for row in tx.execute(STATUS_FACTS_SQL, {"items": list(delivered_items)}):
            facts_by_item.setdefault(row.item_id, []).append(row)
    return {
        item_id: _delivery_day(item, facts_by_item.get(item_id, ()), zone) for item_id, item in delivered_items.items()
    }


def _delivery_day(item: Item, facts: Sequence[sa.Row[Any]], zone: ZoneInfo) -> date:
    stored_day = item.delivery_date
    assert stored_day is not None
    # Seen after all once it was inferred: of that the day is kept, and no moment.
    if not facts or (facts[-1].inferred and not item.delivery_inferred):
        return stored_day
    moments = [row.at for row in facts[-1:]]
    if item.delivery_inferred:  # when it was last seen, or when nobody waited any longer
        moments = [row.at for row in reversed(facts) if row.at.astimezone(UTC).date() == stored_day]
    if not moments or date_if_midnight(moments[0]):
        return stored_day
    local_time: datetime = moments[0].astimezone(zone)
    return local_time.date()


router = APIRouter(include_in_schema=False)

LIVE_FRAGMENTS: Final[Mapping[str, str]] = {
    "state": "orders/item_state.html",
    "way": "orders/item_steps.html",
    "numbers": "orders/item_numbers.html",
    "card": "orders/item_card.html",
}
"""Templates of the parts that change while the page is open."""
PAGE_SIZE = 50
MAX_RESULTS = 100
MAX_NAME_LENGTH = 100


@router.get("/orders/{order_id}/items")
def items_page(context: UserContext, order_id: PathId, page: str = "", status: str = "", q: str = "") -> Response:
    name, item_status = q.replace("\x00", "").strip()[:MAX_NAME_LENGTH], _parse_status(status)
    page_request, is_cut = parse_page(page, per_page=PAGE_SIZE), False
    with context.transaction() as tx:
        order = order_queries.read_order(tx, order_id)
        if name:
            query = ItemQuery(name=name, order_id=order.id)
            result = search_by_recipient(context.container.db, tx, context.tenant, query, limit=MAX_RESULTS)
            matching_items = [item for item in result.items if item_status in (None, item.status)]
            is_cut = result.is_cut
            result_page = Page(matching_items, len(matching_items), PageRequest(1, MAX_RESULTS))
        else:
            result_page = item_queries.list_items(tx, order, page_request, status=item_status)
        days = read_delivery_days(tx, result_page.rows, context.zone)
    return context.render(
        "orders/items_fragment.html" if is_fragment(context.request) else "orders/items.html",
        FormState({"status": [item_status.value if item_status else ""], "q": [name]}),
        order=order,
        page=result_page,
        delivery_days=days,
        is_truncated=is_cut,
        statuses=[
            (each.value, labels.item_status_label(order, each)) for each in ItemStatus if order.status_counts[each]
        ],
        recipient_label=recipient_label,
        status_label=labels.item_status_label,
        entered_address=labels.entered_address,
    )


@router.get("/orders/{order_id}/items/{item_id}")
def item_page(context: UserContext, order_id: PathId, item_id: PathId) -> Response:
    live_values = _live_context(context, order_id, item_id)
    order, item = live_values["order"], live_values["item"]
    return context.render(
        "orders/item.html",
        **live_values,
        product=product_label(order),
        recipient_name=recipient_label(item),
        entered_address=labels.entered_address(item),
        printed_address=labels.printed_address(item),
        extra_fields=_extra_fields(item),
    )


@router.get("/orders/{order_id}/items/{item_id}/live")
def stream_item(context: UserContext, order_id: PathId, item_id: PathId) -> Response:
    with context.transaction() as tx:
        _read_item(tx, order_id, item_id)
    return context.stream(("item", item_id), LIVE_FRAGMENTS, lambda: _live_context(context, order_id, item_id))


def _live_context(context: RequestContext, order_id: int, item_id: int) -> dict[str, Any]:
    """`NotFound` where the item is not the reader's."""
    with context.transaction() as tx:
        item = _read_item(tx, order_id, item_id)
        card = read_card(tx, item.id)
        return {
            "order": order_queries.read_order(tx, order_id),
            "item": item,
            "card": card,
            "can_void_card": _can_take_back(card),
            "steps": item_queries.list_item_steps(tx, item),
            "price": item_queries.read_item_price(tx, item.id),
            "delivery_day": read_delivery_days(tx, [item], context.zone).get(item.id),
            "date_if_midnight": date_if_midnight,
            "status_label": labels.item_status_label,
        }


def _read_item(tx: Tx, order_id: int, item_id: int) -> Item:
    item = item_queries.read_item(tx, item_id)
    if item.order_id != order_id:
        raise NotFound
    return item


def _can_take_back(card: ItemGiftcard | None) -> bool:
    return card is not None and card.issued_at is not None and card.claimed_at is None and card.voided_at is None


def _extra_fields(item: Item) -> list[tuple[str, str]]:
    fields: list[tuple[str, str | None]] = [
        ("Company", item.company if item.name else None),
        ("E-mail", item.email),
        ("Phone", item.phone),
        ("Birthday", item.dob.isoformat() if item.dob else None),
        ("Anniversary", item.anniversary.isoformat() if item.anniversary else None),
        *((f"Custom {n}", value) for n, value in enumerate(item.custom, 1)),
    ]
    return [(name, value) for name, value in fields if value]


def _parse_status(text: str) -> ItemStatus | None:
    by_lower = {status.value.lower(): status for status in ItemStatus}
    return by_lower.get(text.strip().lower())


TAKE_BACK_PATH = "/orders/{order_id}/items/{item_id}/take-back"


@router.get(TAKE_BACK_PATH)
def take_back_page(context: UserContext, order_id: PathId, item_id: PathId) -> Response:
    return _render_take_back_page(context, order_id, item_id)


@router.post(TAKE_BACK_PATH)
def take_back(context: UserContext, order_id: PathId, item_id: PathId, form: PostedForm) -> Response:
    """Sent twice, it is done once: a void card stays void, and one replacement is sent."""
    with context.transaction() as tx:
        _read_item(tx, order_id, item_id)
    is_reissued = form.text("reissue") == "on"
    orders, caller = context.container.orders, context.user.caller
    audit_log = AuditWriter(caller, context.user.address, context.now, context.user.actor)
    try:
        reason = form.text("reason", max_length=MAX_REASON_LENGTH) or None
        reissue = giftcard_service.prepare_reissue(orders, caller, item_id) if is_reissued else None
        with context.transaction() as tx:
            new_order_id = giftcard_service.take_back_card(
                orders, tx, caller, item_id, reason=reason, reissue=reissue, record_audit=audit_log.record
            )
    except (Invalid, Refused, Unpaid, Conflict) as error:
        state = FormState.from_error(form, error, default_field=GENERAL_ERROR_FIELD)
        return _render_take_back_page(context, order_id, item_id, state)
    if is_reissued and new_order_id is not None:
        return redirect(f"/orders/{new_order_id}", flash="giftcard_sent_anew")
    return redirect(f"/orders/{order_id}/items/{item_id}", flash="giftcard_taken_back")


def _render_take_back_page(
    context: RequestContext, order_id: int, item_id: int, form: FormState = EMPTY_FORM
) -> Response:
    with context.transaction() as tx:
        item, order = _read_item(tx, order_id, item_id), order_queries.read_order(tx, order_id)
        card = read_card(tx, item_id)
    if card is None or card.issued_at is None or card.voided_at is not None:
        return redirect(f"/orders/{order_id}/items/{item_id}", flash="giftcard_not_there")
    return context.render(
        "orders/void_giftcard.html",
        form,
        order=order,
        item=item,
        card=card,
        recipient_name=recipient_label(item),
        general_errors=form.list_errors_outside(("reason",)),
    )


CACHE_BYTES: Final = 24_000_000

SidePicture = tuple[str, bytes]
"""The name of the side, and its PNG."""
PictureCache = SharedCache[str, Sequence[SidePicture]]


def new_picture_cache() -> PictureCache:
    """Keyed by all that a picture is drawn from, so that none is stale."""
    return SharedCache(max_size=CACHE_BYTES, size_of=lambda pictures: sum(len(png) for _, png in pictures))


@router.get("/orders/{order_id}/looks")
def pictures_fragment(context: UserContext, order_id: PathId, item: str = "", alone: str = "") -> Response:
    """A part of the order's page, or a page by itself. `alone`: of one item, without a link to the next."""
    with context.transaction() as tx:
        order = order_queries.read_order(tx, order_id)
        shown_item = _find_item(tx, order, item)
        previous_id, next_id = _neighbor_ids(tx, order, shown_item) if shown_item else (None, None)
    pictures: Sequence[SidePicture] = ()
    error_message = (
        "There are no pieces yet. They are drawn as soon as the order has some." if shown_item is None else None
    )
    if shown_item is not None:
        try:
            pictures = _draw_pictures(context, order, shown_item)
        except Refused as error:
            error_message = error.message
    return context.render(
        "orders/previews_fragment.html" if is_fragment(context.request) else "orders/previews.html",
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
def item_picture(context: UserContext, order_id: PathId, item_id: PathId, place: str) -> Response:
    """Browsers keep it, and ask whether it has changed."""
    with context.transaction() as tx:
        item, order = _read_item(tx, order_id, item_id), order_queries.read_order(tx, order_id)
    position = parse_digits(place) or 0

    def draw() -> bytes:
        pictures = _draw_pictures(context, order, item)
        if not 1 <= position <= len(pictures):
            raise NotFound
        return pictures[position - 1][1]

    return context.picture(f"{_picture_key(order, item)}-{position}", draw)


def _find_item(tx: Tx, order: Order, item_id: str) -> Item | None:
    """The item asked for, or the first."""
    if item_id.strip() and (number := parse_path_id(item_id.strip())):
        return _read_item(tx, order.id, number)
    return next(iter(item_queries.list_first_items(tx, order.id, limit=1)), None)


def _neighbor_ids(tx: Tx, order: Order, item: Item) -> tuple[int | None, int | None]:
    of_order = items.c.order_id == order.id
    previous_item = sa.select(items.c.id).where(of_order, items.c.id < item.id).order_by(items.c.id.desc())
    next_item = sa.select(items.c.id).where(of_order, items.c.id > item.id).order_by(items.c.id)
    return tx.scalar(previous_item.limit(1)), tx.scalar(next_item.limit(1))


def _draw_pictures(context: RequestContext, order: Order, item: Item) -> Sequence[SidePicture]:
    cache: PictureCache = context.request.app.state.order_preview_cache

    def draw() -> Sequence[SidePicture]:
        preview = draw_item(context.container.production, order, item)
        envelope = [] if preview.envelope is None else [("envelope", preview.envelope)]
        return [*preview.sides.items(), *envelope]

    return cache.get(_picture_key(order, item), draw)


def _picture_key(order: Order, item: Item) -> str:
    """Of all that the picture is drawn from, and nothing that happens to the item later."""
    # A style and a signature never change, so their numbers say enough.
    design = designs.build_design(
        order, own_handwriting=NO_OWN_HANDWRITING, sender=order.sender, return_address=order.return_address, indicia=()
    )
    key_fields = (
        design,
        order.signature_id,
        order.mode,
        order.mail_class,
        order.qrcode_url,
        designs.DesignKey.for_item(item, order),
        designs.build_addressee(item, order),
        item.id,
        item.code,
    )
    return hashlib.sha256(repr(key_fields).encode()).hexdigest()[:32]
