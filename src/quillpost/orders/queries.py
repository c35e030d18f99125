"""Orders and pieces as callers look through them. A tenant's transaction sees that tenant's rows alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from operator import attrgetter

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.search import found_page, items_with_words
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
    page_ids,
    read_page,
    rows_of,
)
from quillpost.orders.giftcards.queries import CardEvent, read_card
from quillpost.orders.models import Item, Order
from quillpost.orders.products import Family
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.search import Alternatives

END_OF_TIME = 10**12
"""No list is that long: seen from here, every page is nearer to the beginning."""

LONGEST_NUMBER = 19
"""Digits of a number that no id has."""

STATES = sa.text(
    "select previous, current, at from facts where order_id = :order_id and kind = 'order.status' order by id"
)
"""In an index that has nothing else: an order may have millions of facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFilter:
    """Which orders are wanted; what is not said does not matter. `created_before` itself is not within."""

    sub_account_id: int | None = None
    family: Family | None = None
    status: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    metadata: Sequence[Alternatives] = ()
    search: str | None = None
    """Words of someone whom the order goes to; or its own number."""

    @property
    def is_dated(self) -> bool:
        return self.created_after is not None or self.created_before is not None

    @property
    def is_tallied(self) -> bool:
        """Whether somebody counts these orders already, so that nobody has to now."""
        is_sized = self.family is not None and self.family.size is not None
        return not (self.status or self.is_dated or self.metadata or self.search or is_sized)


@dataclass(frozen=True, slots=True)
class Step:
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
    who: Tenant,
    asked: PageRequest,
    wanted: OrderFilter,
    *,
    most: int | None = None,
) -> Page[Order]:
    """Newest first. Where nobody has counted them they are counted now: up to `most`, where that is given,
    and then a total of one more says that there are more."""
    conditions = [*rows_of(orders, who), *_conditions(wanted)]
    if wanted.search is not None:
        return _list_by_words(db, tx, who, conditions, asked, wanted.search)
    if wanted.metadata:
        return _list_by_metadata(db, tx, conditions, asked, most=most)
    total = _tallied(tx, who, wanted) if wanted.is_tallied else _counted(tx, conditions, most=most)
    # The index that knows the time has its rows by time.
    sorting = Sorting(by=(orders.c.created_at,) if wanted.is_dated else (), led_by=orders.c.mode)
    is_cut = not wanted.is_tallied and most is not None and total > most
    end = END_OF_TIME if is_cut and asked.offset < total else total
    rows = read_page(tx, orders, conditions, asked, total=end, sorting=sorting)
    return Page([Order.of(row) for row in rows], total, asked)


def _list_by_metadata(
    db: Database, tx: Tx, conditions: Conditions, asked: PageRequest, *, most: int | None
) -> Page[Order]:
    """The service itself finds the ids; what is shown of them is read as the caller.

    Row-level security comes before every operator that PostgreSQL does not know to keep secrets, and `@>`
    is such a one: for a tenant its index is closed, and each order would be looked at.
    """
    with db.work() as service:
        total = _counted(service, conditions, most=most)
        ids = list(service.execute(page_ids(orders, conditions, asked, total=total)).scalars())
    rows = tx.execute(sa.select(orders).where(orders.c.id.in_(ids)).order_by(orders.c.id.desc()))
    return Page([Order.of(row) for row in rows], total, asked)


def _list_by_words(
    db: Database, tx: Tx, who: Tenant, conditions: Conditions, asked: PageRequest, search: str
) -> Page[Order]:
    """The service finds the orders of the pieces that have the words, and the one with that number."""
    number = search.removeprefix("#")
    is_number = number.isascii() and number.isdigit() and len(number) < LONGEST_NUMBER
    itself = sa.select(sa.cast(int(number) if is_number else None, sa.BigInteger()))
    ids = sa.union(sa.select(_items_with_words(search, who).c.order_id), itself).subquery()
    found = sa.select(orders.c.id).where(orders.c.id.in_(sa.select(*ids.c)), *conditions)
    with db.work() as service:
        page, total = found_page(service, found, asked)
    rows = tx.execute(sa.select(orders).where(orders.c.id.in_(page)).order_by(orders.c.id.desc()))
    return Page([Order.of(row) for row in rows], total, asked)


