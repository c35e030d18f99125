"""What became of orders: totals, day by day, and who was not mailed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.base import orders
from quillpost.core.paging import rows_of
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus, OrderStatus

NOT_SENT = (ItemStatus.PROCESSING, ItemStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Totals:
    """`cents` is what the orders cost that were not cancelled."""

    orders: int
    tally: dict[ItemStatus, int]
    lost: int
    scans: int
    multi_scans: int
    cents: int

    @property
    def sent(self) -> int:
        """Pieces that were printed, or came further: some were lost in the mail."""
        return sum(count for status, count in self.tally.items() if status not in NOT_SENT) + self.lost


def add_up(
    tx: Tx,
    who: Tenant,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    sub_account_id: int | None = None,
) -> Totals:
    """The orders made from `since` on and before `until`."""
    wanted = rows_of(orders, who)
    if since is not None:
        wanted.append(orders.c.created_at >= since)
    if until is not None:
        wanted.append(orders.c.created_at < until)
    if sub_account_id is not None:
        wanted.append(orders.c.sub_account_id == sub_account_id)
    cost = sa.func.sum(orders.c.order_total + orders.c.leads_fee + orders.c.gift_total)
    sums = [
        sa.func.count().label("orders"),
        cost.filter(orders.c.status != OrderStatus.CANCELLED.value).label("cents"),
        *(sa.func.sum(orders.c[name]).label(name) for name in ("total_scans", "multi_scans", "n_lost")),
        *(sa.func.sum(orders.c[f"n_{status.tally}"]).label(status.tally) for status in ItemStatus),
    ]
    found = tx.execute(sa.select(*sums).where(*wanted)).one()._mapping
    return Totals(
        orders=found["orders"],
        tally={status: int(found[status.tally] or 0) for status in ItemStatus},
        lost=int(found["n_lost"] or 0),
        scans=int(found["total_scans"] or 0),
        multi_scans=int(found["multi_scans"] or 0),
        cents=int(found["cents"] or 0),
    )


# Whoever is limited to a sub account sees its hours alone. An hour belongs to the day in which it begins:
# where a zone's days begin at half past, half an hour of them is counted with the day before.
COUNT = """
    select (hour at time zone :zone)::date as day, what, sum(n)::bigint as n
      from (select hour, what, sum(n) as n from hourly_counts
             where account_id = :account and mode = :mode and hour >= :since and hour <= :now {place}
             group by hour, what) hours
     group by 1, 2
"""
OF_ALL: Final = sa.text(COUNT.format(place=""))
OF_ONE: Final = sa.text(COUNT.format(place="and sub_account_id = :sub_account"))


@dataclass(frozen=True, slots=True)
class Day:
    day: date
    sent: int = 0
    delivered: int = 0
    scans: int = 0


@dataclass(frozen=True, slots=True)
class Happened:
    """The days, oldest first, those on which nothing happened among them; the last is today."""

    days: Sequence[Day]

    @property
    def sent(self) -> int:
        return sum(day.sent for day in self.days)

    @property
    def delivered(self) -> int:
        return sum(day.delivered for day in self.days)

    @property
    def scans(self) -> int:
        return sum(day.scans for day in self.days)

    @property
    def scan_rate(self) -> float | None:
        """Scans for each piece that was delivered; None where none was. Some are scanned more than once."""
        return self.scans / self.delivered if self.delivered else None

    @property
    def is_nothing(self) -> bool:
        return not (self.sent or self.delivered or self.scans)


def read_days(tx: Tx, who: Tenant, *, days: int, zone: ZoneInfo, now: datetime) -> Happened:
    """So many days up to today, as clocks in the zone show it, in the reader's mode."""
    today = now.astimezone(zone).date()
    first = today - timedelta(days=days - 1)
    asked = {
        "account": who.account_id,
        "mode": who.mode,
        "sub_account": who.sub_account_id,
        "zone": zone.key,
        "since": datetime.combine(first, time.min, tzinfo=zone),
        "now": now,
    }
    counted: dict[date, dict[str, int]] = {}
    for row in tx.execute(OF_ALL if who.sub_account_id is None else OF_ONE, asked):
        counted.setdefault(row.day, {})[row.what] = row.n
    every = (first + timedelta(days=n) for n in range(days))
    return Happened([Day(day, **counted.get(day, {})) for day in every])


MOST_REASONS = 20
"""Some reasons speak of one address alone: there may be as many as recipients."""
OTHER_REASONS = "Other reasons: each piece says its own."
ON_LISTS = "On the lists: each piece says its own reason once it is made."

# What failed after the carrier had it was mailed.
COUNT_NOT_MAILED = sa.text(
    """
    select coalesce(failure, '') as reason, count(*) as recipients
      from items where order_id = :order and status = 'Failed' and not is_mailed
     group by 1 order by 2 desc, 1 limit :most
    """
)


@dataclass(frozen=True, slots=True)
class NotMailed:
    """So many recipients get nothing, all for the same reason."""

    reason: str
    count: int


def count_not_mailed(tx: Tx, order: Order) -> list[NotMailed]:
    """The most frequent reasons first, and all that is left as one: together the order's `not_mailed`."""
    if not order.not_mailed:
        return []
    rows = tx.execute(COUNT_NOT_MAILED, {"order": order.id, "most": MOST_REASONS})
    found = [NotMailed(row.reason, row.recipients) for row in rows]
    left = order.not_mailed - sum(one.count for one in found)
    if left > 0:
        found.append(NotMailed(ON_LISTS if order.audience_pending else OTHER_REASONS, left))
    return found
