"""The tally at its work, and codes that are drawn twice."""

import asyncio

import psycopg
import pytest
import sqlalchemy as sa
import structlog
from placing import open_account, order_row, place
from scanned import coded, codes_of, come, ids_of, rows, visited
from waiting import wait_until

from makers import people
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database import Database
from quillpost.core.database.tables.base import items
from quillpost.fulfillment.qr_scans import tasks as tallies
from quillpost.fulfillment.qr_scans.rules import CODE
from quillpost.fulfillment.qr_scans.tasks import Tally
from quillpost.orders.items import Piece, insert_items
from quillpost.recipients.rules import examine


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def test_the_tally_counts_what_comes_in_until_it_is_stopped(parts: Parts, owner: Caller) -> None:
    order = coded(parts, owner)
    [code] = codes_of(parts, order.id)
    come(parts, *ids_of(parts, order))  # taken in by another process

    async def live() -> None:
        stop = asyncio.Event()
        tally = asyncio.create_task(Tally(parts.db, parts.sealer, parts.scans, parts.clock).run(stop))
        await asyncio.to_thread(wait_until, lambda: len(visited(parts)) == 1)
        await parts.scans.follow(code, None, "person", "phone", counts=True)
        await asyncio.to_thread(wait_until, lambda: len(visited(parts)) == 2)
        stop.set()
        await tally

    asyncio.run(live())
    parts.scans.close()
    with parts.db.work() as tx:
        assert order_row(tx, order).total_scans == 2


def test_the_tally_outlives_a_database_that_is_gone(
    parts: Parts, owner: Caller, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies, "PAUSE_SECONDS", 0.01)
    come(parts, *ids_of(parts, coded(parts, owner)))
    nowhere = Database(psycopg.conninfo.make_conninfo(conninfo, dbname="nowhere"))

    async def live() -> None:
        stop, tally = asyncio.Event(), Tally(nowhere, parts.sealer, parts.scans, parts.clock)
        with structlog.testing.capture_logs() as logs:
            running = asyncio.create_task(tally.run(stop))
            await asyncio.to_thread(wait_until, lambda: "scans.waiting" in {line["event"] for line in logs})
        tally._db = parts.db
        await asyncio.to_thread(wait_until, lambda: len(visited(parts)) == 1)
        stop.set()
        await running

    asyncio.run(live())
    nowhere.close()


@pytest.mark.parametrize("pieces", [2, 60])
def test_two_pieces_that_draw_the_same_code_draw_again(parts: Parts, owner: Caller, pieces: int) -> None:
    taken = codes_of(parts, coded(parts, owner).id)[0]
    order = place(parts, owner, [])
    everyone = examine(people(pieces))
    drawn = [Piece(one, 0, f"Fresh{number:03}") for number, one in enumerate(everyone)]
    drawn[1] = drawn[1]._replace(code=taken)
    with parts.db.work() as tx:
        insert_items(tx, order, [*drawn, Piece(everyone[0], 0)], now=parts.clock())
    query = sa.select(items.c.code).where(items.c.order_id == order.id).order_by(items.c.id)
    *found, without = (row.code for row in rows(parts, query))
    assert without is None
    assert len({*found, taken}) == pieces + 1
    assert all(CODE.fullmatch(code) for code in found)
