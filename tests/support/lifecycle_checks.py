"""What must hold of every order, whatever has been done: rows against the model, and against each other."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Database
from quillpost.core.database.tables.base import facts, items, ledger_moves, orders
from quillpost.core.database.tables.fulfillment import batches, prints
from quillpost.core.database.tables.orders import account_credit
from quillpost.orders.rules import NEXT_STATUSES, ItemStatus, OrderStatus
from support.lifecycle_model import LifecycleModel, ModelOrder

S = ItemStatus
NOT_MADE = (OrderStatus.CANCELLED, OrderStatus.ERROR)
HELD_BACK = (OrderStatus.REVIEWING, OrderStatus.PAUSED)

Row = sa.Row[Any]


@dataclass(frozen=True)
class Rows:
    """All that the database has of orders, by id, or in the order in which it came."""

    orders: Mapping[int, Row]
    items: Mapping[int, Row]
    facts: Sequence[Row]
    moves: Sequence[Row]
    credit: int
    batches: Mapping[int, Row]
    prints: Sequence[Row]

    @classmethod
    def read(cls, db: Database) -> "Rows":
        with db.system_transaction() as tx:
            return cls(
                orders={row.id: row for row in tx.execute(sa.select(orders))},
                items={row.id: row for row in tx.execute(sa.select(items))},
                facts=tx.execute(sa.select(facts).order_by(facts.c.id)).all(),
                moves=tx.execute(sa.select(ledger_moves)).all(),
                credit=tx.execute(sa.select(sa.func.sum(account_credit.c.cents))).scalar_one() or 0,
                batches={row.id: row for row in tx.execute(sa.select(batches))},
                prints=tx.execute(sa.select(prints).order_by(prints.c.batch_id, prints.c.position)).all(),
            )

    def of_order(self, order_id: int) -> list[Row]:
        return [item for item in self.items.values() if item.order_id == order_id]

    def book(self, name: str, order_id: int | None = None) -> int:
        return sum(
            move.cents * ((move.target == name) - (move.source == name))
            for move in self.moves
            if order_id in (None, move.order_id)
        )


def check(rows: Rows, model: LifecycleModel) -> None:
    _check_pieces(rows, model)
    for order in model.orders.values():
        _check_order(rows, order)
    _check_batches(rows, model)
    check_each_other(rows)


def check_each_other(rows: Rows) -> None:
    """What holds without a model: counters, books, facts and prints say the same."""
    for order in rows.orders.values():
        _check_counts(rows, order)
        _check_money(rows, order)
    _check_histories(rows)
    _check_prints(rows)
    assert rows.credit == rows.book("credit")
    assert sum(rows.book(name) for name in ("credit", "held", "earned")) == 0


def _check_pieces(rows: Rows, model: LifecycleModel) -> None:
    found = {
        item.id: (item.status, item.is_mailed, item.is_over, item.delivery_inferred) for item in rows.items.values()
    }
    expected = {p.id: (p.status.value, p.is_mailed, p.is_over, p.is_inferred) for p in model.pieces.values()}
    assert found == expected, _difference(found, expected)
    for item in rows.items.values():
        assert (item.delivery_date is not None) == (item.status == S.DELIVERED)
        assert item.failure is not None or item.status not in (S.FAILED, S.RETURNED_TO_SENDER)


def _check_order(rows: Rows, order: ModelOrder) -> None:
    row = rows.orders[order.id]
    assert row.status == order.status, f"order {order.id} is {row.status}, not {order.status}"
    assert row.pool_at == order.pool_at, f"order {order.id}: {row.pool_at}, not {order.pool_at}"
    # Fulfilled exactly when every piece has ended; before it is let go or after it is stopped, it never is.
    if order.status not in (*NOT_MADE, *HELD_BACK):
        assert (row.status == OrderStatus.FULFILLED) == order.has_ended
    assert (row.hold_reasons != []) == (order.status is OrderStatus.PAUSED)


def _check_counts(rows: Rows, order: Row) -> None:
    pieces = rows.of_order(order.id)
    counted = Counter(item.status for item in pieces)
    assert {s: order._mapping[f"n_{s.count_name}"] for s in S} == {s: counted[s] for s in S}
    assert (order.recipient_count, order.n_over) == (len(pieces), sum(item.is_over for item in pieces))
    assert order.n_mailed == sum(item.is_mailed for item in pieces)
    failed = [f for f in rows.facts if f.order_id == order.id and f.item_id and f.current == S.FAILED]
    assert order.n_lost == sum(_was_mailed(fact) for fact in failed)
    _check_mailed(order, pieces)


def _check_mailed(order: Row, pieces: Sequence[Row]) -> None:
    """Mailed exactly while the carrier has all that it will get, and not all of it has ended."""
    for item in pieces:
        assert item.is_mailed or item.status in (S.PROCESSING, S.PRINTED, S.FAILED)
    if order.status in (OrderStatus.PROCESSING, OrderStatus.PRINTING, OrderStatus.MAILED):
        waiting = [item for item in pieces if not item.is_mailed and item.status != S.FAILED]
        assert (order.status == OrderStatus.MAILED) == (not waiting)


def _was_mailed(fact: Row) -> bool:
    """Whether the mail had a piece that failed: it was seen there, or said to be lost there."""
    return fact.previous not in (None, S.PROCESSING, S.PRINTED) or fact.seen_at is not None


def _check_money(rows: Rows, order: Row) -> None:
    held, earned = rows.book("held", order.id), rows.book("earned", order.id)
    pieces = rows.of_order(order.id)
    waiting = sum(item.price_cents for item in pieces if item.status == S.PROCESSING)
    made = sum(item.price_cents for item in pieces if item.status not in (S.PROCESSING, S.FAILED))
    assert (held, earned) == (waiting, made), f"order {order.id}: {held, earned}, not {waiting, made}"
    assert order.order_total == held + earned
    if order.status in (*NOT_MADE, OrderStatus.FULFILLED):
        assert held == 0


def _check_histories(rows: Rows) -> None:
    """Each fact takes up where the one before left off, along allowed steps, to where the thing stands."""
    of_items, of_orders = defaultdict(list), defaultdict(list)
    for fact in rows.facts:
        if fact.item_id is None:
            of_orders[fact.order_id].append(fact)
        else:
            of_items[fact.item_id].append(fact)
    for order in rows.orders.values():
        _check_chain(of_orders[order.id])
        assert of_orders[order.id][-1].current == order.status
    for item in rows.items.values():
        facts = of_items[item.id]
        _check_chain(facts)
        for before, after in pairwise(facts):
            is_corrected = before.inferred and after.current == S.RETURNED_TO_SENDER
            assert is_corrected or S(after.current) in NEXT_STATUSES[S(before.current)]
        # That an order is not made is told once, for all its pieces.
        if rows.orders[item.order_id].status not in NOT_MADE:
            assert facts[-1].current == item.status


def _check_chain(facts: Sequence[Row]) -> None:
    assert [fact.previous for fact in facts] == [None, *(fact.current for fact in facts[:-1])]
    assert all(fact.previous != fact.current for fact in facts)


def _check_batches(rows: Rows, model: LifecycleModel) -> None:
    inside = defaultdict(list)
    for row in rows.prints:
        inside[row.batch_id].append((row.position, row.item_id, row.tracking, row.superseded))
    found = {
        row.id: (row.status, row.handed_at is not None, row.reprint_of, row.item_count, inside[row.id])
        for row in rows.batches.values()
    }
    expected = {
        batch.id: (
            batch.status,
            batch.is_handed,
            batch.reprint_of,
            len(batch.editions),
            [(e.position, e.piece.id, e.tracking, e.is_superseded) for e in batch.editions],
        )
        for batch in model.batches.values()
    }
    assert found == expected, _difference(found, expected)


def _difference(found: Mapping[int, Any], expected: Mapping[int, Any]) -> str:
    """Where they differ: what the database has, and what the model."""
    ids = sorted({*found, *expected})
    return "; ".join(f"{n}: {found.get(n)}, not {expected.get(n)}" for n in ids if found.get(n) != expected.get(n))


def _check_prints(rows: Rows) -> None:
    codes = [row.tracking for row in rows.prints if row.tracking is not None]
    assert len(codes) == len(set(codes))
    counting = Counter(row.item_id for row in rows.prints if not row.superseded)
    assert max(counting.values(), default=1) == 1
    for row in rows.prints:
        item = rows.items[row.item_id]
        assert (row.tracking is not None) == (item.country == "US")
        assert rows.orders[item.order_id].status not in (*NOT_MADE, *HELD_BACK)
        assert rows.batches[row.batch_id].mail_class == rows.orders[item.order_id].mail_class
