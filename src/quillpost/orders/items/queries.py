"""Items: inserted, listed and searched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from operator import attrgetter
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.search import read_search_page, select_matching_items
from quillpost.core.database.tables.base import facts, items, orders
from quillpost.core.errors import NotFound
from quillpost.core.paging import (
    NEWEST_FIRST,
    OLDEST_FIRST,
    Page,
    PageRequest,
    Sorting,
    equal_conditions,
    read_page,
    tenant_conditions,
)
from quillpost.orders.giftcards.queries import CardEvent, read_card
from quillpost.orders.items.models import Item
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus, OrderStatus

INSERT_FIRST_ITEM_FACTS = sa.text("""
    with fact as (
        insert into facts (account_id, sub_account_id, mode, kind, order_id, item_id,
                           order_status, previous, current, at)
        select i.account_id, i.sub_account_id, i.mode, 'item.status', i.order_id, i.id,
               o.status, null, i.status, :now
          from items i join orders o on o.id = i.order_id
         where i.order_id = :order_id and (not :listed or i.mailing_list_id is not null) order by i.id
        returning id)
    insert into fact_queue (fact_id) select id from fact
""")
"""The first status of an order's items; `listed`, of those from its lists."""

SUM_LIVE_CENTS = sa.text("""
    select coalesce(sum(price_cents), 0) as pieces, coalesce(sum(gift_cents), 0) as gifts
      from items where order_id = :order_id and status <> 'Failed'
""")


COUNT_ITEMS = sa.text(f"""
    update orders o
       set recipient_count = c.everyone, {", ".join(f"n_{s.count_name} = c.{s.count_name}" for s in ItemStatus)}
      from (select count(*) as everyone, {
    ", ".join(f"count(*) filter (where status = '{s}') as {s.count_name}" for s in ItemStatus)
}
              from items where order_id = :order_id) c
     where o.id = :order_id
""")


def inline_item_conditions(order: Order) -> list[sa.ColumnElement[bool]]:
    """The items of an order that came from its call: all, where it has no lists. (People of an automation are on a
    list, but the list is not mailed.)"""
    inline_condition = [items.c.mailing_list_id.is_(None)] if order.mailing_list_ids else []
    return [items.c.order_id == order.id, *inline_condition]


class OrderCost(NamedTuple):
    item_cents: int
    gift_cents: int = 0

    @property
    def total_cents(self) -> int:
        return self.item_cents + self.gift_cents


def read_live_cost(tx: Tx, order_id: int) -> OrderCost:
    """The price of the items that have not failed; no card is issued yet."""
    row = tx.execute(SUM_LIVE_CENTS, {"order_id": order_id}).one()
    return OrderCost(int(row.pieces), int(row.gifts))


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """One step in an item's history, `place` where a carrier saw it. A gift card's event is a step without a previous
    status; an `inferred` delivery was not seen."""

    status: ItemStatus | CardEvent
    previous: ItemStatus | None
    at: datetime
    place: str | None = None
    reason: str | None = None
    inferred: bool = False


def match_items(search: str, tenant: Tenant, *, order_id: int | None = None) -> sa.CTE:
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
    """Items by words of their recipient: an order's in order, or all, newest first."""
    order_id = order.id if order else None
    equal_values = {"order_id": order_id, "sub_account_id": sub_account_id, "status": status and status.value}
    conditions = [*tenant_conditions(items, tenant), *equal_conditions(items, **equal_values)]
    matching_items = match_items(search, tenant, order_id=order_id)
    item_ids_query = (
        sa.select(items.c.id).join(matching_items, matching_items.c.item_id == items.c.id).where(*conditions)
    )
    sorting = NEWEST_FIRST if order is None else OLDEST_FIRST
    with db.system_transaction() as service_tx:
        ids, total = read_search_page(service_tx, item_ids_query, page_request, sorting=sorting)
    rows = tx.execute(sa.select(items).where(items.c.id.in_(ids)).order_by(*sorting.columns(items)))
    return Page([Item.of(row) for row in rows], total, page_request)


def list_items(tx: Tx, order: Order, page_request: PageRequest, *, status: ItemStatus | None = None) -> Page[Item]:
    """An order's items in order; the total is in its status_counts."""
    total = sum(order.status_counts.values()) if status is None else order.status_counts[status]
    conditions = equal_conditions(items, order_id=order.id, status=status and status.value)
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
    """Items of all orders, newest first; the total comes from the orders' counts."""
    count_column = sum(
        (orders.c[f"n_{item_status.count_name}"] for item_status in ItemStatus if status in (None, item_status)),
        sa.literal(0),
    )
    order_conditions = tenant_conditions(orders, tenant) + equal_conditions(orders, sub_account_id=sub_account_id)
    item_conditions = tenant_conditions(items, tenant)
    item_conditions += equal_conditions(items, sub_account_id=sub_account_id, status=status and status.value)
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


def list_item_steps(tx: Tx, item: Item) -> list[HistoryStep]:
    """The item's and its card's history, oldest first."""
    card = read_card(tx, item.id)
    card_events = card.list_events() if card else []
    card_steps = [HistoryStep(event, None, at, reason=reason) for event, at, reason in card_events]
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
    """Where an order was canceled or refused, one fact, its last status, stands for all its items."""
    conditions = facts.c.order_id == item.order_id, facts.c.kind != "item.scan"
    last_fact = tx.execute(sa.select(facts).where(*conditions).order_by(facts.c.id.desc()).limit(1)).one()
    was_stopped = last_fact.kind == "order.status" and last_fact.current in (OrderStatus.CANCELLED, OrderStatus.ERROR)
    return [HistoryStep(item.status, previous, last_fact.at)] if was_stopped else []


