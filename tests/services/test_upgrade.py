"""A database of the release before, with orders wherever they may have been, is upgraded and goes on."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from life_checks import Rows, check_each_other

from makers import Clock
from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core import database
from quillpost.core.database import dump
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.engine import create_admin_engine
from quillpost.core.database.schema import OWNER_ROLE, create_roles, migrate
from quillpost.core.settings import Settings
from quillpost.fulfillment import batching, production, review
from quillpost.fulfillment import review as verdicts
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.serials import SerialRange, lock_serials
from quillpost.fulfillment.tracking.rules import Scan
from quillpost.fulfillment.tracking.service import ingest_scans
from quillpost.orders.rules import ItemStatus

pytestmark = pytest.mark.costly

BEFORE = "0004"
CENTS = 109
GAP = "QUILLPOST_MAILER_ID is not set: no barcode can be printed."
_numbers = count()

WAY = ("Processing", "Printed", "In Transit")
BATCH_STEPS = ("new", "composed", "handed", "printed", "mailed")

# Each order's status, how far its batch is, and its pieces: where they stand, and in which country.
OLD: dict[str, tuple[str, str | None, Sequence[tuple[str, str]]]] = {
    "reviewing": ("reviewing", None, [("Processing", "US"), ("Processing", "FR")]),
    "held": ("paused", None, [("Processing", "US")]),
    "batched": ("processing", "new", [("Processing", "US"), ("Failed", "US"), ("Processing", "FR")]),
    "composed": ("processing", "composed", [("Processing", "US"), ("Processing", "FR")]),
    "handed": ("printing", "handed", [("Processing", "US"), ("Processing", "FR")]),
    "printed": ("printing", "printed", [("Printed", "US"), ("Printed", "FR")]),
    "mailed": ("printing", "mailed", [("Printed", "US"), ("In Transit", "US"), ("Printed", "FR")]),
    "all abroad": ("printing", "mailed", [("Printed", "FR"), ("Printed", "FR"), ("Failed", "US")]),
    "delivered": ("fulfilled", "mailed", [("Delivered", "US")]),
    "cancelled": ("cancelled", None, [("Failed", "US")]),
}


class OldHouse:
    """Writes what the release before would have written."""

    def __init__(self, conninfo: str, clock: Clock) -> None:
        self._engine, self._now = create_admin_engine(conninfo), clock.now()
        self._tables = sa.MetaData()
        self._tables.reflect(self._engine)
        self._serials = count(1)

    def write(self) -> dict[str, int]:
        """Every order of `OLD`: its id."""
        with self._engine.begin() as tx:
            account = self._add(tx, "accounts", email="old@example.com", name="Olga", **self._dated())
            made = {what: self._order(tx, account, *how) for what, how in OLD.items()}
            tx.execute(sa.text("select setval('mail_serials', 99)"))
        self._engine.dispose()
        return made

    def _add(self, tx: sa.Connection, table: str, **values: Any) -> int:
        known = self._tables.tables[table]
        return int(tx.execute(sa.insert(known).values(**values).returning(known.c.id)).scalar_one())

    def _dated(self) -> dict[str, Any]:
        return {"created_at": self._now, "updated_at": self._now}

    def _order(
        self, tx: sa.Connection, account: int, status: str, step: str | None, pieces: Sequence[tuple[str, str]]
    ) -> int:
        owner = {"account_id": account, "mode": "test"}
        worth = sum(CENTS for standing, _ in pieces if standing != "Failed")
        tally = Counter(ItemStatus(standing).count_name for standing, _ in pieces)
        order = self._add(
            tx, "orders", **owner, **self._dated(), type="postcard", size="4x6", piece="postcard-4x6",
            mail_class="first", status=status, method="api", message="Hi %FIRST_NAME%!", style=1,
            handwriting_color="rgba(0,0,255,1)", handwriting_realism=False, font_size="medium",
            total_estimated_recipients=len(pieces), recipient_count=len(pieces), due_at=self._now,
            authorization_total=CENTS * len(pieces), order_total=worth,
            warnings=[GAP] if status == "paused" else [],
            **{f"n_{name}": n for name, n in tally.items()},
        )  # fmt: skip
        batch = None if step is None else self._batch(tx, step, len(pieces))
        items = [
            self._item(tx, owner | {"order_id": order}, standing, country, batch, position)
            for position, (standing, country) in enumerate(pieces, start=1)
        ]
        self._tell(tx, owner | {"order_id": order, "kind": "order.status"}, status, self._order_way(status))
        for item, (standing, _) in zip(items, pieces, strict=True):
            self._tell(
                tx,
                owner | {"order_id": order, "kind": "item.status", "item_id": item},
                status,
                ["Processing"] if status == "cancelled" else _way(standing),
            )
        self._pay(tx, owner | {"order_id": order}, pieces)
        return order

    def _batch(self, tx: sa.Connection, step: str, pieces: int) -> int:
        so_far = BATCH_STEPS[1 : BATCH_STEPS.index(step) + 1]
        return self._add(
            tx, "batches", mode="test", piece="postcard-4x6", mail_class="first", status=step,
            item_count=pieces, created_at=self._now, **{f"{done}_at": self._now for done in so_far},
        )  # fmt: skip

    def _item(
        self, tx: sa.Connection, owner: dict[str, Any], standing: str, country: str, batch: int | None, position: int
    ) -> int:
        code = f"00310999999{next(self._serials):09d}" if batch and country == "US" else None
        return self._add(
            tx, "items", **owner, **self._dated(), status=standing, price_cents=CENTS, name="Jane Doe",
            address=f"{position} Main St", city="Austin", province="TX", postal_code="78701",
            country=country, tracking=code, batch_id=batch, batch_position=batch and position,
            failure="It went wrong" if standing == "Failed" else None,
            delivery_date=self._now.date() if standing == "Delivered" else None,
        )  # fmt: skip

    def _order_way(self, status: str) -> list[str]:
        if status in ("paused", "cancelled"):
            return ["reviewing", status]
        way = ["reviewing", "processing", "printing", "fulfilled"]
        return way[: way.index(status) + 1]

    def _tell(self, tx: sa.Connection, about: dict[str, Any], status: str, way: Sequence[str]) -> None:
        for previous, current in zip([None, *way], way, strict=False):
            self._add(tx, "facts", **about, order_status=status, previous=previous, current=current, at=self._now)

    def _pay(self, tx: sa.Connection, about: dict[str, Any], pieces: Sequence[tuple[str, str]]) -> None:
        order = about["order_id"]
        made = sum(CENTS for standing, _ in pieces if standing not in ("Processing", "Failed"))
        lost = sum(CENTS for standing, _ in pieces if standing == "Failed")
        moves = {
            "authorise": ("credit", "held", CENTS * len(pieces)),
            "capture": ("held", "earned", made),
            "release": ("held", "credit", lost),
        }
        for kind, (source, target, cents) in moves.items():
            if cents:
                self._add(
                    tx, "ledger_moves", **about, kind=kind, source=source, target=target, cents=cents,
                    key=f"{kind}:order:{order}", at=self._now,
                )  # fmt: skip


def _way(standing: str) -> list[str]:
    if standing == "Failed":
        return ["Processing", "Failed"]
    if standing == "Delivered":
        return [*WAY, "Delivered"]
    return list(WAY[: WAY.index(standing) + 1])


@contextmanager
def database_of_before(postgres: EmbeddedPostgres, revision: str = BEFORE) -> Iterator[str]:
    """A database as a release before left it, without a row."""
    name = f"old_{next(_numbers)}"
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as admin:
        admin.execute(f"create database {name} strategy file_copy")
        engine = create_admin_engine(postgres.conninfo(name))
        with engine.begin() as connection:
            create_roles(connection)
            connection.execute(sa.text(f"set local role {OWNER_ROLE}"))
            config = Config()
            config.set_main_option("script_location", str(Path(database.__file__).parent / "migrations"))
            config.set_main_option("path_separator", "os")
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
        engine.dispose()
        yield postgres.conninfo(name)
        admin.execute(f"drop database {name} with (force)")


@pytest.fixture
def old(postgres: EmbeddedPostgres, template: str) -> Iterator[str]:
    with database_of_before(postgres) as conninfo:
        yield conninfo


@pytest.fixture
def orders(old: str, clock: Clock) -> dict[str, int]:
    """The old orders, by what they are, in a database that was upgraded."""
    made = OldHouse(old, clock).write()
    assert migrate(old).revision == BEFORE
    return made


@pytest.fixture
def container(old: str, clock: Clock, tmp_path: Path) -> Iterator[Container]:
    container = bootstrap.build_container(Settings(home=tmp_path / "home"), old, clock=clock.now)
    yield container
    container.db.close()


def statuses(rows: Rows, orders: dict[str, int]) -> dict[str, str]:
    return {what: rows.orders[number].status for what, number in orders.items()}


def test_an_upgrade_moves_what_the_new_release_counts_otherwise(orders: dict[str, int], container: Container) -> None:
    rows = Rows.read(container.db)
    check_each_other(rows)
    # An order that had nothing left but pieces for abroad is fulfilled, one whose pieces all lie in batches
    # that the carrier has is mailed, and their senders are told.
    moved = {"all abroad": "fulfilled", "mailed": "mailed"}
    assert statuses(rows, orders) == {what: how[0] for what, how in OLD.items()} | moved
    with container.db.system_transaction() as tx:
        queued = tx.execute(sa.text("select fact_id from fact_queue")).scalars().all()
    assert {(f.order_id, f.previous, f.current) for f in rows.facts if f.id in queued} == {
        (orders[what], "printing", status) for what, status in moved.items()
    }
    # What was composed has files that nobody knows the digests of: it is composed again.
    assert Counter(batch.status for batch in rows.batches.values()) == Counter(new=2, handed=1, printed=1, mailed=3)
    assert {row.tracking for row in rows.prints if row.tracking} == {
        f"00310999999{n:09d}" for n in range(1, len([row for row in rows.prints if row.tracking]) + 1)
    }
    held = rows.orders[orders["held"]]
    assert (held.warnings, held.hold_reasons) == ([GAP], [])


def test_after_an_upgrade_every_order_goes_on_to_its_end(
    orders: dict[str, int], container: Container, clock: Clock
) -> None:
    clock.advance(minutes=1)
    with container.db.system_transaction() as tx:
        account = tx.execute(sa.text("select id from accounts")).scalar_one()
        verdicts.release_order(tx, container.environments["test"], orders["held"], operator_id=account, now=clock.now())
    review.sweep_due_orders(container.production, now=clock.now())
    batching.pool_due_orders(container.production, now=clock.now())
    production.resume_batches(container.production)
    with container.db.system_transaction() as tx:
        booked = tx.execute(
            sa.text("select task_name, args ->> 'batch_id' from procrastinate_jobs where args ? 'batch_id'")
        ).all()
    open_batches = {str(row.id) for row in Rows.read(container.db).batches.values() if row.status != "mailed"}
    assert {batch for _, batch in booked} == open_batches
    for batch_id in map(int, open_batches):
        for step in (production.compose_batch, production.hand_over_batch):
            step(container.production, batch_id, now=clock.now())
        # Handed over before or now: the printer says the same of both.
        said = PrintProgress(printed_at=clock.now(), mailed_at=clock.now())
        print_room_service.record_printer_progress(container.db, batch_id, said, now=clock.now())
    codes = {row.tracking for row in Rows.read(container.db).prints if row.tracking}
    ingest_scans(container.db, [Scan(code, "4c", clock.now()) for code in codes], now=clock.now())

    rows = Rows.read(container.db)
    check_each_other(rows)
    ends = {what: "cancelled" if how[0] == "cancelled" else "fulfilled" for what, how in OLD.items()}
    assert statuses(rows, orders) == ends
    # New barcodes do not meet those that are in the mail.
    assert len(codes) == len([row for row in rows.prints if row.tracking])
    files = list(container.storage.store.keys("print-jobs/"))
    handed = [row for row in rows.batches.values() if row.composed_at == row.handed_at == clock.now()]
    assert sum(name.endswith("/print.pdf") for name in files) == len(handed) > 2


def test_a_piece_that_was_printed_before_an_upgrade_can_be_printed_again(
    orders: dict[str, int], container: Container, clock: Clock
) -> None:
    rows = Rows.read(container.db)
    inside = {item.id for item in rows.of_order(orders["printed"])}
    batch_id = next(row.batch_id for row in rows.prints if row.item_id in inside)
    environment = container.environments["test"]
    made = print_room_service.reprint_items(
        container.db, environment, batch_id, positions=[1, 2], reason="Jam", now=clock.now()
    )
    assert made.item_count == 2
    for step in (production.compose_batch, production.hand_over_batch):
        step(container.production, made.batch_id, now=clock.now())
    check_each_other(Rows.read(container.db))


LONG = "901234567"

# The codes of one batch of the old release get another mailer's, or other serials.
RECODE = """
    with changed as (
        update batches set mode = %(mode)s, mailed_at = now() - cast(%(ago)s as interval)
         where id = (select min(batch_id) from items where order_id = %(order)s) returning id)
    update items set tracking = %(head)s || lpad((%(first)s + batch_position)::text, %(digits)s, '0')
      from changed where batch_id = changed.id and country = 'US'
    returning batch_id
