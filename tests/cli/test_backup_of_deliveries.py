"""Deliveries lie in a table a day, and old ones are dropped: a backup has them all, and is not disturbed."""

from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.database import archive
from quillpost.core.database.embedded.binaries import find_binaries
from quillpost.core.settings import Settings
from quillpost.notifications.webhooks import deliveries
from support.cli_results import Quillpost
from support.factories import Account, Clock, run_jobs_for, snapshot_rows
from support.webhook_outbox import claim_deliveries, complete_deliveries, fan_out

pytestmark = pytest.mark.costly

PLACES = "select tableoid::regclass::text, status, count(*) from deliveries group by 1, 2 order by 1, 2"


@pytest.fixture
def places(owner: Account, container: Container, clock: Clock) -> list[tuple[str, str, int]]:
    """Where deliveries lie: two that were settled, in the day's table, and others that wait."""
    assert owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"}).status_code == 201
    deliveries.maintain_partitions(container.db, now=clock.now())
    owner.send()
    run_jobs_for(container, clock, seconds=40)
    fan_out(container)
    first, second = claim_deliveries(container)[:2]
    complete_deliveries(container, [first])
    complete_deliveries(
        container, [due for due in claim_deliveries(container) if due.id == second.id], "failed", response_status=500
    )
    found = places_in(container)
    day = f"deliveries_{clock.now():%Y%m%d}"
    assert {(table, status) for table, status, _ in found} == {
        (day, "delivered"),
        (day, "failed"),
        ("deliveries_pending", "pending"),
    }
    return found


def places_in(container: Container) -> list[tuple[str, str, int]]:
    with container.db.system_transaction() as tx:
        return [(table, status, count) for table, status, count in tx.execute(sa.text(PLACES))]


def test_deliveries_come_back_into_their_days_and_go_on(
    places: list[tuple[str, str, int]],
    container: Container,
    clock: Clock,
    conninfo: str,
    blank: str,
    tmp_path: Path,
    quillpost: Quillpost,
) -> None:
    before = snapshot_rows(container)["deliveries"]
    steps = (("backup", tmp_path / "home", conninfo), ("restore", tmp_path / "new-home", blank))
    for command, home, database in steps:
        outcome = quillpost(command, tmp_path / "b.qpb", home=home, database_url=database)
        assert outcome.code == 0, outcome.err
    restored = bootstrap.build_container(Settings(home=tmp_path / "new-home"), blank, clock=clock.now)
    assert places_in(restored) == places
    assert snapshot_rows(restored)["deliveries"] == before
    while dues := claim_deliveries(restored):
        complete_deliveries(restored, dues)
    assert {status for _, status, _ in places_in(restored)} == {"delivered", "failed"}
    clock.advance(days=31)
    deliveries.maintain_partitions(restored.db, now=clock.now())
    assert places_in(restored) == []
    restored.db.close()


def test_a_day_that_is_too_old_while_a_backup_runs_is_in_it_and_dropped_afterwards(
    places: list[tuple[str, str, int]], container: Container, clock: Clock, conninfo: str, blank: str
) -> None:
    """The hourly job comes after the snapshot, and before `pg_dump` has looked at anything."""
    later = clock.now() + timedelta(days=31)
    with archive.hold_snapshot(conninfo) as snapshot:
        deliveries.maintain_partitions(container.db, now=later)
        archive.restore_database(find_binaries(), blank, archive.dump_database(find_binaries(), conninfo, snapshot))
    with psycopg.connect(blank) as connection:
        assert connection.execute(PLACES).fetchall() == places
    deliveries.maintain_partitions(container.db, now=later)
    assert places_in(container) == []
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.text("select to_regclass(:name)"), {"name": places[0][0]}).scalar_one() is None
