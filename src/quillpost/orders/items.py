"""Queries of orders and items. Under a tenant's transaction they see that tenant's rows alone."""

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.bulk import insert_rows
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import NotFound
from quillpost.core.tokens import create_short_code
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.recipients.rules import CUSTOM_FIELDS, DERIVED_COLUMNS, Person

ITEM_COLUMNS = (
    "account_id", "sub_account_id", "mode", "order_id", "status", "failure", "scans", "price_cents",
    "name", "company", "address", "address2", "city", "province", "postal_code", "country",
    "email", "phone", "dob", "anniversary", *CUSTOM_FIELDS, *DERIVED_COLUMNS, "absentee_address", "creative_key",
    "code", "front_file_id", "background_file_id", "mailing_list_id", "gift_cents", "created_at", "updated_at",
)  # fmt: skip

INSERT_FIRST_ITEM_FACTS = sa.text(
    """
    with fact as (
        insert into facts (account_id, sub_account_id, mode, kind, order_id, item_id,
                           order_status, previous, current, at)
        select i.account_id, i.sub_account_id, i.mode, 'item.status', i.order_id, i.id,
               o.status, null, i.status, :now
          from items i join orders o on o.id = i.order_id
         where i.order_id = :order_id and (not :listed or i.mailing_list_id is not null) order by i.id
        returning id)
    insert into fact_queue (fact_id) select id from fact
    """
)

SUM_LIVE_CENTS = sa.text(
    """
    select coalesce(sum(price_cents), 0) as pieces, coalesce(sum(gift_cents), 0) as gifts
      from items where order_id = :order_id and status <> 'Failed'
    """
)

INSERT_ORDER = sa.insert(orders).returning(*orders.c)
"""Built once: putting it together for every send would cost as much as the rest of the insert."""

LOCK_ORDERS = sa.text("select id from orders where id = any(:orders) order by id for no key update")

COUNT_ITEMS = sa.text(
    f"""
    update orders o
       set recipient_count = c.everyone, {", ".join(f"n_{s.count_name} = c.{s.count_name}" for s in ItemStatus)}
      from (select count(*) as everyone, {
        ", ".join(f"count(*) filter (where status = '{s}') as {s.count_name}" for s in ItemStatus)
    }
              from items where order_id = :order_id) c
     where o.id = :order_id
    """
)


PersonalFiles = Mapping[int, tuple[UUID | None, UUID | None]]
"""Front and background of those who have pictures of their own, by their place in the audience."""


class NewItem(NamedTuple):
    """A piece of an order before it is one: what it costs, its short code, pictures of its own, and the list
    that its person is on, where that is known."""

    person: Person
    cents: int
    code: str | None = None
    front_file_id: UUID | None = None
    background_file_id: UUID | None = None
    mailing_list_id: int | None = None

    @property
    def status(self) -> ItemStatus:
        """A refused one is Failed from the start."""
        return ItemStatus.FAILED if self.person.refusal else ItemStatus.PROCESSING


def count_by_status(new_items: Iterable[NewItem]) -> dict[str, int]:
    """How many of them stand where, as an order counts them."""
    return {f"n_{status.count_name}": n for status, n in Counter(item.status for item in new_items).items()}


def insert_order(tx: Tx, values: dict[str, Any]) -> Order:
    return Order.of(tx.execute(INSERT_ORDER, values).one())


def insert_items(tx: Tx, order: Order, new_items: Sequence[NewItem], *, now: datetime) -> None:
    """Two pieces may draw the same code one day, for all that there are: then all of these draw again."""
    if not any(item.code for item in new_items):
        insert_rows(tx, items, ITEM_COLUMNS, _item_rows(order, new_items, now))
        return
    try:
        with tx.begin_nested():
            insert_rows(tx, items, ITEM_COLUMNS, _item_rows(order, new_items, now))
    except (sa.exc.IntegrityError, psycopg.errors.UniqueViolation):
        recoded_items = [item._replace(code=item.code and new_short_code()) for item in new_items]
        insert_rows(tx, items, ITEM_COLUMNS, _item_rows(order, recoded_items, now))


def new_short_code() -> str:
    return create_short_code(secrets.token_bytes(16))


def _item_rows(order: Order, new_items: Sequence[NewItem], now: datetime) -> list[tuple[Any, ...]]:
    return [
        (
            order.account_id, order.sub_account_id, order.mode, order.id,
            item.status.value, person.refusal, 0, item.cents,
            person.name, person.company, person.address, person.address2, person.city,
            person.province, person.postal_code, person.country, person.email, person.phone,
            person.dob, person.anniversary, *person.custom, *person.derived_values, person.absentee_address,
            order.creative_key, item.code, item.front_file_id, item.background_file_id,
            item.mailing_list_id, 0 if person.refusal or order.gift is None else order.gift.cents, now, now,
        )
        for item in new_items
        for person in (item.person,)
    ]  # fmt: skip


def inline_item_conditions(order: Order) -> list[sa.ColumnElement[bool]]:
    """The items of those whom an order names itself: of all, where it has no lists. An automation's people
    are on a list, and yet it is not the list that is mailed."""
    inline_condition = [items.c.mailing_list_id.is_(None)] if order.mailing_list_ids else []
    return [items.c.order_id == order.id, *inline_condition]


def append_first_item_facts(tx: Tx, order_id: int, *, only_listed: bool = False, now: datetime) -> None:
    """What its items are at first; `only_listed`, of those alone that came from its lists."""
    tx.execute(INSERT_FIRST_ITEM_FACTS, {"order_id": order_id, "listed": only_listed, "now": now})


class OrderCost(NamedTuple):
    """What pieces come to by themselves, and the cards that they bring."""

    item_cents: int
    gift_cents: int = 0

    @property
    def total_cents(self) -> int:
        return self.item_cents + self.gift_cents


def read_live_cost(tx: Tx, order_id: int) -> OrderCost:
    """What the pieces of the order that have not failed come to, while none of its cards is issued."""
    row = tx.execute(SUM_LIVE_CENTS, {"order_id": order_id}).one()
    return OrderCost(int(row.pieces), int(row.gifts))


def read_order(tx: Tx, order_id: int, *, locked: bool = False) -> Order:
    """The order; `locked`, nobody else changes it before this transaction ends."""
    query = sa.select(orders).where(orders.c.id == order_id)
    row = tx.execute(query.with_for_update(key_share=True) if locked else query).first()
    if row is None:
        raise NotFound
    return Order.of(row)


def change_status(
    tx: Tx, order_ids: Sequence[int], *, expected: Sequence[OrderStatus], new_status: OrderStatus, now: datetime
) -> list[int]:
    """Those of the orders that were in an expected status and now are in the new one."""
    # In the order of their ids, as whoever moves items locks them too.
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
    """Lock the orders of the items that `source_sql` names by `item_id`, in the order of their ids: whoever holds
    one never waits for a lower one."""
    return sa.text(
        f"""
        with wanted as ({source_sql})
        select id from orders
         where id in (select i.order_id from items i join wanted w on w.item_id = i.id)
         order by id for no key update
        """
    )