"""


@dataclass(frozen=True)
class Recoded:
    """A batch of the old release whose pieces have serials after `first`, mailed so long ago."""

    order: str
    mailer: str
    first: int
    ago: timedelta | None = None

    def write(self, old: str, orders: dict[str, int]) -> int:
        asked = {
            "mode": "live" if self.mailer == LONG else "test",
            "ago": self.ago,
            "order": orders[self.order],
            "head": f"00310{self.mailer}",
            "first": self.first,
            "digits": 15 - len(self.mailer),
        }
        with psycopg.connect(old) as connection:
            row = connection.execute(RECODE, asked).fetchone()
        assert row is not None
        return int(row[0])


def upgraded(old: str, clock: Clock, last: int, *batches: Recoded) -> list[int]:
    """Upgrade the old house, whose sequence stands at `last`, with these batches; their ids."""
    orders = OldHouse(old, clock).write()
    with psycopg.connect(old) as connection:
        connection.execute("select setval('mail_serials', %s)", (last,))
        connection.execute("update items set tracking = null")
    made = [batch.write(old, orders) for batch in batches]
    migrate(old)
    return made


def free(container: Container, mailer: str) -> SerialRange:
    """What the mailer has left, by the real time: the upgrade knows no other."""
    with container.db.system_transaction() as tx:
        return lock_serials(tx, mailer, count=10 ** (15 - len(mailer)), now=datetime.now(UTC))


def test_barcodes_that_are_in_the_mail_at_an_upgrade_are_not_given_out_again(
    old: str, container: Container, clock: Clock
) -> None:
    """Of a mailer id of nine digits, whose serials soon return."""
    ids = upgraded(
        old, clock, 2_000_500,
        Recoded("mailed", LONG, first=400, ago=timedelta(days=44)),
        Recoded("handed", LONG, first=999_990),
        Recoded("delivered", LONG, first=300_000, ago=timedelta(days=46)),
        Recoded("printed", "999999", first=2_000_100),
    )  # fmt: skip
    batches = Rows.read(container.db).batches
    assert [(batches[each].mailer_id, batches[each].first_serial) for each in ids] == [
        (LONG, 2_000_401),
        (LONG, 1_999_991),
        (None, None),
        ("999999", 2_000_101),
    ]
    assert free(container, LONG) == SerialRange(2_000_501, 1_000_000 - (2_000_501 - 1_999_991))


def test_a_sequence_that_began_anew_before_an_upgrade_is_counted_on(
    old: str, container: Container, clock: Clock
) -> None:
    short = "123456"
    upgraded(old, clock, 50, Recoded("mailed", short, first=999_999_900, ago=timedelta(days=1)))
    assert free(container, short) == SerialRange(1_000_000_051, 10**9 - (51 + 99))


def test_a_restored_database_of_the_release_before_passes_by_what_was_given_out(
    old: str, container: Container, clock: Clock
) -> None:
    OldHouse(old, clock).write()
    dump.skip_issued_numbers(old)
    migrate(old)
    assert free(container, LONG).next > 99 + 10_000_000
    assert free(container, LONG).next % 1_000_000 > 99 + 100_000
