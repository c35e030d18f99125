"""What an order and a piece can be, and what may follow what."""

from collections.abc import Mapping
from enum import StrEnum

SWEEP_TASK, MATERIALIZE_TASK = "fulfillment.sweep_due_orders", "orders.materialize"
"""The tasks that take orders whose review has ended, and that make items of the people of an order's lists. They live
above, so they are known by name alone."""


class OrderStatus(StrEnum):
    REVIEWING = "reviewing"
    PROCESSING = "processing"
    PRINTING = "printing"
    MAILED = "mailed"
    FULFILLED = "fulfilled"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    ERROR = "error"

    @property
    def is_held_back(self) -> bool:
        """Nothing has been made yet, so the order can be cancelled and nobody counts as mailed to."""
        return self in (OrderStatus.REVIEWING, OrderStatus.PAUSED)

    @property
    def is_stopped(self) -> bool:
        """It ended before anything was made, so nobody is mailed to."""
        return self in (OrderStatus.CANCELLED, OrderStatus.ERROR)

    @property
    def display(self) -> str:
        return self.value.capitalize()


class ItemStatus(StrEnum):
    PROCESSING = "Processing"
    PRINTED = "Printed"
    IN_TRANSIT = "In Transit"
    IN_LOCAL_AREA = "In Local Area"
    PROCESSED_FOR_DELIVERY = "Processed for Delivery"
    DELIVERED = "Delivered"
    RE_ROUTED = "Re-routed"
    RETURNED_TO_SENDER = "Returned to Sender"
    FAILED = "Failed"

    @property
    def count_name(self) -> str:
        """The name under which an order counts the items that stand here."""
        return self.value.lower().replace(" ", "_").replace("-", "_")


_Status = ItemStatus
NEXT_STATUSES: Mapping[ItemStatus, frozenset[ItemStatus]] = {
    _Status.PROCESSING: frozenset({_Status.PRINTED, _Status.FAILED}),
    _Status.PRINTED: frozenset(
        {_Status.IN_TRANSIT, _Status.IN_LOCAL_AREA, _Status.PROCESSED_FOR_DELIVERY, _Status.DELIVERED,
         _Status.RE_ROUTED,
         _Status.RETURNED_TO_SENDER, _Status.FAILED}
    ),
    _Status.IN_TRANSIT: frozenset(
        {_Status.IN_LOCAL_AREA, _Status.PROCESSED_FOR_DELIVERY, _Status.DELIVERED, _Status.RE_ROUTED,
         _Status.RETURNED_TO_SENDER, _Status.FAILED}
    ),
    _Status.IN_LOCAL_AREA: frozenset(
        {_Status.PROCESSED_FOR_DELIVERY, _Status.DELIVERED, _Status.RE_ROUTED, _Status.RETURNED_TO_SENDER,
         _Status.FAILED}
    ),
    _Status.PROCESSED_FOR_DELIVERY: frozenset(
        {_Status.DELIVERED, _Status.RE_ROUTED, _Status.RETURNED_TO_SENDER, _Status.FAILED}
    ),
    _Status.RE_ROUTED: frozenset(
        {_Status.IN_TRANSIT, _Status.IN_LOCAL_AREA, _Status.PROCESSED_FOR_DELIVERY, _Status.DELIVERED,
         _Status.RETURNED_TO_SENDER, _Status.FAILED}
    ),
    _Status.DELIVERED: frozenset(),
    _Status.RETURNED_TO_SENDER: frozenset(),
    _Status.FAILED: frozenset(),
}  # fmt: skip
"""A late or repeated scan asks for a status that does not follow, and so changes nothing."""

FINAL_STATUSES = tuple(status for status, following in NEXT_STATUSES.items() if not following)
