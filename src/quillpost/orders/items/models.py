"""One item of an order."""

from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any, Self
from uuid import UUID

import sqlalchemy as sa

from quillpost.orders.rules import ItemStatus
from quillpost.rendering.models import AddressParts


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One piece of an order. Its files are the pictures of its own; without one it carries the order's."""

    id: int
    order_id: int
    status: ItemStatus
    delivery_date: date | None
    delivery_inferred: bool
    scans: int
    failure: str | None
    name: str | None
    company: str | None
    address: str | None
    address2: str | None
    city: str | None
    province: str | None
    postal_code: str | None
    country: str
    email: str | None
    phone: str | None
    custom: tuple[str | None, ...]
    dob: date | None
    anniversary: date | None
    code: str | None
    front_file_id: UUID | None
    background_file_id: UUID | None
    created_at: datetime
    gift_cents: int
    giftcard_brand: str | None
    """Whose card it brings; None until that is issued, and once it is void."""
    tracking: str | None = None
    """The digits of its barcode, where they were asked for."""
    standard: AddressParts | None = None
    """The address as it is printed, where that is not as it was given."""

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        columns = row._mapping
        values = {f.name: columns[f.name] for f in fields(cls) if f.name in columns}
        custom = tuple(columns[f"custom{n}"] for n in range(1, 11))
        printed_address = tuple(values["standard"]) if values.get("standard") else None
        return cls(**values | {"status": ItemStatus(row.status), "custom": custom, "standard": printed_address})
