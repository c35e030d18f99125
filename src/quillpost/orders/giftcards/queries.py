"""A piece's card as its sender sees it: what became of it and when, and nothing that it is redeemed with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal, Self

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.tables.giftcards import giftcards


class CardEvent(StrEnum):
    """In the order in which they come about."""

    ISSUED = "Gift card issued"
    OPENED = "Gift card opened"
    VISITED = "Gift card landing page visited"
    CLAIMED = "Gift card claimed"
    REPORTED = "Gift card reported"
    VOIDED = "Gift card voided"


@dataclass(frozen=True, slots=True)
class CardStep:
    event: CardEvent
    at: datetime
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ItemGiftcard:
    """`reissued_as` is the order that brings another card in the place of a void one."""

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

    def list_steps(self) -> Sequence[CardStep]:
        """What has happened to it, oldest first. One that was never issued has no life to tell of."""
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
        steps = [CardStep(event, at, reason) for event, (at, reason) in event_times.items() if at is not None]
        return sorted(steps, key=lambda step: step.at)

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        return cls(**row._mapping)


_COLUMNS = [giftcards.c[field.name] for field in fields(ItemGiftcard)]
"""A tenant may read these, and no sealed one."""


def read_card(tx: Tx, item_id: int, *, locked: bool = False) -> ItemGiftcard | None:
    """The piece's card, if one was asked for; `locked`, nobody claims it before this transaction ends."""
    query = sa.select(*_COLUMNS).where(giftcards.c.item_id == item_id)
    row = tx.execute(query.with_for_update(key_share=True) if locked else query).first()
    return None if row is None else ItemGiftcard.of(row)


def record_reissue(tx: Tx, item_id: int, order_id: int) -> None:
    """Keep which order brings another: a card is reissued once."""
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


TIMESTAMP_FIELDS: Final = tuple(field.name for field in fields(ListedCard) if field.name.endswith("_at"))

_FILTER_CONDITIONS: Mapping[CardFilter, sa.ColumnElement[bool]] = {
    "reported": giftcards.c.reported_at.is_not(None),
    "void": giftcards.c.status == "void",
    "unclaimed": (giftcards.c.status == "issued") & giftcards.c.claimed_at.is_(None),
}


def list_cards(tx: Tx, mode: str, filters: Sequence[CardFilter], *, limit: int) -> list[ListedCard]:
    """The newest pieces first; of those that are all that `filters` asks for."""
    columns = [giftcards.c[field.name] for field in fields(ListedCard)]
    query = sa.select(*columns).where(
        giftcards.c.mode == mode, *(_FILTER_CONDITIONS[card_filter] for card_filter in filters)
    )
    return [ListedCard(*row) for row in tx.execute(query.order_by(giftcards.c.item_id.desc()).limit(limit))]