def _items_with_words(search: str, who: Tenant, *, order_id: int | None = None) -> sa.CTE:
    assert who.mode is not None, "a search is in one mode"
    return items_with_words(search, who.account_id, who.mode, order_id=order_id)


def searched_items(
    db: Database,
    tx: Tx,
    who: Tenant,
    asked: PageRequest,
    search: str,
    *,
    order: Order | None = None,
    sub_account_id: int | None = None,
    status: ItemStatus | None = None,
) -> Page[Item]:
    """The pieces whose recipients have the words: an order's as they were given, or all, newest first."""
    wanted = rows_of(items, who)
    if order is not None:
        wanted.append(items.c.order_id == order.id)
    if sub_account_id is not None:
        wanted.append(items.c.sub_account_id == sub_account_id)
    if status is not None:
        wanted.append(items.c.status == status.value)
    some = _items_with_words(search, who, order_id=None if order is None else order.id)
    found = sa.select(items.c.id).join(some, some.c.item_id == items.c.id).where(*wanted)
    sorting = NEWEST_FIRST if order is None else OLDEST_FIRST
    with db.work() as service:
        ids, total = found_page(service, found, asked, sorting=sorting)
    rows = tx.execute(sa.select(items).where(items.c.id.in_(ids)).order_by(*sorting.columns(items)))
    return Page([Item.of(row) for row in rows], total, asked)


def _conditions(wanted: OrderFilter) -> list[sa.ColumnElement[bool]]:
    equal = {name: getattr(wanted, name) for name in ("sub_account_id", "status")}
    conditions = [orders.c[name] == value for name, value in equal.items() if value is not None]
    if wanted.family is not None:
        conditions.append(_of_types(orders, wanted.family))
        if wanted.family.size is not None:
            conditions.append(orders.c.size == wanted.family.size)
    if wanted.created_after is not None:
        conditions.append(orders.c.created_at >= wanted.created_after)
    if wanted.created_before is not None:
        conditions.append(orders.c.created_at < wanted.created_before)
    if wanted.metadata:
        conditions.append(orders.c.metadata_index.is_not(None))
    for alternatives in wanted.metadata:
        inside = [sa.cast(sa.literal(text, sa.Text()), JSONB()) for text in alternatives]
        conditions.append(sa.or_(*(orders.c.metadata_index.contains(each) for each in inside)))
    return conditions


def _of_types(table: sa.Table, family: Family) -> sa.ColumnElement[bool]:
    # One type by a plain equality: an index has its rows in the order of the list.
    if len(family.types) == 1:
        return table.c.type == family.types[0]
    return table.c.type.in_(family.types)


def orders_by_sub_account(tx: Tx, who: Tenant, among: Sequence[int]) -> dict[int, int]:
    """How many orders each of these sub accounts has, where it has any."""
    whose = order_counts.c.sub_account_id
    rows = tx.execute(
        sa.select(whose, sa.func.sum(order_counts.c.n))
        .where(*rows_of(order_counts, who), whose.in_(among))
        .group_by(whose)
    )
    return {row[0]: int(row[1]) for row in rows if row[1]}


def _tallied(tx: Tx, who: Tenant, wanted: OrderFilter) -> int:
    conditions = rows_of(order_counts, who)
    if wanted.sub_account_id is not None:
        conditions.append(order_counts.c.sub_account_id == wanted.sub_account_id)
    if wanted.family is not None:
        conditions.append(_of_types(order_counts, wanted.family))
    return int(tx.execute(sa.select(sa.func.sum(order_counts.c.n)).where(*conditions)).scalar() or 0)


def _counted(tx: Tx, conditions: Conditions, *, most: int | None) -> int:
    counted = sa.select(sa.func.count()).select_from(orders).where(*conditions)
    if most is not None:
        some = sa.select(orders.c.id).where(*conditions).limit(most + 1).subquery()
        counted = sa.select(sa.func.count()).select_from(some)
    return int(tx.execute(counted).scalar_one())


