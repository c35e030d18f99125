"""Orders and pieces as callers look through them. A tenant's transaction sees that tenant's rows alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from operator import attrgetter

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.search import read_search_page, select_matching_items
from quillpost.core.database.tables.base import facts, items, orders
from quillpost.core.database.tables.counters import order_counts
from quillpost.core.errors import NotFound
from quillpost.core.paging import (
    NEWEST_FIRST,
    OLDEST_FIRST,
    Conditions,
    Page,
    PageRequest,
    Sorting,
    read_page,
    select_page_ids,
    tenant_conditions,
)
from quillpost.orders.giftcards.queries import CardEvent, read_card
from quillpost.orders.models import Item, Order
from quillpost.orders.products import ProductFamily
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.search import MetadataAlternatives

UNBOUNDED_TOTAL = 10**12
"""No list is that long: seen from here, every page is nearer to the beginning."""

MAX_ID_DIGITS = 19
"""Digits of a number that no id has."""

SELECT_ORDER_STEPS = sa.text(
    "select previous, current, at from facts where order_id = :order_id and kind = 'order.status' order by id"
)
"""In an index that has nothing else: an order may have millions of facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderQuery:
    """Which orders are wanted; what is not said does not matter. `created_before` itself is not within."""

    sub_account_id: int | None = None
    family: ProductFamily | None = None
    status: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    metadata: Sequence[MetadataAlternatives] = ()
    search: str | None = None
    """Words of someone whom the order goes to; or its own number."""

    @property
    def has_dates(self) -> bool:
        return self.created_after is not None or self.created_before is not None

    @property
    def has_stored_count(self) -> bool:
        """Whether somebody counts these orders already, so that nobody has to now."""
        has_size = self.family is not None and self.family.size is not None
        return not (self.status or self.has_dates or self.metadata or self.search or has_size)


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """One move in a piece's history: when it happened, or was seen by a carrier, and then where; why it came
    back or went elsewhere. A delivery that nobody saw is `inferred`. What became of its gift card is a
    step, too: it changes nothing of where the piece is, and has no previous status."""

    status: ItemStatus | CardEvent
    previous: ItemStatus | None
    at: datetime
    place: str | None = None
    reason: str | None = None
    inferred: bool = False


def list_orders(
    db: Database,
    tx: Tx,
    tenant: Tenant,
    page_request: PageRequest,
    query: OrderQuery,
    *,
    count_limit: int | None = None,
) -> Page[Order]:
    """Newest first. Where nobody has counted them they are counted now: up to `count_limit`, where that is given,
    and then a total of one more says that there are more."""
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
    """The service itself finds the ids; what is shown of them is read as the caller.

    Row-level security comes before every operator that PostgreSQL does not know to keep secrets, and `@>`
    is such a one: for a tenant its index is closed, and each order would be looked at.
    """
    with db.system_transaction() as service_tx:
        total = _count_orders(service_tx, conditions, count_limit=count_limit)
        ids = list(service_tx.execute(select_page_ids(orders, conditions, page_request, total=total)).scalars())
    rows = tx.execute(sa.select(orders).where(orders.c.id.in_(ids)).order_by(orders.c.id.desc()))
    return Page([Order.of(row) for row in rows], total, page_request)


def _list_by_text(
    db: Database, tx: Tx, tenant: Tenant, conditions: Conditions, page_request: PageRequest, search: str
) -> Page[Order]:
    """The service finds the orders of the pieces that have the words, and the one with that number."""
    number = search.removeprefix("#")
    is_number = number.isascii() and number.isdigit() and len(number) < MAX_ID_DIGITS
    id_query = sa.select(sa.cast(int(number) if is_number else None, sa.BigInteger()))
    ids = sa.union(sa.select(_items_matching_text(search, tenant).c.order_id), id_query).subquery()
    matching_orders = sa.select(orders.c.id).where(orders.c.id.in_(sa.select(*ids.c)), *conditions)
    with db.system_transaction() as service_tx:
        page_ids, total = read_search_page(service_tx, matching_orders, page_request)
    rows = tx.execute(sa.select(orders).where(orders.c.id.in_(page_ids)).order_by(orders.c.id.desc()))
    return Page([Order.of(row) for row in rows], total, page_request)


def _items_matching_text(search: str, tenant: Tenant, *, order_id: int | None = None) -> sa.CTE:
    assert tenant.mode is not None, "a search is in one mode"
    return select_matching_items(search, tenant.account_id, tenant.mode, order_id=order_id)


def search_items(
    db: Database,
    tx: Tx,
    tenant: Tenant,
    page_request: PageRequest,
    search: str,
    *,
    order: Order | None = None,
    sub_account_id: int | None = None,
    status: ItemStatus | None = None,
) -> Page[Item]:
    """The pieces whose recipients have the words: an order's as they were given, or all, newest first."""
    conditions = tenant_conditions(items, tenant)
    if order is not None:
        conditions.append(items.c.order_id == order.id)
    if sub_account_id is not None:
        conditions.append(items.c.sub_account_id == sub_account_id)
    if status is not None:
        conditions.append(items.c.status == status.value)
    matching_items = _items_matching_text(search, tenant, order_id=None if order is None else order.id)
    item_ids_query = (
        sa.select(items.c.id).join(matching_items, matching_items.c.item_id == items.c.id).where(*conditions)
    )
    sorting = NEWEST_FIRST if order is None else OLDEST_FIRST
    with db.system_transaction() as service_tx:
        ids, total = read_search_page(service_tx, item_ids_query, page_request, sorting=sorting)
    rows = tx.execute(sa.select(items).where(items.c.id.in_(ids)).order_by(*sorting.columns(items)))
    return Page([Item.of(row) for row in rows], total, page_request)


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
    """How many orders each of these sub accounts has, where it has any."""
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


