"""On which day a piece was delivered, by its reader's calendar: the same day that its way tells.

What is stored is the day of the carrier's own clock, or of UTC where nobody saw the delivery.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.orders.records import Item

TOLD = sa.text(
    """
    select item_id, coalesce(seen_at, at) as at, inferred from facts
     where item_id = any(:items) and kind = 'item.status' order by id
    """
)


def told_day(at: datetime) -> date | None:
    """The day, where a carrier told that alone. It is kept as the midnight with which UTC's begins, and is
    the same day wherever one reads of it."""
    there = at.astimezone(UTC)
    return there.date() if there.time() == time.min else None


def delivered_days(tx: Tx, pieces: Iterable[Item], zone: ZoneInfo) -> dict[int, date]:
    """By the piece's id; only of those that are delivered."""
    delivered = {item.id: item for item in pieces if item.delivery_date is not None}
    told: dict[int, list[sa.Row[Any]]] = {}
    if delivered:
        for row in tx.execute(TOLD, {"items": list(delivered)}):
            told.setdefault(row.item_id, []).append(row)
    return {number: _day(item, told.get(number, ()), zone) for number, item in delivered.items()}


def _day(item: Item, told: Sequence[sa.Row[Any]], zone: ZoneInfo) -> date:
    stored = item.delivery_date
    assert stored is not None
    # Seen after all once it was inferred: of that the day is kept, and no moment.
    if not told or (told[-1].inferred and not item.delivery_inferred):
        return stored
    moments = [row.at for row in told[-1:]]
    if item.delivery_inferred:  # when it was last seen, or when nobody waited any longer
        moments = [row.at for row in reversed(told) if row.at.astimezone(UTC).date() == stored]
    if not moments or told_day(moments[0]):
        return stored
    there: datetime = moments[0].astimezone(zone)
    return there.date()
