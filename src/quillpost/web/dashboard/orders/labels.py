"""Names of orders, items and their states on pages."""

from collections.abc import Mapping, Sequence
from typing import Final

from quillpost.orders.items.models import Item
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.rendering.text.addresses import country_name, format_address_lines
from quillpost.web.dashboard.labels import FONT_SIZES, TYPE_NAMES, product_name
from quillpost.web.rendering import format_cents, format_town, pluralize

STATUS_LABELS: Final[Sequence[tuple[str, str]]] = [(status.value, status.capitalize()) for status in OrderStatus]
TYPE_LABELS: Final[Sequence[tuple[str, str]]] = [*{**TYPE_NAMES, "postcard": "Postcard 4 × 6 or 6 × 9"}.items()]
ITEM_STATUS_LABELS: Final[Sequence[tuple[str, str]]] = [(status.value, status.value) for status in ItemStatus]

STATUS_EXPLANATIONS: Final[Mapping[OrderStatus, str]] = {
    OrderStatus.REVIEWING: "Nothing is printed yet. You can still change or cancel it.",
    OrderStatus.PAUSED: "Somebody looks at it before it is printed. You can still change or cancel it.",
    OrderStatus.PROCESSING: "It is being made ready for the press.",
    OrderStatus.PRINTING: "Your pieces are being printed.",
    OrderStatus.MAILED: "The mail carrier has all of your pieces.",
    OrderStatus.FULFILLED: "Nothing is left to deliver.",
    OrderStatus.CANCELLED: "It was cancelled before it was printed.",
    OrderStatus.ERROR: "It could not be made.",
}

METHOD_LABELS: Final[Mapping[str, str]] = {"api": "the API", "Campaign": "an automation", "Card Builder": "this site"}


def product_label(order: Order) -> str:
    """`Postcard 4 × 6`."""
    return product_name(order.type, order.size)


def item_count_label(order: Order) -> str:
    """`294 pieces, 1 not mailed`."""
    if order.status.is_stopped:
        return f"{pluralize(order.recipient_count, 'piece')} not mailed"
    not_mailed = f", {order.not_mailed:,} not mailed" if order.not_mailed else ""
    return pluralize(order.pieces, "piece") + not_mailed


def item_status_label(order: Order, status: ItemStatus) -> str:
    """An item of a canceled order has not failed."""
    is_canceled = order.status is OrderStatus.CANCELLED and status is ItemStatus.FAILED
    return OrderStatus.CANCELLED.capitalize() if is_canceled else status.value


def count_by_status(order: Order) -> dict[str, int]:
    """In the order of their journey."""
    return {item_status_label(order, status): order.status_counts[status] for status in ItemStatus}


def explain_status(order: Order) -> str:
    """With what it costs, where it has ended early."""
    if order.status not in (OrderStatus.CANCELLED, OrderStatus.ERROR):
        return STATUS_EXPLANATIONS[order.status]
    return f"{STATUS_EXPLANATIONS[order.status]} {_billing_note(order)}"


def total_hint(order: Order) -> str | None:
    """How much is paid: leads when it is sent, pieces when they are printed, tests never."""
    if order.mode == "test":
        return "a test: nothing is billed"
    if order.is_cancellable:
        fee_note = f", {format_cents(order.leads_fee)} of it paid for addresses" if order.leads_fee else ""
        return f"held until it is printed{fee_note}"
    return "for its addresses" if order.grand_total == order.leads_fee > 0 else None


def _billing_note(order: Order) -> str:
    """Leads that were bought for it stay bought."""
    if order.mode == "test" or not order.leads_fee:
        return "Nothing is billed."
    return f"Its addresses alone are billed, {format_cents(order.leads_fee)}: they are on their list."


def font_size_label(order: Order) -> str:
    return dict(FONT_SIZES).get(order.font_size, order.font_size)


def address_lines(
    address: str | None,
    address2: str | None,
    city: str | None,
    province: str | None,
    postal_code: str | None,
    country: str = "US",
) -> list[str]:
    """As its country writes it."""
    streets = [line for line in (address, address2) if line]
    if country != "US":
        return [*format_address_lines(country, streets, city, province, postal_code), country_name(country)]
    town_line = format_town(city, province, postal_code)
    return [*streets, town_line] if town_line else streets


def entered_address(item: Item) -> list[str]:
    return address_lines(item.address, item.address2, item.city, item.province, item.postal_code, item.country)


def printed_address(item: Item) -> list[str]:
    """Empty where it is printed as it was entered."""
    return [] if item.standard is None else address_lines(*item.standard, item.country)


def recipient_label(item: Item) -> str:
    return item.name or item.company or item.address or "Somebody who was erased"
