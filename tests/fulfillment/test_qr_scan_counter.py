"""The tally at its work, and codes that are drawn twice."""

import asyncio

import psycopg
import pytest
import sqlalchemy as sa
import structlog

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Database
from quillpost.core.database.tables.base import items
from quillpost.fulfillment.qr_scans import tasks as counting_tasks
from quillpost.fulfillment.qr_scans.rules import CODE_PATTERN
from quillpost.fulfillment.qr_scans.tasks import ScanCounter
from quillpost.orders.service import NewItem, insert_items
from quillpost.recipients.rules import validate_recipients
from support.factories import people
from support.orders import create_order, open_account, order_row
from support.qr_scans import codes_of, ids_of, order_with_codes, record_scans, rows, visit_rows
from support.waiting import wait_until


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def test_the_counter_counts_incoming_scans_until_it_is_stopped(container: Container, owner: Caller) -> None:
    order = order_with_codes(container, owner)
    [code] = codes_of(container, order.id)
    record_scans(container, *ids_of(container, order))  # taken in by another process

    async def live() -> None:
        stop = asyncio.Event()
        counter = asyncio.create_task(
            ScanCounter(container.db, container.encryptor, container.scan_recorder, container.clock).run(stop)
        )
        await asyncio.to_thread(wait_until, lambda: len(visit_rows(container)) == 1)
        await container.scan_recorder.record_scan(code, None, "person", "phone", is_counted=True)
        await asyncio.to_thread(wait_until, lambda: len(visit_rows(container)) == 2)
        stop.set()
        await counter

    asyncio.run(live())
    container.scan_recorder.close()
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).total_scans == 2


def test_the_counter_survives_a_lost_database(
    container: Container, owner: Caller, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting_tasks, "ERROR_PAUSE_SECONDS", 0.01)
    record_scans(container, *ids_of(container, order_with_codes(container, owner)))
    nowhere = Database(psycopg.conninfo.make_conninfo(conninfo, dbname="nowhere"))

    async def live() -> None:
        stop, counter = (
            asyncio.Event(),
            ScanCounter(nowhere, container.encryptor, container.scan_recorder, container.clock),
        )
        with structlog.testing.capture_logs() as logs:
            running = asyncio.create_task(counter.run(stop))
            await asyncio.to_thread(
                wait_until, lambda: "qr_scans.database_unavailable" in {line["event"] for line in logs}
            )
        counter._db = container.db
        await asyncio.to_thread(wait_until, lambda: len(visit_rows(container)) == 1)
        stop.set()
        await running

    asyncio.run(live())
    nowhere.close()


@pytest.mark.parametrize("pieces", [2, 60])
def test_two_pieces_that_draw_the_same_code_draw_again(container: Container, owner: Caller, pieces: int) -> None:
    taken = codes_of(container, order_with_codes(container, owner).id)[0]
    order = create_order(container, owner, [])
    everyone = validate_recipients(people(pieces))
    drawn = [NewItem(one, 0, f"Fresh{number:03}") for number, one in enumerate(everyone)]
    drawn[1] = drawn[1]._replace(code=taken)
    with container.db.system_transaction() as tx:
        insert_items(tx, order, [*drawn, NewItem(everyone[0], 0)], now=container.clock())
    query = sa.select(items.c.code).where(items.c.order_id == order.id).order_by(items.c.id)
    *found, without = (row.code for row in rows(container, query))
    assert without is None
    assert len({*found, taken}) == pieces + 1
    assert all(CODE_PATTERN.fullmatch(code) for code in found)
