"""The whole life of orders as a state machine: anything may happen at any time, twice, late or half.

A plain model beside it says what should have become of every order and piece; after each step the database
must say the same, and its facts, counters, books and prints must agree with each other. FUZZ_EXAMPLES in the
environment makes more lives, other ones each time.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_lives

from quillpost.app import bootstrap
from quillpost.core.errors import Conflict, Refused
from quillpost.core.files import FileStorage
from quillpost.core.settings import Settings
from quillpost.core.tokens import LinkSigner
from quillpost.fulfillment.batches import service as batch_service
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.models import NEXT_STEP
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.review import service as review_service
from quillpost.fulfillment.tracking import tasks as tracking_tasks
from quillpost.fulfillment.tracking.rules import PHASES
from quillpost.fulfillment.tracking.service import ingest_scans
from quillpost.orders import changes
from quillpost.orders.rules import ItemStatus, OrderStatus
from support import lifecycle_setup
from support.lifecycle_model import ModelBatch, ModelItem, ModelOrder
from support.lifecycle_setup import FOREVER, HELD_BACK, PEOPLE, ProcessDied, Rows, check, scan_of
from support.orders import REVIEW, create_order, item_rows
from support.production import delete_jobs, enqueued_steps
from support.rows import run
from support.service import Databases

pytestmark = pytest.mark.costly

S = ItemStatus
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "12"))
IS_LONG = "FUZZ_EXAMPLES" in os.environ
LIVES = settings(
    max_examples=EXAMPLES, stateful_step_count=40, derandomize=not IS_LONG, deadline=None, database=None,
    phases=(Phase.generate, Phase.shrink) if IS_LONG else (Phase.generate,), print_blob=True,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip

Rule = Callable[..., None]

WORDS = ("acknowledged", "printed", "mailed", "spoiled")
MOST_ORDERS = 5
WHICH = st.integers(0, 11)
WHOM = st.lists(st.sampled_from([*PEOPLE, *["at home"] * 5]), min_size=1, max_size=4)
SOME = st.sets(st.integers(1, 6), min_size=1, max_size=4)
PHASE = st.sampled_from([*PHASES, "unknown"])
HOW = st.sampled_from(["ready", "ready", *lifecycle_setup.ENVIRONMENTS])


def for_orders(*statuses: OrderStatus) -> Callable[[Rule], Rule]:
    """Only while some order stands so."""
    return precondition(lambda self: any(o.status in statuses for o in self.model.orders.values()))


def for_batches(*statuses: str) -> Callable[[Rule], Rule]:
    return precondition(lambda self: any(b.status in statuses for b in self.model.batches.values()))


class Life(lifecycle_setup.LifecycleSetup):
    """Steps are taken where they have something to do, and now and then where they have not."""

    # The sender

    @initialize(whom=WHOM, is_printing=st.booleans())
    def begin(self, whom: list[str], is_printing: bool) -> None:
        self.send(whom, "first")
        if is_printing:
            self.work(mails=False)

    @precondition(lambda self: len(self.model.orders) < MOST_ORDERS)
    @rule(whom=WHOM, mail_class=st.sampled_from(["first", "standard"]))
    def send(self, whom: list[str], mail_class: str) -> None:
        if mail_class == "standard":
            whom = [one for one in whom if one != "abroad"] or ["at home"]
        people = [lifecycle_setup.with_own_addresses(PEOPLE[one], number) for number, one in enumerate(whom, start=1)]
        placed = create_order(self.parts, self.owner, people, mail_class=mail_class)
        rows = run(self.parts, item_rows, placed)
        pieces = [
            ModelItem(row.id, row.country, row.price_cents, S.FAILED if one == "nowhere" else S.PROCESSING,
                      is_reserved=one == "undeliverable", fits=one != "too long")
            for row, one in zip(rows, whom, strict=True)
        ]  # fmt: skip
        self.model.orders[placed.id] = ModelOrder(placed.id, mail_class, pieces, placed.due_at)

    @for_orders(*HELD_BACK)
    @rule(which=WHICH)
    def cancel(self, which: int) -> None:
        order = self.order(which, *HELD_BACK)
        with _refused(Refused, order.status not in HELD_BACK), self.as_owner() as tx:
            changes.cancel_order(tx, order.id, now=self.now)
            order.stop(OrderStatus.CANCELLED)

    # The operator

    @for_orders(OrderStatus.PAUSED)
    @rule(which=WHICH)
    def refuse(self, which: int) -> None:
        order = self.order(which, OrderStatus.PAUSED)
        with _refused(Conflict, order.status not in HELD_BACK), self.parts.db.system_transaction() as tx:
            how = {"operator_id": self.owner.account_id, "reason": "No", "now": self.now}
            review_service.refuse_order(tx, self.environment(), order.id, **how)  # type: ignore[arg-type]
            order.stop(OrderStatus.ERROR)

    @for_orders(OrderStatus.PAUSED)
    @rule(which=WHICH, how=HOW)
    def release(self, which: int, how: str) -> None:
        order, environment = self.order(which, OrderStatus.PAUSED), self.environment(how)
        is_vain = order.status is not OrderStatus.PAUSED or bool(environment.gaps)
        with _refused(Conflict, is_vain), self.parts.db.system_transaction() as tx:
            review_service.release_order(tx, environment, order.id, operator_id=self.owner.account_id, now=self.now)
            order.let_go(pools_at=self.pools_at(environment), now=self.now)

    @for_orders(OrderStatus.PROCESSING)
    @rule(which=WHICH)
    def rush(self, which: int) -> None:
        order = self.order(which, OrderStatus.PROCESSING)
        is_waiting = order.status is OrderStatus.PROCESSING and order.pool_at is not None
        may = (order.status in HELD_BACK or is_waiting) and not order.rush
        rushed = print_room_service.rush_orders(self.parts.db, "test", [order.id], operator_id=None, now=self.now)
        assert rushed == [order.id] * may
        if may:
            order.rush, order.pool_at = True, order.pool_at and max(order.due_at, self.now)

    # From the review to the printer

    @for_orders(OrderStatus.REVIEWING)
    @rule(how=HOW)
    def end_reviews(self, how: str) -> None:
        self.clock.advance(seconds=REVIEW.seconds)
        environment = self.environment(how)
        review_service.sweep_due_orders(self.production(how), now=self.now)
        for order in self.model.orders.values():
            if order.status is OrderStatus.REVIEWING and order.due_at <= self.now:
                if environment.gaps or order.is_doubtful:
                    order.status = OrderStatus.PAUSED
                else:
                    order.let_go(pools_at=self.pools_at(environment), now=self.now)
        self.take_in_new_batches()

    @precondition(lambda self: any(order.pool_at for order in self.model.orders.values()))
    @rule(hours=st.integers(0, 24), at_once=st.booleans())
    def pool(self, hours: int, at_once: bool) -> None:
        self.clock.advance(hours=hours)
        if at_once:
            print_room_service.pool_orders_now(self.parts.db, "test", now=self.now)
            for order in self.model.orders.values():
                order.pool_at = order.pool_at and min(order.pool_at, self.now)
        for _ in range(2):
            batch_service.pool_due_orders(self.production(), now=self.now)
        self.take_in_new_batches()

    @for_batches("new")
    @rule(which=WHICH)
    def compose(self, which: int) -> None:
        self.compose_batch(self.batch(which, "new"))

    def compose_batch(self, batch: ModelBatch) -> None:
        for _ in range(2):
            batch_tasks.compose_batch(self.production(), batch.id, now=self.now)
        if batch.status == "new":
            batch.draw()
            batch.status = "composed" if batch.editions else "mailed"

    @for_batches("new")
    @rule(which=WHICH, writes=st.integers(0, 3))
    def die_composing(self, which: int, writes: int) -> None:
        batch = self.batch(which, "new")
        store = lifecycle_setup.CrashingStorage(self.parts.storage.store, writes)
        dying = FileStorage(store, LinkSigner(lambda: [b""]))
        with suppress(ProcessDied):
            batch_tasks.compose_batch(self.production(storage=dying), batch.id, now=self.now)
        if batch.status == "new":
            batch.draw()
            batch.status = "new" if batch.editions else "mailed"

    @for_batches("composed")
    @rule(which=WHICH, how=HOW)
    def hand_over(self, which: int, how: str) -> None:
        self.hand_over_batch(self.batch(which, "composed"), how)

    def hand_over_batch(self, batch: ModelBatch, how: str) -> None:
        for _ in range(2):
            batch_tasks.hand_over_batch(self.production(how), batch.id, now=self.now)
        if batch.status == "composed" and not self.environment(how).gaps:
            batch.status, batch.is_handed = "handed", True
            for order in self.model.orders_of(batch):
                if order.status is OrderStatus.PROCESSING:
                    order.status = OrderStatus.PRINTING

    @for_batches("composed")
    @rule(which=WHICH)
    def die_handing_over(self, which: int) -> None:
        batch, environment = self.batch(which, "composed"), self.environment()
        environments = {"test": replace(environment, printer=lifecycle_setup.CrashingPrinter(environment.printer))}
        with suppress(ProcessDied):
            batch_tasks.hand_over_batch(replace(self.production(), environments=environments), batch.id, now=self.now)

    @for_batches("new", "composed", "handed", "printed")
    @rule()
    def lose_every_job(self) -> None:
        """What is to be done is known from the batches themselves."""
        delete_jobs(self.parts)
        batch_tasks.resume_batches(self.production())
        found = {(step, args["batch_id"]) for step, args in run(self.parts, enqueued_steps)}
        open_batches = [b for b in self.model.batches.values() if b.status != "mailed"]
        assert found == {(NEXT_STEP[batch.status], batch.id) for batch in open_batches}

    @rule(mails=st.booleans())
    def work(self, mails: bool) -> None:
        """Everything that is due, as on a day without trouble: chance alone rarely brings an order so far."""
        self.end_reviews("ready")
        self.pool(24, at_once=False)
        for batch in list(self.model.batches.values()):
            self.compose_batch(batch)
            self.hand_over_batch(batch, "ready")
            if mails and batch.status == "handed":
                self.hear(batch, {"mailed"}, set())

    # The print room

    @for_batches("handed", "printed", "mailed")
    @rule(which=WHICH, marks=st.sets(st.sampled_from(WORDS), min_size=1), torn=SOME)
    def hear_the_printer(self, which: int, marks: set[str], torn: set[int]) -> None:
        self.hear(self.batch(which, "handed", "printed", "mailed"), marks, torn)

    def hear(self, batch: ModelBatch, marks: set[str], torn: set[int]) -> None:
        spoiled = [e.piece for e in batch.editions if e.position in torn] if "spoiled" in marks else []
        moments = {f"{word}_at": self.now for word in marks - {"spoiled"}}
        progress = PrintProgress(**moments, spoiled={piece.id: "Torn" for piece in spoiled})
        for _ in range(2):
            with _refused(Conflict, not batch.is_handed):
                print_room_service.record_printer_progress(self.parts.db, batch.id, progress, now=self.now)
        if batch.is_handed:
            batch.take(printed="printed" in marks, mailed="mailed" in marks, spoiled=spoiled)

    @precondition(lambda self: self.model.reprintable)
    @rule(which=WHICH, positions=SOME)
    def reprint(self, which: int, positions: set[int]) -> None:
        among = self.model.reprintable if which % 5 else list(self.model.batches.values())
        batch = among[which % len(among)]
        again = batch.again(positions) if batch.is_handed else []
        with _refused(Conflict, not again):
            print_room_service.reprint_items(
                self.parts.db, self.environment(), batch.id, positions=sorted(positions), reason="Jam", now=self.now
            )
        for edition in again:
            edition.is_superseded = True
            self.model.print_again(edition.piece)
        self.take_in([edition.piece for edition in again], reprint_of=batch.id)

    # The carrier

    @precondition(lambda self: self.model.barcodes)
    @rule(which=st.integers(0, 99), phase=PHASE)
    def see(self, which: int, phase: str) -> None:
        """A sighting that is newer than all the others."""
        self.clock.advance(minutes=1)
        tracking, piece = self.barcode(which)
        for _ in range(2):
            ingest_scans(self.parts.db, [scan_of(tracking, phase, self.now)], now=self.now)
        if piece is not None:
            piece.see(PHASES.get(phase))

    @precondition(lambda self: self.model.barcodes)
    @rule(seen=st.lists(st.tuples(st.integers(0, 99), PHASE, st.integers(0, 48)), min_size=1, max_size=6))
    def see_in_disorder(self, seen: list[tuple[int, str, int]]) -> None:
        """Late, repeated, of one piece or of several: nobody but those moves, and an end is an end."""
        scans = [
            scan_of(self.barcode(which)[0], phase, self.now - timedelta(hours=ago, seconds=next(self.seconds)))
            for which, phase, ago in seen
        ]
        ended = self.ended_by(scans)
        for some in (scans, scans[::-1]):
            ingest_scans(self.parts.db, some, now=self.now)
        codes = self.model.barcodes
        self.follow({piece for scan in scans if (piece := codes.get(scan.tracking)) is not None})
        assert all(piece.has_ended for piece in ended)

    @precondition(lambda self: self.model.in_the_mail())
    @rule(days=st.sampled_from([1, 4, 25, FOREVER]))
    def wait(self, days: int) -> None:
        self.clock.advance(days=days)
        waiting = self.model.in_the_mail()
        environment = replace(self.environment(), **lifecycle_setup.PATIENT)
        for _ in range(2):
            tracking_tasks.close_items(self.parts.db, {"test": environment}, now=self.now)
        if days < FOREVER:
            self.follow(set(waiting))
            return
        for piece in waiting:
            piece.give_up()

    # What holds

    @invariant()
    def all_agrees(self) -> None:
        self.model.advance_orders()
        check(Rows.read(self.parts.db), self.model)


@contextmanager
def _refused(error: type[Exception], expected: bool) -> Iterator[None]:
    if expected:
        with pytest.raises(error):
            yield
    else:
        yield


def test_every_life_of_orders_goes_by_the_rules(databases: Databases, tmp_path: Path) -> None:
    renderer, homes = bootstrap.build_renderer(Settings()), count()
    with ExitStack() as opened:

        class Another(Life):
            def __init__(self) -> None:
                opened.close()
                super().__init__(renderer, opened.enter_context(databases.one()), tmp_path / str(next(homes)))

        run_lives(Another, settings=LIVES)
