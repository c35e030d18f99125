"""Orders in the database: listed, searched, counted and summed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.search import read_search_page
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.orders import order_counts
from quillpost.core.errors import NotFound
from quillpost.core.paging import (
    Conditions,
    Page,
    PageRequest,
    Sorting,
    equal_conditions,
    read_page,
    select_page_ids,
    tenant_conditions,
)
from quillpost.orders.items.queries import match_items
from quillpost.orders.models import Order
from quillpost.orders.products import ProductFamily
from quillpost.orders.rules import ItemStatus, MetadataAlternatives, OrderStatus

UNBOUNDED_TOTAL = 10**12
"""More than any list: every page counts as near the beginning."""

MAX_ID_DIGITS = 19

SELECT_ORDER_STEPS = sa.text(
    "select previous, current, at from facts where order_id = :order_id and kind = 'order.status' order by id"
)
"""Has an index of its own: an order may have millions of facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderQuery:
    """Filters; `created_before` is exclusive."""

    sub_account_id: int | None = None
    family: ProductFamily | None = None
    status: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    metadata: Sequence[MetadataAlternatives] = ()
    search: str | None = None
    """Words of a recipient, or an order number."""

    @property
    def has_dates(self) -> bool:
        return self.created_after is not None or self.created_before is not None

    @property
    def has_stored_count(self) -> bool:
        """Whether `order_counts` has the total."""
        has_size = self.family is not None and self.family.size is not None
        return not (self.status or self.has_dates or self.metadata or self.search or has_size)


def list_orders(
    db: Database,
    tx: Tx,
    tenant: Tenant,
    page_request: PageRequest,
    query: OrderQuery,
    *,
    count_limit: int | None = None,
) -> Page[Order]:
    """Newest first. A total above `count_limit` is reported as one more than it."""
    conditions = [*tenant_conditions(orders, tenant), *_order_conditions(query)]
    if query.search is not None:
        return _list_by_text(db, tx, tenant, conditions, page_request, query.search)
    if query.metadata:
        return _list_by_metadata(db, tx, conditions, page_request, count_limit=count_limit)
    total = (
        _read_stored_count(tx, tenant, query)
        if query.has_stored_count
        else _count_orders(tx, conditions, count_limit=count_limit)
    )
    # The index that knows the time has its rows by time.
    sorting = Sorting(sort_columns=(orders.c.created_at,) if query.has_dates else (), leading_column=orders.c.mode)
    is_truncated = not query.has_stored_count and count_limit is not None and total > count_limit
    page_total = UNBOUNDED_TOTAL if is_truncated and page_request.offset < total else total
    rows = read_page(tx, orders, conditions, page_request, total=page_total, sorting=sorting)
    return Page([Order.of(row) for row in rows], total, page_request)


def _list_by_metadata(
    db: Database, tx: Tx, conditions: Conditions, page_request: PageRequest, *, count_limit: int | None
) -> Page[Order]:
    """Ids are found outside row-level security, and rows read as the caller: `@>` is not leakproof, so a tenant could
    not use its index."""
    with db.system_transaction() as service_tx:
        total = _count_orders(service_tx, conditions, count_limit=count_limit)
        ids = list(service_tx.execute(select_page_ids(orders, conditions, page_request, total=total)).scalars())
    rows = tx.execute(sa.select(orders).where(orders.c.id.in_(ids)).order_by(orders.c.id.desc()))
    return Page([Order.of(row) for row in rows], total, page_request)


def _list_by_text(
    db: Database, tx: Tx, tenant: Tenant, conditions: Conditions, page_request: PageRequest, search: str
) -> Page[Order]:
    """The orders whose items match, and the one with that number."""
    number = search.removeprefix("#")
    is_number = number.isascii() and number.isdigit() and len(number) < MAX_ID_DIGITS
    id_query = sa.select(sa.cast(int(number) if is_number else None, sa.BigInteger()))
    ids = sa.union(sa.select(match_items(search, tenant).c.order_id), id_query).subquery()
    matching_orders = sa.select(orders.c.id).where(orders.c.id.in_(sa.select(*ids.c)), *conditions)
    with db.system_transaction() as service_tx:
        page_ids, total = read_search_page(service_tx, matching_orders, page_request)
    rows = tx.execute(sa.select(orders).where(orders.c.id.in_(page_ids)).order_by(orders.c.id.desc()))
    return Page([Order.of(row) for row in rows], total, page_request)


