"""Gift cards and brands in the database."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from importlib.resources import files
from operator import itemgetter
from typing import Any, Literal, Self

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.core.database import Tx
from quillpost.core.database.tables.orders import giftcard_brands, giftcards
from quillpost.core.errors import NotFound
from quillpost.orders.giftcards.rules import GiftcardBrand, is_brand_code, validate_brand


class CardEvent(StrEnum):
    ISSUED = "Gift card issued"
    OPENED = "Gift card opened"
    VISITED = "Gift card landing page visited"
    CLAIMED = "Gift card claimed"
    REPORTED = "Gift card reported"
    VOIDED = "Gift card voided"


@dataclass(frozen=True, slots=True)
class ItemGiftcard:
    """`reissued_as` is the order that replaces a void card."""

    item_id: int
    order_id: int
    brand: str
    cents: int
    status: str
    issued_at: datetime | None
    opened_at: datetime | None
    visited_at: datetime | None
    claimed_at: datetime | None
    reported_at: datetime | None
    report: str | None
    voided_at: datetime | None
    void_reason: str | None
    reissued_as: int | None

    def list_events(self) -> Sequence[tuple[CardEvent, datetime, str | None]]:
        """Each with its time and reason, oldest first; empty if it was never issued."""
        if self.issued_at is None:
            return []
        event_times = {
            CardEvent.ISSUED: (self.issued_at, None),
            CardEvent.OPENED: (self.opened_at, None),
            CardEvent.VISITED: (self.visited_at, None),
            CardEvent.CLAIMED: (self.claimed_at, None),
            CardEvent.REPORTED: (self.reported_at, self.report),
            CardEvent.VOIDED: (self.voided_at, self.void_reason),
        }
        events = [(event, at, reason) for event, (at, reason) in event_times.items() if at is not None]
        return sorted(events, key=itemgetter(1))

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        return cls(**row._mapping)


_COLUMNS = [giftcards.c[field.name] for field in fields(ItemGiftcard)]
"""A tenant may read these, but no encrypted one."""


def read_card(tx: Tx, item_id: int, *, locked: bool = False) -> ItemGiftcard | None:
    """`locked`, it is not claimed before this transaction ends."""
    query = sa.select(*_COLUMNS).where(giftcards.c.item_id == item_id)
    row = tx.execute(query.with_for_update(key_share=True) if locked else query).first()
    return None if row is None else ItemGiftcard.of(row)


def record_reissue(tx: Tx, item_id: int, order_id: int) -> None:
    is_this_card = giftcards.c.item_id == item_id
    tx.execute(sa.update(giftcards).where(is_this_card).values(reissued_as=order_id))


CardFilter = Literal["reported", "void", "unclaimed"]


@dataclass(frozen=True, slots=True)
class ListedCard:
    item_id: int
    order_id: int
    account_id: int
    brand: str
    cents: int
    status: str
    issuer: str | None
    asked_at: datetime
    issued_at: datetime | None
    opened_at: datetime | None
    claimed_at: datetime | None
    reported_at: datetime | None
    report: str | None
    voided_at: datetime | None
    void_reason: str | None
    given_back_at: datetime | None


_FILTER_CONDITIONS: Mapping[CardFilter, sa.ColumnElement[bool]] = {
    "reported": giftcards.c.reported_at.is_not(None),
    "void": giftcards.c.status == "void",
    "unclaimed": (giftcards.c.status == "issued") & giftcards.c.claimed_at.is_(None),
}


def list_cards(tx: Tx, mode: str, filters: Sequence[CardFilter], *, limit: int) -> list[ListedCard]:
    """Newest first; all filters must match."""
    columns = [giftcards.c[field.name] for field in fields(ListedCard)]
    query = sa.select(*columns).where(
        giftcards.c.mode == mode, *(_FILTER_CONDITIONS[card_filter] for card_filter in filters)
    )
    return [ListedCard(*row) for row in tx.execute(query.order_by(giftcards.c.item_id.desc()).limit(limit))]


BRAND_ORDERING = (giftcard_brands.c.position, giftcard_brands.c.title, giftcard_brands.c.code)


def list_offered_brands(tx: Tx) -> list[GiftcardBrand]:
    """In the order in which they are shown."""
    query = sa.select(giftcard_brands).where(giftcard_brands.c.is_offered)
    return [read_brand(row) for row in tx.execute(query.order_by(*BRAND_ORDERING))]


def find_brands(tx: Tx, codes: Sequence[str], *, locked: bool = False) -> dict[str, GiftcardBrand]:
    """Existing brands by code, offered or not. `locked`, no other transaction changes them before this one ends."""
    valid_codes = [code for code in codes if is_brand_code(code)]
    query = sa.select(giftcard_brands).where(giftcard_brands.c.code.in_(valid_codes))
    rows = tx.execute(query.with_for_update() if locked else query)
    return {row.code: read_brand(row) for row in rows}


def load_default_brands(tx: Tx) -> None:
    """Insert the shipped brands that are missing; an operator's rows win."""
    csv_text = files("quillpost.orders.giftcards").joinpath("brands.csv").read_text()
    rows = [
        {
            **row,
            "amounts": [int(cents) for cents in row["amounts"].split()],
            "position": position,
            "is_offered": True,
            "updated_at": sa.func.now(),
        }
        for position, row in enumerate(csv.DictReader(csv_text.splitlines()), start=1)
    ]
    tx.execute(insert(giftcard_brands).values(rows).on_conflict_do_nothing())


def save_brand(tx: Tx, brand: GiftcardBrand, *, now: datetime) -> bool:
    """Whether that changes anything. A new brand comes last. Needs a system transaction."""
    validate_brand(brand)
    if find_brands(tx, [brand.code], locked=True).get(brand.code) == brand:
        return False
    values = asdict(brand) | {"amounts": list(brand.amounts), "updated_at": now}
    next_position = sa.select(sa.func.coalesce(sa.func.max(giftcard_brands.c.position), 0) + 1).scalar_subquery()
    statement = insert(giftcard_brands).values(position=next_position, **values)
    tx.execute(statement.on_conflict_do_update(index_elements=["code"], set_=values))
    return True


def retire_brand(tx: Tx, code: str, *, now: datetime) -> bool:
    """Whether it was offered until now. Needs a system transaction."""
    brand = find_brands(tx, [code], locked=True).get(code)
    if brand is None:
        raise NotFound
    if brand.is_offered:
        statement = sa.update(giftcard_brands).where(giftcard_brands.c.code == code)
        tx.execute(statement.values(is_offered=False, updated_at=now))
    return brand.is_offered


def read_brand(row: sa.Row[Any]) -> GiftcardBrand:
    values = {field.name: row._mapping[field.name] for field in fields(GiftcardBrand)}
    return GiftcardBrand(**values | {"amounts": tuple(row.amounts)})
