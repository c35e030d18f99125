"""Orders and stored sends in the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB

from quillpost.accounts.models import Caller
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.search import read_search_page
from quillpost.core.database.tables.base import orders, stored_sends
from quillpost.core.database.tables.orders import order_counts
from quillpost.core.errors import NotFound
from quillpost.core.paging import Conditions, Page, PageRequest, Sorting, read_page, select_page_ids, tenant_conditions
from quillpost.orders.items.queries import match_items
from quillpost.orders.models import Order
from quillpost.orders.products import ProductFamily
from quillpost.orders.rules import MetadataAlternatives, OrderStatus

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
    equal_values = {name: getattr(query, name) for name in ("sub_account_id", "status")}
    conditions = [orders.c[name] == value for name, value in equal_values.items() if value is not None]
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
    if query.sub_account_id is not None:
        conditions.append(order_counts.c.sub_account_id == query.sub_account_id)
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


INSERT_ORDER = sa.insert(orders).returning(*orders.c)
"""Built once: building it for each send would cost as much as the insert."""


LOCK_ORDERS = sa.text("select id from orders where id = any(:orders) order by id for no key update")


def insert_order(tx: Tx, values: dict[str, Any]) -> Order:
    return Order.of(tx.execute(INSERT_ORDER, values).one())


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


STORED_SEND_LIFETIME = timedelta(days=90)
"""Since it was stored, previewed or sent."""


@dataclass(frozen=True, slots=True)
class PendingSend:
    """`body` is the original text; once sent, the answer replaces it."""

    id: UUID
    sub_account_id: int | None
    piece: str
    body: str
    answer_body: bytes | None
    answer_headers: dict[str, str] | None


def store_send(
    tx: Tx,
    caller: Caller,
    *,
    piece: str,
    sub_account_id: int | None,
    body: str,
    now: datetime,
    stored_id: UUID | None = None,
) -> UUID:
    """Its id, new or given; storing the same id twice is one send."""
    stored_id = stored_id or uuid4()
    tx.execute(
        postgresql.insert(stored_sends)
        .values(
            id=stored_id,
            account_id=caller.account_id,
            sub_account_id=sub_account_id,
            mode=caller.mode,
            piece=piece,
            body=body,
            created_at=now,
            expires_at=now + STORED_SEND_LIFETIME,
        )
        .on_conflict_do_nothing(index_elements=["id"])
    )
    return stored_id


def read_stored_send(tx: Tx, stored_id: UUID, *, piece: str, locked: bool = False) -> PendingSend:
    """`locked`, nobody else sends it before this transaction ends."""
    query = sa.select(stored_sends).where(stored_sends.c.id == stored_id, stored_sends.c.piece == piece)
    row = tx.execute(query.with_for_update() if locked else query).first()
    if row is None:
        raise NotFound
    response_body = None if row.answer_body is None else bytes(row.answer_body)
    return PendingSend(row.id, row.sub_account_id, row.piece, row.body, response_body, row.answer_headers)


def store_response(tx: Tx, stored_id: UUID, *, body: bytes, headers: dict[str, str], now: datetime) -> None:
    """In the transaction that creates the order, which has the recipients from here on."""
    tx.execute(
        sa.update(stored_sends)
        .where(stored_sends.c.id == stored_id)
        .values(body="", answer_body=body, answer_headers=headers, sent_at=now, expires_at=now + STORED_SEND_LIFETIME)
    )


def extend_lifetime(tx: Tx, stored_id: UUID, *, now: datetime) -> None:
    tx.execute(
        sa.update(stored_sends).where(stored_sends.c.id == stored_id).values(expires_at=now + STORED_SEND_LIFETIME)
    )


def delete_expired_sends(db: Database, *, retention_days: int = STORED_SEND_LIFETIME.days, now: datetime) -> None:
    """One that is being sent is waited for, and then has more time."""
    with db.system_transaction() as tx:
        expires_before = now + STORED_SEND_LIFETIME - timedelta(days=retention_days)
        tx.execute(sa.delete(stored_sends).where(stored_sends.c.expires_at < expires_before))