def _order_conditions(query: OrderQuery) -> list[sa.ColumnElement[bool]]:
    conditions = equal_conditions(orders, sub_account_id=query.sub_account_id, status=query.status)
    if query.family is not None:
        conditions.append(_type_condition(orders, query.family))
        if query.family.size is not None:
            conditions.append(orders.c.size == query.family.size)
    if query.created_after is not None:
        conditions.append(orders.c.created_at >= query.created_after)
    if query.created_before is not None:
        conditions.append(orders.c.created_at < query.created_before)
    if query.metadata:
        conditions.append(orders.c.metadata_index.is_not(None))
    for alternatives in query.metadata:
        json_values = [sa.cast(sa.literal(text, sa.Text()), JSONB()) for text in alternatives]
        conditions.append(sa.or_(*(orders.c.metadata_index.contains(json_value) for json_value in json_values)))
    return conditions


def _type_condition(table: sa.Table, family: ProductFamily) -> sa.ColumnElement[bool]:
    # One type by a plain equality: an index has its rows in the order of the list.
    if len(family.types) == 1:
        return table.c.type == family.types[0]
    return table.c.type.in_(family.types)


def count_orders_by_sub_account(tx: Tx, tenant: Tenant, sub_account_ids: Sequence[int]) -> dict[int, int]:
    sub_account_column = order_counts.c.sub_account_id
    rows = tx.execute(
        sa.select(sub_account_column, sa.func.sum(order_counts.c.n))
        .where(*tenant_conditions(order_counts, tenant), sub_account_column.in_(sub_account_ids))
        .group_by(sub_account_column)
    )
    return {row[0]: int(row[1]) for row in rows if row[1]}


def _read_stored_count(tx: Tx, tenant: Tenant, query: OrderQuery) -> int:
    conditions = tenant_conditions(order_counts, tenant)
    conditions += equal_conditions(order_counts, sub_account_id=query.sub_account_id)
    if query.family is not None:
        conditions.append(_type_condition(order_counts, query.family))
    return int(tx.execute(sa.select(sa.func.sum(order_counts.c.n)).where(*conditions)).scalar() or 0)


def _count_orders(tx: Tx, conditions: Conditions, *, count_limit: int | None) -> int:
    count_query = sa.select(sa.func.count()).select_from(orders).where(*conditions)
    if count_limit is not None:
        limited_orders = sa.select(orders.c.id).where(*conditions).limit(count_limit + 1).subquery()
        count_query = sa.select(sa.func.count()).select_from(limited_orders)
    return int(tx.execute(count_query).scalar_one())


@dataclass(frozen=True, slots=True)
class OrderStep:
    status: OrderStatus
    at: datetime


def list_order_steps(tx: Tx, order_id: int) -> list[OrderStep]:
    rows = tx.execute(SELECT_ORDER_STEPS, {"order_id": order_id})
    return [OrderStep(OrderStatus(row.current), row.at) for row in rows]


LOCK_ORDERS = sa.text("select id from orders where id = any(:orders) order by id for no key update")


def read_order(tx: Tx, order_id: int, *, locked: bool = False) -> Order:
    """`locked`, nobody else changes it before this transaction ends."""
    query = sa.select(orders).where(orders.c.id == order_id)
    row = tx.execute(query.with_for_update(key_share=True) if locked else query).first()
    if row is None:
        raise NotFound
    return Order.of(row)


def change_status(
    tx: Tx, order_ids: Sequence[int], *, expected: Sequence[OrderStatus], new_status: OrderStatus, now: datetime
) -> list[int]:
    """The ids of those that were in an expected status and changed."""
    # In the order of their ids, as a transaction that moves items locks them too.
    tx.execute(LOCK_ORDERS, {"orders": list(order_ids)})
    return list(
        tx.execute(
            sa.update(orders)
            .where(orders.c.id.in_(order_ids), orders.c.status.in_([status.value for status in expected]))
            .values(status=new_status.value, updated_at=now)
            .returning(orders.c.id)
        ).scalars()
    )


def lock_orders_of_items(source_sql: str) -> sa.TextClause:
    """Lock the orders of the items that `source_sql` names by `item_id`, by ascending id to avoid deadlocks."""
    return sa.text(
        f"""
        with wanted as ({source_sql})
        select id from orders
         where id in (select i.order_id from items i join wanted w on w.item_id = i.id)
         order by id for no key update
        """
    )


LOCK_ORDERS_OF_ITEMS = lock_orders_of_items("select unnest(cast(:items as bigint[])) as item_id")


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
    conditions = tenant_conditions(orders, tenant) + equal_conditions(orders, sub_account_id=sub_account_id)
    if since is not None:
        conditions.append(orders.c.created_at >= since)
    if until is not None:
        conditions.append(orders.c.created_at < until)
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


# A caller who is limited to a sub account sees only its hours. An hour belongs to the day in which it begins:
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
COUNT_NOT_MAILED = sa.text("""
    select coalesce(failure, '') as reason, count(*) as recipients
      from items where order_id = :order and status = 'Failed' and not is_mailed
     group by 1 order by 2 desc, 1 limit :most
""")


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
