"""What became of orders: totals, day by day, and who was not mailed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.base import orders
from quillpost.core.paging import tenant_conditions
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus, OrderStatus

NOT_SENT_STATUSES = (ItemStatus.PROCESSING, ItemStatus.FAILED)


@dataclass(frozen=True, slots=True)
class OrderTotals:
    """`cents` leaves out canceled orders."""

    orders: int
    item_counts: dict[ItemStatus, int]
    lost: int
    scans: int
    multi_scans: int
    cents: int

    @property
    def sent(self) -> int:
        """Printed or further, including those lost in the mail."""
        return sum(count for status, count in self.item_counts.items() if status not in NOT_SENT_STATUSES) + self.lost


def sum_orders(
    tx: Tx,
    tenant: Tenant,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    sub_account_id: int | None = None,
) -> OrderTotals:
    """Orders created from `since` on and before `until`."""
    conditions = tenant_conditions(orders, tenant)
    if since is not None:
        conditions.append(orders.c.created_at >= since)
    if until is not None:
        conditions.append(orders.c.created_at < until)
    if sub_account_id is not None:
        conditions.append(orders.c.sub_account_id == sub_account_id)
    cost = sa.func.sum(orders.c.order_total + orders.c.leads_fee + orders.c.gift_total)
    sums = [
        sa.func.count().label("orders"),
        cost.filter(orders.c.status != OrderStatus.CANCELLED.value).label("cents"),
        *(sa.func.sum(orders.c[name]).label(name) for name in ("total_scans", "multi_scans", "n_lost")),
        *(sa.func.sum(orders.c[f"n_{status.count_name}"]).label(status.count_name) for status in ItemStatus),
    ]
    row = tx.execute(sa.select(*sums).where(*conditions)).one()._mapping
    return OrderTotals(
        orders=row["orders"],
        item_counts={status: int(row[status.count_name] or 0) for status in ItemStatus},
        lost=int(row["n_lost"] or 0),
        scans=int(row["total_scans"] or 0),
        multi_scans=int(row["multi_scans"] or 0),
        cents=int(row["cents"] or 0),
    )


# Whoever is limited to a sub account sees its hours alone. An hour belongs to the day in which it begins:
# where a zone's days begin at half past, half an hour of them is counted with the day before.
COUNT_BY_DAY = """
    select (hour at time zone :zone)::date as day, what, sum(n)::bigint as n
      from (select hour, what, sum(n) as n from hourly_counts
             where account_id = :account and mode = :mode and hour >= :since and hour <= :now {scope}
             group by hour, what) hours
     group by 1, 2
"""
COUNT_ACCOUNT: Final = sa.text(COUNT_BY_DAY.format(scope=""))
COUNT_SUB_ACCOUNT: Final = sa.text(COUNT_BY_DAY.format(scope="and sub_account_id = :sub_account"))


@dataclass(frozen=True, slots=True)
class DayActivity:
    day: date
    sent: int = 0
    delivered: int = 0
    scans: int = 0


@dataclass(frozen=True, slots=True)
class DailyActivity:
    """Every day, oldest first; the last is today."""

    days: Sequence[DayActivity]

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
        """Scans per delivered item; None where none was delivered."""
        return self.scans / self.delivered if self.delivered else None

    @property
    def is_empty(self) -> bool:
        return not (self.sent or self.delivered or self.scans)


def read_daily_activity(tx: Tx, tenant: Tenant, *, days: int, zone: ZoneInfo, now: datetime) -> DailyActivity:
    """The last `days` days in this time zone, in the reader's mode."""
    today = now.astimezone(zone).date()
    first_day = today - timedelta(days=days - 1)
    query_params = {
        "account": tenant.account_id,
        "mode": tenant.mode,
        "sub_account": tenant.sub_account_id,
        "zone": zone.key,
        "since": datetime.combine(first_day, time.min, tzinfo=zone),
        "now": now,
    }
    counts_by_day: dict[date, dict[str, int]] = {}
    for row in tx.execute(COUNT_ACCOUNT if tenant.sub_account_id is None else COUNT_SUB_ACCOUNT, query_params):
        counts_by_day.setdefault(row.day, {})[row.what] = row.n
    all_days = (first_day + timedelta(days=n) for n in range(days))
    return DailyActivity([DayActivity(day, **counts_by_day.get(day, {})) for day in all_days])


MAX_REASONS = 20
"""Some reasons name one address, so there may be as many as recipients."""
OTHER_REASONS = "Other reasons: each piece says its own."
PENDING_LIST_REASONS = "On the lists: each piece says its own reason once it is made."

# What failed after the carrier had it was mailed.
COUNT_NOT_MAILED = sa.text(
    """
    select coalesce(failure, '') as reason, count(*) as recipients
      from items where order_id = :order and status = 'Failed' and not is_mailed
     group by 1 order by 2 desc, 1 limit :most
    """
)


@dataclass(frozen=True, slots=True)
class NotMailedCount:
    reason: str
    count: int


def count_not_mailed(tx: Tx, order: Order) -> list[NotMailedCount]:
    """Most frequent reasons first, the rest as one; they add up to the order's `not_mailed`."""
    if not order.not_mailed:
        return []
    rows = tx.execute(COUNT_NOT_MAILED, {"order": order.id, "most": MAX_REASONS})
    counts = [NotMailedCount(row.reason, row.recipients) for row in rows]
    remaining = order.not_mailed - sum(count.count for count in counts)
    if remaining > 0:
        counts.append(NotMailedCount(PENDING_LIST_REASONS if order.audience_pending else OTHER_REASONS, remaining))
    return counts