def list_items(tx: Tx, order: Order, asked: PageRequest, *, status: ItemStatus | None = None) -> Page[Item]:
    """An order's pieces as they were given. How many there are the order's tally knows."""
    total = sum(order.tally.values()) if status is None else order.tally[status]
    conditions = [items.c.order_id == order.id]
    if status is not None:
        conditions.append(items.c.status == status.value)
    rows = read_page(tx, items, conditions, asked, total=total, sorting=OLDEST_FIRST)
    return Page([Item.of(row) for row in rows], total, asked)


def list_every_item(
    tx: Tx,
    who: Tenant,
    asked: PageRequest,
    *,
    sub_account_id: int | None = None,
    status: ItemStatus | None = None,
) -> Page[Item]:
    """The pieces of all orders, newest first. The orders' tallies say how many: fewer rows than pieces."""
    tally = sum((orders.c[f"n_{each.tally}"] for each in ItemStatus if status in (None, each)), sa.literal(0))
    in_orders, in_items = rows_of(orders, who), rows_of(items, who)
    if sub_account_id is not None:
        in_orders.append(orders.c.sub_account_id == sub_account_id)
        in_items.append(items.c.sub_account_id == sub_account_id)
    if status is not None:
        in_items.append(items.c.status == status.value)
    total = int(tx.execute(sa.select(sa.func.sum(tally)).where(*in_orders)).scalar() or 0)
    rows = read_page(tx, items, in_items, asked, total=total, sorting=Sorting(led_by=items.c.mode))
    return Page([Item.of(row) for row in rows], total, asked)


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


def states(tx: Tx, order_id: int) -> list[OrderStep]:
    """What has become of the order itself, oldest first."""
    found = tx.execute(STATES, {"order_id": order_id})
    return [OrderStep(OrderStatus(row.current), row.at) for row in found]


def history(tx: Tx, item: Item) -> list[Step]:
    """Where the piece has been and what became of its card, oldest first."""
    card = read_card(tx, item.id)
    lived = () if card is None else (Step(one.event, None, one.at, reason=one.reason) for one in card.life())
    # Each in its own order: a carrier may tell late what it saw early.
    return list(merge(_travels(tx, item), lived, key=attrgetter("at")))


def _travels(tx: Tx, item: Item) -> list[Step]:
    own = facts.c.item_id == item.id, facts.c.kind == "item.status"
    steps = [
        Step(
            ItemStatus(row.current),
            row.previous and ItemStatus(row.previous),
            row.seen_at or row.at,
            row.place,
            row.reason,
            row.inferred,
        )
        for row in tx.execute(sa.select(facts).where(*own).order_by(facts.c.id))
    ]
    last = ItemStatus(steps[-1].status) if steps else item.status
    return steps if last is item.status else [*steps, *_stopped(tx, item, last)]


def _stopped(tx: Tx, item: Item, previous: ItemStatus) -> list[Step]:
    """One fact, the last of a status, tells for all its pieces that the order was cancelled or refused. What
    is scanned later changes nothing of that."""
    of_order = facts.c.order_id == item.order_id, facts.c.kind != "item.scan"
    last = tx.execute(sa.select(facts).where(*of_order).order_by(facts.c.id.desc()).limit(1)).one()
    is_it = last.kind == "order.status" and last.current in (OrderStatus.CANCELLED, OrderStatus.ERROR)
    return [Step(item.status, previous, last.at)] if is_it else []


def price_of(tx: Tx, item_id: int) -> int:
    """What the piece costs by itself, in cents."""
    return int(tx.execute(sa.select(items.c.price_cents).where(items.c.id == item_id)).scalar_one())


def items_in_trouble(tx: Tx, order: Order, status: ItemStatus, *, most: int) -> list[Item]:
    if not order.tally[status]:
        return []
    return _first(tx, items.c.order_id == order.id, items.c.status == status.value, most=most)


def first_items(tx: Tx, order_id: int, *, most: int) -> list[Item]:
    """The first pieces of an order, for a proof: those that are mailed, or where none is, the others."""
    inside = items.c.order_id == order_id
    return _first(tx, inside, items.c.failure.is_(None), most=most) or _first(tx, inside, most=most)


def _first(tx: Tx, *wanted: sa.ColumnElement[bool], most: int) -> list[Item]:
    rows = tx.execute(sa.select(items).where(*wanted).order_by(items.c.id).limit(most))
    return [Item.of(row) for row in rows]
