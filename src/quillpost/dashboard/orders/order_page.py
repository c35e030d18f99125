"""One order: where its pieces stand, live, and everything that was agreed about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import read_sub_account
from quillpost.api.needs import id_in_path
from quillpost.audience.lists import known_lists
from quillpost.dashboard.handwriting import Ink
from quillpost.dashboard.orders import order_words
from quillpost.database import Tx
from quillpost.fulfilment.proofs import draw_proof
from quillpost.fulfilment.readiness import for_senders, pause_warning, service_gaps
from quillpost.kit import exact_json
from quillpost.orders import reading, store
from quillpost.orders.not_mailed import NotMailed, count_not_mailed
from quillpost.orders.reading import OrderStep
from quillpost.orders.records import Order
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.sending import NOT_MAILED_TO
from quillpost.pages import render as pages
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.live import stream
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts, Reader
from quillpost.reception.zones import zone_of

router = APIRouter(include_in_schema=False)

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
        return order_words.journey(self.order)

    @property
    def means(self) -> str:
        return order_words.means(self.order)

    @property
    def total_hint(self) -> str | None:
        return order_words.total_hint(self.order)

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
        piece=order_words.piece_words(order),
        branch=branch,
        lists=list(lists.values()),
        more_lists=max(0, len(order.mailing_list_ids) - MOST_LISTS),
        hand=style.name if style else None,
        ink=Ink.of(order.handwriting_color),
        size=order_words.size_words(order),
        method=order_words.METHODS.get(order.method, order.method),
        return_lines=_return_lines(order),
        metadata=metadata_lines(order.metadata),
        item=request.query_params.get("item", ""),
    )


@router.get("/orders/{order_id}/live")
def live(request: Request, order_id: str, who: Reader, parts: OurParts) -> StreamingResponse:
    number = id_in_path(order_id)
    zone = zone_of(request)
    with parts.db.transaction(tenant(who.caller)) as tx:
        store.read_order(tx, number)

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
    order = store.read_order(tx, order_id)
    world = parts.worlds[order.mode]
    not_ready: list[str] = []
    if order.status is OrderStatus.REVIEWING:
        not_ready = pause_warning(service_gaps(tx, world, on=parts.clock().date()))
    reasons = for_senders(order.hold_reasons, world)
    left_out = count_not_mailed(tx, order)
    return Shown(order, reading.states(tx, order.id), not_ready, reasons, left_out)


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
    lines = order_words.address_lines(home.address, home.address2, home.city, home.province, home.postal_code)
    return [home.name, *lines] if home.name else lines


def _require_order(order_id: str, who: SignedIn, parts: Parts) -> int:
    with parts.db.transaction(tenant(who.caller)) as tx:
        return store.read_order(tx, id_in_path(order_id)).id


def _to_be_saved(number: int) -> dict[str, str]:
    name = f"order-{number}-proof.pdf"
    return {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
