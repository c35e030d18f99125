"""What lives are lived with: people, worlds, processes that die; and what must hold of every order whatever is done."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from itertools import count, pairwise
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from hypothesis.stateful import RuleBasedStateMachine

from quillpost.app import bootstrap
from quillpost.core.database import Database, Tx
from quillpost.core.database.engine import Tenant
from quillpost.core.database.tables.base import facts, items, ledger_moves, orders
from quillpost.core.database.tables.fulfillment import batches, prints
from quillpost.core.database.tables.orders import account_credit
from quillpost.core.ports import FileStore
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches.rules import UNDELIVERABLE_NAME, next_cutoff
from quillpost.fulfillment.models import Environment, ProductionContext
from quillpost.fulfillment.ports import PrintJob, PrintPartner, PrintProgress
from quillpost.fulfillment.tracking.rules import PHASES, Scan, choose_reason
from quillpost.orders.rules import FINAL_STATUSES, NEXT_STATUSES, ItemStatus, OrderStatus
from quillpost.rendering.service import Renderer
from support.factories import Clock, person
from support.lifecycle_model import LifecycleModel, ModelBatch, ModelItem, ModelOrder, ModelPrint
from support.orders import open_account

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


Stands = TypeVar("Stands", ModelOrder, ModelBatch)

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "ready": {},
    "unready": {"gaps": ("The permit has lapsed.",)},
    "with a cut-off": {"cutoff": time(20, 0)},
}
PATIENT: dict[str, Any] = {"infer_delivery_after": timedelta(days=3), "infer_unseen_delivery_after": timedelta(days=20)}
FOREVER = 70
"""Days after which nobody waits for any piece."""

PEOPLE: dict[str, dict[str, Any]] = {
    "at home": person(),
    "abroad": person(address="3 Rue Haute", city="Paris", province=None, postal_code="75001", country="FR"),
    "undeliverable": person(name=UNDELIVERABLE_NAME),
    "nowhere": {"name": "Nobody", "email": "nobody@example.com"},
    "too long": person(company="Endless " * 37, address="Somewhere " * 29),
}
STRANGER = "00310999999000777777"
"""A barcode that we never gave."""

NEVER = datetime.max.replace(tzinfo=UTC)


class ProcessDied(Exception):
    """The process ended in the middle of a step."""


class CrashingStorage:
    """A file store whose process dies when so many files are written."""

    def __init__(self, store: FileStore, writes: int) -> None:
        self._store, self._writes = store, writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put(self, key: str, data: bytes) -> None:
        if self._writes == 0:
            raise ProcessDied
        self._writes -= 1
        self._store.put(key, data)


class CrashingPrinter:
    """The job is with the printer, and nobody is left to write it down."""

    def __init__(self, printer: PrintPartner) -> None:
        self._printer = printer

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        self._printer.submit(job, now=now)
        raise ProcessDied

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:
        return self._printer.progress(reference, now=now)


def with_own_addresses(someone: dict[str, Any], number: int) -> dict[str, Any]:
    return someone | ({"address": f"{number} {someone['address']}"} if "address" in someone else {})


def scan_of(tracking: str, phase: str, at: datetime) -> Scan:
    return Scan(tracking, phase, at, reason=choose_reason(phase, None))


class LifecycleSetup(RuleBasedStateMachine):
    """A service with a database and a home of its own, and the model of what should be in it."""

    def __init__(self, renderer: Renderer, conninfo: str, home: Path) -> None:
        super().__init__()
        self.clock, self.model = Clock(), LifecycleModel()
        built = bootstrap.build_container(Settings(home=home), conninfo, clock=self.clock.now)
        self.parts = replace(built, production=replace(built.production, renderer=renderer))
        self.owner = open_account(self.parts)
        self.seconds = count(1)

    def teardown(self) -> None:
        self.parts.db.close()

    # What everything is done with

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def environment(self, how: str = "ready") -> Environment:
        return replace(self.parts.environments["test"], **ENVIRONMENTS[how])

    def production(self, how: str = "ready", **changes: Any) -> ProductionContext:
        return replace(self.parts.production, environments={"test": self.environment(how)}, **changes)

    def order(self, which: int, *statuses: OrderStatus) -> ModelOrder:
        return _pick(which, list(self.model.orders.values()), statuses)

    def batch(self, which: int, *statuses: str) -> ModelBatch:
        return _pick(which, list(self.model.batches.values()), statuses)

    # How the model learns what it cannot know

    def as_owner(self) -> AbstractContextManager[Tx]:
        return self.parts.db.transaction(Tenant(self.owner.account_id, None, "test"))

    def pools_at(self, environment: Environment) -> datetime:
        return next_cutoff(self.now, environment.cutoff, environment.zone)

    def barcode(self, which: int) -> tuple[str, ModelItem | None]:
        """Anyone's; every third time one that speaks for no piece, of an old edition if there is one."""
        known: list[tuple[str, ModelItem | None]] = list(self.model.barcodes.items())
        void = [(code, piece) for code, piece in known if piece is None]
        among = known if which % 3 and known else void or [(STRANGER, None)]
        return among[which % len(among)]

    def take_in_new_batches(self) -> None:
        self.take_in(self.model.claim_for_pooling(now=self.now))

    def take_in(self, pieces: Sequence[ModelItem], *, reprint_of: int | None = None) -> None:
        """These pieces, and no others, lie in batches that the model does not know yet."""
        rows, found = Rows.read(self.parts.db), list[ModelItem]()
        for batch_id in sorted(rows.batches.keys() - self.model.batches.keys()):
            lies = [row for row in rows.prints if row.batch_id == batch_id]
            assert [row.position for row in lies] == list(range(1, len(lies) + 1))
            inside = [ModelPrint(row.position, self.model.pieces[row.item_id], row.tracking) for row in lies]
            self.model.batches[batch_id] = ModelBatch(batch_id, inside, reprint_of)
            found += [edition.piece for edition in inside]
        assert sorted(piece.id for piece in found) == sorted(piece.id for piece in pieces)

    def ended_by(self, scans: Sequence[Scan]) -> set[ModelItem]:
        """The pieces that these scans say have come to an end, where they were not too early to be theirs."""
        made = {row.id: row.created_at for row in Rows.read(self.parts.db).batches.values()}
        since = {
            edition.tracking: made[batch.id] - timedelta(days=1)
            for batch in self.model.batches.values()
            for edition in batch.counting
        }
        ends = [scan for scan in scans if PHASES.get(scan.phase) in FINAL_STATUSES]
        codes = self.model.barcodes
        found = (codes.get(scan.tracking) for scan in ends if scan.at >= since.get(scan.tracking, NEVER))
        return {piece for piece in found if piece is not None}

    def follow(self, items: set[ModelItem]) -> None:
        """The model takes over what became of these pieces: how far they came depends on much. That they went
        along allowed ways is told by their facts."""
        rows = Rows.read(self.parts.db)
        for piece in items:
            row = rows.items[piece.id]
            assert not piece.is_over or row.is_over
            piece.status = ItemStatus(row.status)
            piece.is_over, piece.is_inferred = row.is_over, row.delivery_inferred
            piece.is_mailed = row.is_mailed


def _pick(which: int, things: Sequence[Stands], statuses: Sequence[str]) -> Stands:
    """Mostly one that stands so, if there is one."""
    fitting = [thing for thing in things if thing.status in statuses] if which % 5 else []
    among = fitting or things
    return among[which % len(among)]