def list_items(tx: Tx, order: Order, page_request: PageRequest, *, status: ItemStatus | None = None) -> Page[Item]:
    """An order's pieces as they were given. How many there are the order's status_counts say."""
    total = sum(order.status_counts.values()) if status is None else order.status_counts[status]
    conditions = [items.c.order_id == order.id]
    if status is not None:
        conditions.append(items.c.status == status.value)
    rows = read_page(tx, items, conditions, page_request, total=total, sorting=OLDEST_FIRST)
    return Page([Item.of(row) for row in rows], total, page_request)


def list_all_items(
    tx: Tx,
    tenant: Tenant,
    page_request: PageRequest,
    *,
    sub_account_id: int | None = None,
    status: ItemStatus | None = None,
) -> Page[Item]:
    """The pieces of all orders, newest first. The orders' tallies say how many: fewer rows than pieces."""
    count_column = sum(
        (orders.c[f"n_{item_status.count_name}"] for item_status in ItemStatus if status in (None, item_status)),
        sa.literal(0),
    )
    order_conditions, item_conditions = tenant_conditions(orders, tenant), tenant_conditions(items, tenant)
    if sub_account_id is not None:
        order_conditions.append(orders.c.sub_account_id == sub_account_id)
        item_conditions.append(items.c.sub_account_id == sub_account_id)
    if status is not None:
        item_conditions.append(items.c.status == status.value)
    total = int(tx.execute(sa.select(sa.func.sum(count_column)).where(*order_conditions)).scalar() or 0)
    rows = read_page(
        tx, items, item_conditions, page_request, total=total, sorting=Sorting(leading_column=items.c.mode)
    )
    return Page([Item.of(row) for row in rows], total, page_request)


def read_item(tx: Tx, item_id: int) -> Item:
    row = tx.execute(sa.select(items).where(items.c.id == item_id)).first()
    if row is None:
        raise NotFound
    return Item.of(row)


@dataclass(frozen=True, slots=True)
class OrderStep:
    """What an order became, and when."""

    status: OrderStatus
    at: datetime


def list_order_steps(tx: Tx, order_id: int) -> list[OrderStep]:
    """What has become of the order itself, oldest first."""
    rows = tx.execute(SELECT_ORDER_STEPS, {"order_id": order_id})
    return [OrderStep(OrderStatus(row.current), row.at) for row in rows]


def list_item_steps(tx: Tx, item: Item) -> list[HistoryStep]:
    """Where the piece has been and what became of its card, oldest first."""
    card = read_card(tx, item.id)
    card_steps = (
        ()
        if card is None
        else (
            HistoryStep(card_step.event, None, card_step.at, reason=card_step.reason) for card_step in card.list_steps()
        )
    )
    # Each in its own order: a carrier may tell late what it saw early.
    return list(merge(_list_status_steps(tx, item), card_steps, key=attrgetter("at")))


def _list_status_steps(tx: Tx, item: Item) -> list[HistoryStep]:
    conditions = facts.c.item_id == item.id, facts.c.kind == "item.status"
    steps = [
        HistoryStep(
            ItemStatus(row.current),
            row.previous and ItemStatus(row.previous),
            row.seen_at or row.at,
            row.place,
            row.reason,
            row.inferred,
        )
        for row in tx.execute(sa.select(facts).where(*conditions).order_by(facts.c.id))
    ]
    last_status = ItemStatus(steps[-1].status) if steps else item.status
    return steps if last_status is item.status else [*steps, *_list_stop_steps(tx, item, last_status)]


def _list_stop_steps(tx: Tx, item: Item, previous: ItemStatus) -> list[HistoryStep]:
    """One fact, the last of a status, tells for all its pieces that the order was cancelled or refused. What
    is scanned later changes nothing of that."""
    conditions = facts.c.order_id == item.order_id, facts.c.kind != "item.scan"
    last_fact = tx.execute(sa.select(facts).where(*conditions).order_by(facts.c.id.desc()).limit(1)).one()
    was_stopped = last_fact.kind == "order.status" and last_fact.current in (OrderStatus.CANCELLED, OrderStatus.ERROR)
    return [HistoryStep(item.status, previous, last_fact.at)] if was_stopped else []


def read_item_price(tx: Tx, item_id: int) -> int:
    """What the piece costs by itself, in cents."""
    return int(tx.execute(sa.select(items.c.price_cents).where(items.c.id == item_id)).scalar_one())


def list_items_with_status(tx: Tx, order: Order, status: ItemStatus, *, limit: int) -> list[Item]:
    if not order.status_counts[status]:
        return []
    return _read_first_items(tx, items.c.order_id == order.id, items.c.status == status.value, limit=limit)


def list_first_items(tx: Tx, order_id: int, *, limit: int) -> list[Item]:
    """The first pieces of an order, for a proof: those that are mailed, or where none is, the others."""
    in_order = items.c.order_id == order_id
    return _read_first_items(tx, in_order, items.c.failure.is_(None), limit=limit) or _read_first_items(
        tx, in_order, limit=limit
    )


def _read_first_items(tx: Tx, *conditions: sa.ColumnElement[bool], limit: int) -> list[Item]:
    rows = tx.execute(sa.select(items).where(*conditions).order_by(items.c.id).limit(limit))
    return [Item.of(row) for row in rows]
