"""What an order and a piece can be, and what may follow what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from quillpost.composition.content import ReturnAddress


class OrderStatus(StrEnum):
    REVIEWING = "reviewing"
    PROCESSING = "processing"
    PRINTING = "printing"
    FULFILLED = "fulfilled"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    ERROR = "error"

    @property
    def is_held_back(self) -> bool:
        """Nothing has been made yet, so the order can be cancelled and nobody counts as mailed to."""
        return self in (OrderStatus.REVIEWING, OrderStatus.PAUSED)

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

DISPLAY_TYPES = {
    ("postcard", "4x6"): "Postcard-4x6",
    ("postcard", "6x9"): "Postcard-6x9",
    ("postcard6x11", "6x11"): "Postcard-6x11",
}


def display_type(type_: str, size: str | None) -> str:
    return DISPLAY_TYPES[type_, size or ""]


def postcard_type(size: str) -> str:
    """Large postcards are a type of their own on the wire."""
    return "postcard6x11" if size == "6x11" else "postcard"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller asks to be mailed, before anything is looked up or stored."""

    type: str
    size: str | None
    recipients: Sequence[Mapping[str, str | None]]
    message: str
    style: int
    handwriting_color: str
    handwriting_realism: bool
    font_size: str
    sub_account_id: int | None = None
    front_image_url: str | None = None
    background_url: str | None = None
    qrcode_url: str | None = None
    return_address: ReturnAddress = field(default_factory=ReturnAddress)
    mail_class: str = "first"
    append_or_current_resident: bool = False
    allow_duplicates: bool = False
    notification_emails: Sequence[str] = ()
    metadata: str | None = None
    schedule_for: datetime | None = None
    preview_recipient: int | None = None
    method: str = "api"

    @property
    def piece(self) -> str:
        """What is printed; every type of this release is a postcard, told apart by its size."""
        return f"postcard-{self.size}"
