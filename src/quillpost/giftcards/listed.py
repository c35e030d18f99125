"""The cards of pieces, as operators look through them: what became of each, and nothing to redeem it with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final, Literal

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.database.giftcard_tables import giftcards

Which = Literal["reported", "void", "unclaimed"]


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


MOMENTS: Final = tuple(field.name for field in fields(ListedCard) if field.name.endswith("_at"))

_WHICH: Mapping[Which, sa.ColumnElement[bool]] = {
    "reported": giftcards.c.reported_at.is_not(None),
    "void": giftcards.c.status == "void",
    "unclaimed": (giftcards.c.status == "issued") & giftcards.c.claimed_at.is_(None),
}


def list_cards(tx: Tx, mode: str, which: Sequence[Which], *, most: int) -> list[ListedCard]:
    """The newest pieces first; of those that are all that `which` asks for."""
    columns = [giftcards.c[field.name] for field in fields(ListedCard)]
    wanted = sa.select(*columns).where(giftcards.c.mode == mode, *(_WHICH[each] for each in which))
    return [ListedCard(*row) for row in tx.execute(wanted.order_by(giftcards.c.item_id.desc()).limit(most))]
