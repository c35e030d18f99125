"""Queries of orders and items. Under a tenant's transaction they see that tenant's rows alone."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from quillpost.audience.rules import CUSTOM, Person
from quillpost.database import Tx
from quillpost.database.bulk import insert_rows
from quillpost.database.tables import items, orders
from quillpost.kit.errors import NotFound
from quillpost.kit.paging import Page, PageRequest
from quillpost.orders.records import Item, Order
from quillpost.orders.rules import ItemStatus, OrderStatus

ITEM_COLUMNS = (
    "account_id", "sub_account_id", "mode", "order_id", "status", "failure", "scans", "price_cents",
    "name", "company", "address", "address2", "city", "province", "postal_code", "country",
    "email", "phone", "dob", "anniversary", *CUSTOM, "address_key", "code",
    "front_file_id", "background_file_id", "created_at", "updated_at",
)  # fmt: skip

FIRST_ITEM_FACTS = sa.text(
    """
    with fact as (
        insert into facts (account_id, sub_account_id, mode, kind, order_id, item_id,
                           order_status, previous, current, at)
        select i.account_id, i.sub_account_id, i.mode, 'item.status', i.order_id, i.id,
               o.status, null, i.status, :now
          from items i join orders o on o.id = i.order_id
         where i.order_id = :order_id order by i.id
        returning id)
    insert into fact_queue (fact_id) select id from fact
    """
)

TAKE_TURNS = sa.text("select id from orders where id = any(:orders) order by id for no key update")

COUNT_ITEMS = sa.text(
    f"""
    update orders o
       set recipient_count = c.everyone, {", ".join(f"n_{s.tally} = c.{s.tally}" for s in ItemStatus)}
      from (select count(*) as everyone, {
        ", ".join(f"count(*) filter (where status = '{s}') as {s.tally}" for s in ItemStatus)
    }
              from items where order_id = :order_id) c
     where o.id = :order_id
    """
)


OwnFiles = Mapping[int, tuple[UUID | None, UUID | None]]
"""Front and background of those who have pictures of their own, by their place in the audience."""

NO_FILES = (None, None)


def insert_order(tx: Tx, values: dict[str, Any]) -> int:
    return int(tx.execute(sa.insert(orders).values(**values).returning(orders.c.id)).scalar_one())


def insert_items(
    tx: Tx,
    order_id: int,
    people: Sequence[tuple[Person, int, str | None]],
    own_files: OwnFiles,
    *,
    account_id: int,
    sub_account_id: int | None,
    mode: str,
    now: datetime,
) -> None:
    """An item for each person with price, short code and files; a refused one is Failed from the start."""
    rows = [
        (
            account_id, sub_account_id, mode, order_id,
            (ItemStatus.FAILED if person.refusal else ItemStatus.PROCESSING).value,
            person.refusal, 0, cents,
            person.name, person.company, person.address, person.address2, person.city,
            person.province, person.postal_code, person.country, person.email, person.phone,
            person.dob, person.anniversary, *person.custom, person.address_key, code,
            *own_files.get(place, NO_FILES), now, now,
        )
        for place, (person, cents, code) in enumerate(people)
    ]  # fmt: skip
    insert_rows(tx, items, ITEM_COLUMNS, rows)
    tx.execute(COUNT_ITEMS, {"order_id": order_id})


def append_first_item_facts(tx: Tx, order_id: int, *, now: datetime) -> None:
    tx.execute(FIRST_ITEM_FACTS, {"order_id": order_id, "now": now})


def read_order(tx: Tx, order_id: int, *, locked: bool = False) -> Order:
    """The order; `locked`, nobody else changes it before this transaction ends."""
    query = sa.select(orders).where(orders.c.id == order_id)
    row = tx.execute(query.with_for_update(key_share=True) if locked else query).first()
    if row is None:
        raise NotFound
    return Order.of(row)


def list_orders(
    tx: Tx,
    asked: PageRequest,
    *,
    sub_account_id: int | None = None,
    type: str | None = None,  # noqa: A002
    status: str | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
) -> Page[Order]:
    """Newest first."""
    wanted: list[sa.ColumnElement[bool]] = []
    if sub_account_id is not None:
        wanted.append(orders.c.sub_account_id == sub_account_id)
    if type is not None:
        wanted.append(orders.c.type == type)
    if status is not None:
        wanted.append(orders.c.status == status)
    if created_after is not None:
        wanted.append(orders.c.created_at >= created_after)
    if created_before is not None:
        wanted.append(orders.c.created_at < created_before)
    rows = tx.execute(
        sa.select(orders)
        .where(*wanted)
        .order_by(orders.c.id.desc())
        .limit(asked.per_page)
        .offset(asked.offset)
    )
    total = tx.execute(sa.select(sa.func.count()).select_from(orders).where(*wanted)).scalar_one()
    return Page([Order.of(row) for row in rows], total, asked)


def list_items(tx: Tx, order_id: int, asked: PageRequest, *, status: str | None = None) -> Page[Item]:
    """In the order in which they were given."""
    wanted = [items.c.order_id == order_id]
    if status is not None:
        wanted.append(items.c.status == status)
    rows = tx.execute(
        sa.select(items).where(*wanted).order_by(items.c.id).limit(asked.per_page).offset(asked.offset)
    )
    total = tx.execute(sa.select(sa.func.count()).select_from(items).where(*wanted)).scalar_one()
    return Page([Item.of(row) for row in rows], total, asked)


def items_in_trouble(tx: Tx, order_id: int, status: ItemStatus, *, most: int) -> list[Item]:
    rows = tx.execute(
        sa.select(items)
        .where(items.c.order_id == order_id, items.c.status == status.value)
        .order_by(items.c.id)
        .limit(most)
    )
    return [Item.of(row) for row in rows]


def first_items(tx: Tx, order_id: int, *, most: int) -> list[Item]:
    """The first pieces of an order, for a proof; those that can be mailed before those that cannot."""
    rows = tx.execute(
        sa.select(items)
        .where(items.c.order_id == order_id)
        .order_by(items.c.failure.is_not(None), items.c.id)
        .limit(most)
    )
    return [Item.of(row) for row in rows]


def swap_status(
    tx: Tx,
    order_ids: Sequence[int],
    *,
    expected: Sequence[OrderStatus],
    to: OrderStatus,
    now: datetime,
) -> list[int]:
    """Those of the orders that were in an expected status and now are in the new one."""
    # In the order of their ids, as whoever moves items locks them too.
    tx.execute(TAKE_TURNS, {"orders": list(order_ids)})
    return list(
        tx.execute(
            sa.update(orders)
            .where(
                orders.c.id.in_(order_ids),
                orders.c.status.in_([status.value for status in expected]),
            )
            .values(status=to.value, updated_at=now)
            .returning(orders.c.id)
        ).scalars()
    )
