"""What lives are lived with: people and worlds, processes that die, and how the model learns of ids."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from quillpost.app import bootstrap
from quillpost.core.database import Tx
from quillpost.core.database.engine import Tenant
from quillpost.core.ports import FileStore
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches.rules import UNDELIVERABLE_NAME, next_cutoff
from quillpost.fulfillment.models import Environment, ProductionContext
from quillpost.fulfillment.ports import PrintJob, PrintPartner, PrintProgress
from quillpost.fulfillment.tracking.rules import PHASES, Scan, choose_reason
from quillpost.orders.rules import FINAL_STATUSES, ItemStatus, OrderStatus
from quillpost.rendering.service import Renderer
from support.factories import Clock, person
from support.lifecycle_checks import Rows
from support.lifecycle_model import LifecycleModel, ModelBatch, ModelItem, ModelOrder, ModelPrint
from support.orders import open_account

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
