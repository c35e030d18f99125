"""What an order and a piece can be, and what may follow what."""

from collections.abc import Mapping
from enum import StrEnum


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
    def tally(self) -> str:
        """The name under which an order counts the items that stand here."""
        return self.value.lower().replace(" ", "_").replace("-", "_")


_S = ItemStatus
FOLLOWS: Mapping[ItemStatus, frozenset[ItemStatus]] = {
    _S.PROCESSING: frozenset({_S.PRINTED, _S.FAILED}),
    _S.PRINTED: frozenset(
        {_S.IN_TRANSIT, _S.IN_LOCAL_AREA, _S.PROCESSED_FOR_DELIVERY, _S.DELIVERED, _S.RE_ROUTED,
         _S.RETURNED_TO_SENDER, _S.FAILED}
    ),
    _S.IN_TRANSIT: frozenset(
        {_S.IN_LOCAL_AREA, _S.PROCESSED_FOR_DELIVERY, _S.DELIVERED, _S.RE_ROUTED,
         _S.RETURNED_TO_SENDER, _S.FAILED}
    ),
    _S.IN_LOCAL_AREA: frozenset(
        {_S.PROCESSED_FOR_DELIVERY, _S.DELIVERED, _S.RE_ROUTED, _S.RETURNED_TO_SENDER, _S.FAILED}
    ),
    _S.PROCESSED_FOR_DELIVERY: frozenset(
        {_S.DELIVERED, _S.RE_ROUTED, _S.RETURNED_TO_SENDER, _S.FAILED}
    ),
    _S.RE_ROUTED: frozenset(
        {_S.IN_TRANSIT, _S.IN_LOCAL_AREA, _S.PROCESSED_FOR_DELIVERY, _S.DELIVERED,
         _S.RETURNED_TO_SENDER, _S.FAILED}
    ),
    _S.DELIVERED: frozenset(),
    _S.RETURNED_TO_SENDER: frozenset(),
    _S.FAILED: frozenset(),
}  # fmt: skip
"""A late or repeated scan asks for a status that does not follow, and so changes nothing."""

ENDS = tuple(status for status, following in FOLLOWS.items() if not following)
