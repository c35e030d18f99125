"""Orders and pieces in the words of our pages."""

from collections.abc import Mapping, Sequence
from typing import Final

from quillpost.orders.models import Item, Order
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.rendering.text.addresses import address_lines as format_address
from quillpost.rendering.text.countries import country_name
from quillpost.web.dashboard.labels import SIZES, TYPE_NAMES, piece_name
from quillpost.web.rendering import cents, plural, town

STATUSES: Final[Sequence[tuple[str, str]]] = [(status.value, status.display) for status in OrderStatus]
TYPE_WORDS: Final[Sequence[tuple[str, str]]] = [
    *{**TYPE_NAMES, "postcard": "Postcard 4 × 6 or 6 × 9"}.items(),
]
ITEM_STATUSES: Final[Sequence[tuple[str, str]]] = [(status.value, status.value) for status in ItemStatus]

MEANS: Final[Mapping[OrderStatus, str]] = {
    OrderStatus.REVIEWING: "Nothing is printed yet. You can still change or cancel it.",
    OrderStatus.PAUSED: "Somebody looks at it before it is printed. You can still change or cancel it.",
    OrderStatus.PROCESSING: "It is being made ready for the press.",
    OrderStatus.PRINTING: "Your pieces are being printed.",
    OrderStatus.MAILED: "The mail carrier has all of your pieces.",
    OrderStatus.FULFILLED: "Nothing is left to deliver.",
    OrderStatus.CANCELLED: "It was cancelled before it was printed.",
    OrderStatus.ERROR: "It could not be made.",
}
"""What each state means for whoever sent it."""

METHODS: Final[Mapping[str, str]] = {
    "api": "the API",
    "Campaign": "an automation",
    "Card Builder": "this site",
}


def piece_words(order: Order) -> str:
    """`Postcard 4 × 6`."""
    return piece_name(order.type, order.size)


def pieces_words(order: Order) -> str:
    """`294 pieces, 1 not mailed`."""
    if order.status.is_stopped:
        return f"{plural(order.recipient_count, 'piece')} not mailed"
    left = f", {order.not_mailed:,} not mailed" if order.not_mailed else ""
    return plural(order.pieces, "piece") + left


def status_words(order: Order, status: ItemStatus) -> str:
    """Where a piece of the order stands. What nobody wants any more has not failed."""
    is_called_off = order.status is OrderStatus.CANCELLED and status is ItemStatus.FAILED
    return OrderStatus.CANCELLED.display if is_called_off else status.value


def journey(order: Order) -> dict[str, int]:
    """How many pieces stand where, in the order of their journey."""
    return {status_words(order, status): order.tally[status] for status in ItemStatus}


def means(order: Order) -> str:
    """What its state means for whoever sent it, in money too where it has ended early."""
    if order.status not in (OrderStatus.CANCELLED, OrderStatus.ERROR):
        return MEANS[order.status]
    return f"{MEANS[order.status]} {_billed(order)}"


def total_hint(order: Order) -> str | None:
    """What is paid by now of its total. Addresses are paid for when it is sent, pieces when they are
    printed; tests are never."""
    if order.mode == "test":
        return "a test: nothing is billed"
    if order.is_cancellable:
        fee = f", {cents(order.leads_fee)} of it paid for addresses" if order.leads_fee else ""
        return f"held until it is printed{fee}"
    return "for its addresses" if order.grand_total == order.leads_fee > 0 else None


def _billed(order: Order) -> str:
    """Of what is never printed: addresses that were bought for it stay bought."""
    if order.mode == "test" or not order.leads_fee:
        return "Nothing is billed."
    return f"Its addresses alone are billed, {cents(order.leads_fee)}: they are on their list."


def size_words(order: Order) -> str:
    return dict(SIZES).get(order.font_size, order.font_size)


def address_lines(
    address: str | None,
    address2: str | None,
    city: str | None,
    province: str | None,
    postal_code: str | None,
    country: str = "US",
) -> list[str]:
    """An address line by line, as its country writes it."""
    streets = [line for line in (address, address2) if line]
    if country != "US":
        return [*format_address(country, streets, city, province, postal_code), country_name(country)]
    place = town(city, province, postal_code)
    return [*streets, place] if place else streets


def given_address(item: Item) -> list[str]:
    """The address as it was given, line by line."""
    return address_lines(
        item.address, item.address2, item.city, item.province, item.postal_code, item.country
    )


def printed_address(item: Item) -> list[str]:
    """The address as it is printed, where that is another."""
    return [] if item.standard is None else address_lines(*item.standard, item.country)


def whom(item: Item) -> str:
    """`Jane Doe`, or whatever else is known."""
    return item.name or item.company or item.address or "Somebody who was erased"