def read_item_price(tx: Tx, item_id: int) -> int:
    return int(tx.execute(sa.select(items.c.price_cents).where(items.c.id == item_id)).scalar_one())


def list_items_with_status(tx: Tx, order: Order, status: ItemStatus, *, limit: int) -> list[Item]:
    if not order.status_counts[status]:
        return []
    return _read_first_items(tx, items.c.order_id == order.id, items.c.status == status.value, limit=limit)


def list_first_items(tx: Tx, order_id: int, *, limit: int) -> list[Item]:
    """For a proof: the first mailed items, else the first items."""
    in_order = items.c.order_id == order_id
    return _read_first_items(tx, in_order, items.c.failure.is_(None), limit=limit) or _read_first_items(
        tx, in_order, limit=limit
    )


def _read_first_items(tx: Tx, *conditions: sa.ColumnElement[bool], limit: int) -> list[Item]:
    rows = tx.execute(sa.select(items).where(*conditions).order_by(items.c.id).limit(limit))
    return [Item.of(row) for row in rows]


MAX_SEARCH_RESULTS = 10_000
# One plan for all would hold every order for a small one, and read a large one from end to end for a name.
FORCE_CUSTOM_PLAN = sa.text("set local plan_cache_mode = force_custom_plan")
LAST_CHAR = "\U0010ffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemQuery:
    """All filters must match. `streets` are prefixes of address keys; `name` is a prefix, `email` is exact, both in any
    case."""

    streets: Sequence[str] = ()
    name: str | None = None
    email: str | None = None
    sub_account_id: int | None = None
    order_id: int | None = None


@dataclass(frozen=True, slots=True)
class ItemSearchResult:
    """Newest first, each order once."""

    items: list[Item]
    orders: list[Order]
    is_cut: bool


def search_by_recipient(
    db: Database, tx: Tx, tenant: Tenant, query: ItemQuery, *, limit: int | None = None
) -> ItemSearchResult:
    """The newest matches up to the limit. Ids are found outside row-level security, and rows read as the caller:
    `lower` is not leakproof, so a tenant could not use its index."""
    limit = MAX_SEARCH_RESULTS if limit is None else limit
    with db.system_transaction() as service_tx:
        ids = _newest_ids(service_tx, [*tenant_conditions(items, tenant), *_item_conditions(query)], limit + 1)
    matching_items = [Item.of(row) for row in _read_newest_first(tx, items, ids[:limit])]
    order_rows = _read_newest_first(tx, orders, {item.order_id for item in matching_items})
    return ItemSearchResult(matching_items, [Order.of(row) for row in order_rows], is_cut=len(ids) > limit)


def _newest_ids(service_tx: Tx, conditions: Sequence[sa.ColumnElement[bool]], limit: int) -> list[int]:
    """Newest first. PostgreSQL cannot tell how rare a name is, and would scan all items backwards for a rare one. So a
    few are fetched by their index first; only a frequent name is read backwards."""
    service_tx.execute(FORCE_CUSTOM_PLAN)
    query = sa.select(items.c.id).where(*conditions)
    ids = service_tx.execute(query.limit(max(limit, MAX_SEARCH_RESULTS) + 1)).scalars().all()
    if len(ids) > max(limit, MAX_SEARCH_RESULTS):
        ids = service_tx.execute(query.order_by(items.c.id.desc()).limit(limit)).scalars().all()
    return sorted(ids, reverse=True)[:limit]


def _item_conditions(query: ItemQuery) -> list[sa.ColumnElement[bool]]:
    conditions = equal_conditions(items, sub_account_id=query.sub_account_id, order_id=query.order_id)
    if query.streets:
        prefixes = [_starts_with(items.c.address_key, street, sa.literal) for street in query.streets]
        conditions.append(sa.or_(*prefixes))
    if query.name is not None:
        conditions.append(_starts_with(sa.func.lower(items.c.name), query.name, sa.func.lower))
    if query.email is not None:
        conditions.append(sa.func.lower(items.c.email) == sa.func.lower(query.email))
    return conditions


def _starts_with(
    text: sa.ColumnElement[str], prefix: str, transform: Callable[[str], sa.ColumnElement[str]]
) -> sa.ColumnElement[bool]:
    """As a range: LIKE uses the index only with a constant pattern."""
    low, high = transform(prefix), transform(prefix + LAST_CHAR)
    return sa.and_(text.op("~>=~")(low), text.op("~<~")(high))


def _read_newest_first(tx: Tx, table: sa.Table, ids: Sequence[int] | set[int]) -> Sequence[sa.Row[Any]]:
    id_array = sa.any_(sa.cast(list(ids), ARRAY(sa.BigInteger())))
    return tx.execute(sa.select(table).where(table.c.id == id_array).order_by(table.c.id.desc())).all()


INSERT_ORDER_STATUS_EVENTS = sa.text("""
    with fact as (
        insert into facts (account_id, sub_account_id, mode, kind, order_id,
                           order_status, previous, current, at)
        select account_id, sub_account_id, mode, 'order.status', id, status,
               cast(:previous as text), status, :now
          from orders where id = any(:orders) order by id
        returning id)
    insert into fact_queue (fact_id) select id from fact
""")


def record_order_status_change(tx: Tx, order_ids: Sequence[int], *, previous: str | None, now: datetime) -> None:
    """Call it after the status has changed from `previous`."""
    if order_ids:
        tx.execute(INSERT_ORDER_STATUS_EVENTS, {"orders": list(order_ids), "previous": previous, "now": now})
