"""All orders, and one of them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, read_sub_account, titles_of
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core import exact_json
from quillpost.core.database import Tenant, Tx
from quillpost.core.errors import NotFound
from quillpost.core.paging import Page, PageRequest
from quillpost.fulfillment.proofs import draw_proof
from quillpost.fulfillment.readiness import for_senders, pause_warning, service_gaps
from quillpost.orders import items
from quillpost.orders import queries as order_queries
from quillpost.orders.models import Order
from quillpost.orders.queries import OrderStep
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.search import search
from quillpost.orders.service import NOT_MAILED_TO
from quillpost.orders.stats import NotMailed, count_not_mailed
from quillpost.recipients.lists.queries import known_lists
from quillpost.web import rendering as pages
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.cookies import zone_of
from quillpost.web.dashboard.labels import Ink
from quillpost.web.dashboard.lists_common import asked_page
from quillpost.web.dashboard.orders import labels
from quillpost.web.dashboard.orders.filters import Wanted
from quillpost.web.dashboard.orders.labels import STATUSES, TYPE_WORDS, journey, piece_words
from quillpost.web.live_updates import stream
from quillpost.web.rendering import show
from quillpost.web.sessions import OurParts, Reader, is_fragment

router = APIRouter(include_in_schema=False)

MOST_COUNTED = 10_000
MOST_PIECES = 500
"""Of those that a search finds: who has more types more."""
MOST_ORDERS = 100


@dataclass(frozen=True, slots=True)
class Listed:
    """Orders to show. `is_cut`: there are more than are counted, or than a search looks at."""

    page: Page[Order]
    is_cut: bool


@router.get("/orders")
def list_page(request: Request, who: Reader, parts: OurParts, page: str = "") -> Response:
    wanted, zone = Wanted.of(request.query_params), zone_of(request)
    with parts.db.transaction(tenant(who.caller)) as tx:
        listed = _listed(parts, tx, who, wanted, asked_page(page), zone)
        titles = titles_of(list_sub_accounts(tx)) if who.here.sub_account_id is None else {}
    return show(
        request,
        "orders/found.html" if is_fragment(request) else "orders/list.html",
        who=who,
        now=parts.clock(),
        listed=listed,
        wanted=wanted,
        is_part=is_fragment(request),
        typed=wanted.typed,
        titles=titles,
        statuses=STATUSES,
        types=TYPE_WORDS,
        journey=journey,
        piece_words=piece_words,
    )


def _listed(
    parts: Parts, tx: Tx, who: SignedIn, wanted: Wanted, asked: PageRequest, zone: ZoneInfo
) -> Listed:
    if wanted.q and not wanted.metadata:
        return _searched(parts, tx, tenant(who.caller), wanted, zone)
    page = order_queries.list_orders(
        parts.db, tx, tenant(who.caller), asked, wanted.filter(zone), most=MOST_COUNTED
    )
    is_counted = not wanted.filter(zone).is_tallied
    return Listed(page, is_cut=is_counted and page.total > MOST_COUNTED)


def _searched(parts: Parts, tx: Tx, who: Tenant, wanted: Wanted, zone: ZoneInfo) -> Listed:
    """Orders with this number, or with pieces to somebody of this name, street or e-mail."""
    found, is_cut = _by_number(tx, wanted.number), False
    for sought in wanted.sought if not found else ():
        hits = search(parts.db, tx, who, sought, most=MOST_PIECES)
        found, is_cut = hits.orders, hits.is_cut
        if found:
            break
    kept = [order for order in found if wanted.takes(order, wanted.filter(zone))]
    shown = kept[:MOST_ORDERS]
    return Listed(
        Page(shown, len(shown), PageRequest(1, MOST_ORDERS)), is_cut=is_cut or len(kept) > MOST_ORDERS
    )


def _by_number(tx: Tx, number: int | None) -> Sequence[Order]:
    """The order of this number, or the one with the piece of this number."""
    if number is None:
        return []
    with suppress(NotFound):
        return [items.read_order(tx, number)]
    with suppress(NotFound):
        return [items.read_order(tx, order_queries.read_item(tx, number).order_id)]
    return []


PDF = "application/pdf"
LIVE_PARTS = ("state", "numbers", "history")
"""What changes while one looks on: each is a template."""
MOST_LISTS = 20


@dataclass(frozen=True, slots=True)
class Shown:
    """An order as its page, and whatever of it is live, shows it."""

    order: Order
    states: list[OrderStep]
    not_ready: Sequence[str] = ()
    """That it will be paused when its review ends, as live mail cannot be printed yet."""
    hold_reasons: Sequence[str] = ()
    """Why it is paused, in words for whoever sent it."""

    @property
    def told(self) -> list[str]:
        return [*self.not_ready, *self.hold_reasons]

    not_mailed: Sequence[NotMailed] = ()
    """Recipients who get no piece, by reason."""

    @property
    def warnings(self) -> list[str]:
        """Who is not mailed to, and why, is told beside the numbers."""
        return [each for each in self.order.warnings if NOT_MAILED_TO not in each]

    @property
    def pieces_hint(self) -> str | None:
        """What the number of pieces leaves out."""
        if self.order.audience_pending:
            return "counted again when your lists are read"
        return f"for {self.order.recipient_count:,} recipients" if self.order.not_mailed else None

    @property
    def tally(self) -> dict[str, int]:
        return labels.journey(self.order)

    @property
    def means(self) -> str:
        return labels.means(self.order)

    @property
    def total_hint(self) -> str | None:
        return labels.total_hint(self.order)

    @property
    def delivered(self) -> int:
        return self.order.tally[ItemStatus.DELIVERED]

    @property
    def mailed(self) -> int:
        """Pieces that are with the carrier, or were."""
        return self.order.n_mailed

    @property
    def _not_failed(self) -> int:
        unmailed = (ItemStatus.PROCESSING, ItemStatus.FAILED)
        return sum(n for status, n in self.order.tally.items() if status not in unmailed)

    @property
    def in_trouble(self) -> int:
        return self.order.tally[ItemStatus.FAILED] + self.order.tally[ItemStatus.RETURNED_TO_SENDER]

    @property
    def can_be_sent_again(self) -> bool:
        """What failed is not sent again, wherever it did."""
        return self._not_failed > 0 and self.order.status is not OrderStatus.CANCELLED


@router.get("/orders/{order_id}")
def order_page(request: Request, order_id: str, who: Reader, parts: OurParts) -> Response:
    number = id_in_path(order_id)
    with parts.db.transaction(tenant(who.caller)) as tx:
        shown = read_shown(tx, parts, number)
        order = shown.order
        branch = read_sub_account(tx, order.sub_account_id)
        lists = known_lists(tx, order.mailing_list_ids[:MOST_LISTS])
    style = parts.studio.hands.styles.get(order.style)
    return show(
        request,
        "orders/order.html",
        who=who,
        **live_values(parts, shown),
        piece=labels.piece_words(order),
        branch=branch,
        lists=list(lists.values()),
        more_lists=max(0, len(order.mailing_list_ids) - MOST_LISTS),
        hand=style.name if style else None,
        ink=Ink.of(order.handwriting_color),
        size=labels.size_words(order),
        method=labels.METHODS.get(order.method, order.method),
        return_lines=_return_lines(order),
        metadata=metadata_lines(order.metadata),
        item=request.query_params.get("item", ""),
    )


@router.get("/orders/{order_id}/live")
def live(request: Request, order_id: str, who: Reader, parts: OurParts) -> StreamingResponse:
    number = id_in_path(order_id)
    zone = zone_of(request)
    with parts.db.transaction(tenant(who.caller)) as tx:
        items.read_order(tx, number)

    def draw() -> Mapping[str, str]:
        with parts.db.transaction(tenant(who.caller)) as tx:
            values = live_values(parts, read_shown(tx, parts, number))
        return {name: pages.text_of(f"orders/live_{name}.html", zone=zone, **values) for name in LIVE_PARTS}

    return stream(request, who, ("order", number), draw)


@router.get("/orders/{order_id}/proof.pdf")
def proof(order_id: str, who: Reader, parts: OurParts) -> Response:
    """The first pieces as the press prints them, to be saved."""
    number = _require_order(order_id, who, parts)
    return Response(draw_proof(parts.press, number), media_type=PDF, headers=_to_be_saved(number))


def read_shown(tx: Tx, parts: Parts, order_id: int) -> Shown:
    order = items.read_order(tx, order_id)
    world = parts.worlds[order.mode]
    not_ready: list[str] = []
    if order.status is OrderStatus.REVIEWING:
        not_ready = pause_warning(service_gaps(tx, world, on=parts.clock().date()))
    reasons = for_senders(order.hold_reasons, world)
    left_out = count_not_mailed(tx, order)
    return Shown(order, order_queries.states(tx, order.id), not_ready, reasons, left_out)


def live_values(parts: Parts, shown: Shown) -> dict[str, Any]:
    return {"shown": shown, "order": shown.order, "now": parts.clock()}


def metadata_lines(metadata: str | None) -> list[tuple[str, str]]:
    """What a program has noted, key by key; numbers as they were written."""
    if metadata is None:
        return []
    read = exact_json.read(metadata.encode())
    if not isinstance(read, dict):
        return [("", _written(read))]
    return [(str(key), _written(value)) for key, value in read.items()]


def _written(value: object) -> str:
    return value if isinstance(value, str) else exact_json.write(value)


def _return_lines(order: Order) -> list[str]:
    home = order.return_address
    lines = labels.address_lines(home.address, home.address2, home.city, home.province, home.postal_code)
    return [home.name, *lines] if home.name else lines


def _require_order(order_id: str, who: SignedIn, parts: Parts) -> int:
    with parts.db.transaction(tenant(who.caller)) as tx:
        return items.read_order(tx, id_in_path(order_id)).id


def _to_be_saved(number: int) -> dict[str, str]:
    name = f"order-{number}-proof.pdf"
    return {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
