"""The desk that takes scans in: together, remembered for a moment, and answered when they are stored."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from queue import Queue

import psycopg
import pytest
import sqlalchemy as sa
from placing import item_ids, open_account
from scanned import PAGE, Ticks, coded, codes_of, inbox

from makers import Clock
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database import Database
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import Unavailable
from quillpost.fulfillment.qr_scans import service as desks
from quillpost.fulfillment.qr_scans.service import Desk, Found, Known, Lost

LOCK = "lock table visit_inbox in access exclusive mode"
WAITING = "select count(*) from pg_locks where not granted"


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def desk(parts: Parts, ticks: Ticks) -> Iterator[Desk]:
    desk = Desk(parts.db, parts.clock, ticks=ticks)
    yield desk
    desk.close()


async def ask(desk: Desk, code: str, *, counts: bool = True) -> Found:
    return await desk.follow(code, desk.recall(code), "person", "test", counts=counts)


def follow(desk: Desk, *codes: str, counts: bool = True) -> list[Found]:
    async def all_at_once() -> list[Found]:
        return await asyncio.gather(*(ask(desk, code, counts=counts) for code in codes))

    return asyncio.run(all_at_once())


def test_a_scan_is_a_row_when_it_is_answered(parts: Parts, owner: Caller, desk: Desk) -> None:
    order = coded(parts, owner, 2)
    [one, two] = codes_of(parts, order.id)
    found = follow(desk, one, two, one, "AAAAzzzz")
    with parts.db.work() as tx:
        [first, second] = item_ids(tx, order)
    lead = PAGE.encode()
    assert found == [Known(first, lead), Known(second, lead), Known(first, lead), Lost.UNKNOWN]
    assert [(row.item_id, row.kind, row.agent, row.at) for row in inbox(parts)] == [
        (item, "person", "test", parts.clock()) for item in (first, second, first)
    ]


async def together_behind_one(parts: Parts, desk: Desk, conninfo: str, codes: Sequence[str]) -> None:
    """The first code is scanned, and all others while it is not stored yet."""
    with psycopg.connect(conninfo) as blocker:
        blocker.execute(LOCK)
        first = asyncio.create_task(ask(desk, codes[0]))
        while not await asyncio.to_thread(_is_someone_waiting, parts):
            await asyncio.sleep(0)
        others = [asyncio.create_task(ask(desk, code)) for code in codes[1:]]
        await asyncio.sleep(0)  # each has put its scan down
        assert not first.done()
        blocker.rollback()
        await asyncio.gather(first, *others)


def test_scans_of_one_moment_are_one_transaction(
    parts: Parts, owner: Caller, desk: Desk, conninfo: str
) -> None:
    """Those that come while others are stored go together: their rows have one writer's number."""
    codes = codes_of(parts, coded(parts, owner, 30).id)

    asyncio.run(together_behind_one(parts, desk, conninfo, codes))
    with parts.db.work() as tx:
        writers = tx.execute(
            sa.text("select xmin::text, count(*) from visit_inbox group by 1 order by 2")
        ).all()
    assert [n for _, n in writers] == [1, 29]


def test_in_a_crowd_the_next_are_waited_for_and_whoever_comes_alone_is_not_kept_waiting(
    parts: Parts, owner: Caller, conninfo: str
) -> None:
    codes = codes_of(parts, coded(parts, owner, 12).id)
    waits: list[float] = []
    desk = Desk(parts.db, parts.clock, pause=waits.append)

    follow(desk, codes[0])
    asyncio.run(together_behind_one(parts, desk, conninfo, codes))
    assert waits == [], "nobody was there with the first, and all others were when it was seen to"
    follow(desk, codes[1])
    follow(desk, codes[2])
    desk.close()
    assert waits == [desks.GATHERING_SECONDS], "once, behind the crowd"


def _is_someone_waiting(parts: Parts) -> bool:
    with parts.db.work() as tx:
        return bool(tx.execute(sa.text(WAITING)).scalar_one())


def test_whoever_only_asks_is_told_and_not_counted(parts: Parts, owner: Caller, desk: Desk) -> None:
    [code] = codes_of(parts, coded(parts, owner).id)
    assert isinstance(follow(desk, code, counts=False)[0], Known)
    assert inbox(parts) == []


def test_what_was_found_is_remembered_for_a_while(
    parts: Parts, owner: Caller, desk: Desk, ticks: Ticks
) -> None:
    order = coded(parts, owner)
    [code] = codes_of(parts, order.id)
    [before] = follow(desk, code)
    with parts.db.work() as tx:
        tx.execute(sa.update(orders).values(qrcode_url="https://new.example.com/"))
    assert desk.recall(code) == before
    ticks.now += desks.KNOWN_SECONDS
    assert desk.recall(code) is None
    [after] = follow(desk, code)
    assert isinstance(after, Known)
    assert after.location == b"https://new.example.com/"


def test_a_code_that_nobody_has_is_remembered_for_a_moment(
    parts: Parts, owner: Caller, desk: Desk, ticks: Ticks
) -> None:
    code = "Nobodys1"
    assert (desk.recall(code), follow(desk, code), desk.recall(code)) == (None, [Lost.UNKNOWN], Lost.UNKNOWN)
    order = coded(parts, owner)
    with parts.db.work() as tx:
        tx.execute(sa.update(items).where(items.c.order_id == order.id).values(code=code))
    ticks.now += desks.LOST_SECONDS
    assert isinstance(follow(desk, code)[0], Known)


def test_no_more_is_remembered_than_there_is_room_for(
    parts: Parts, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desks, "REMEMBERED", 3)
    guesses = [f"Guess{n:03}" for n in range(10)]
    for guess in guesses:
        follow(desk, guess)
    assert [guess for guess in guesses if desk.recall(guess)] == guesses[-3:]


def test_a_code_expires_when_its_piece_is_old_enough(parts: Parts, owner: Caller, clock: Clock) -> None:
    desk = Desk(parts.db, parts.clock, valid=timedelta(days=30), ticks=lambda: 0.0)
    [young, old] = codes_of(parts, coded(parts, owner, 2).id)
    clock.advance(days=30, seconds=-1)
    assert isinstance(follow(desk, young)[0], Known)
    clock.advance(seconds=1)
    assert follow(desk, old) == [Lost.EXPIRED]
    assert len(inbox(parts)) == 1
    desk.close()


def test_who_cannot_be_stored_is_not_answered(
    parts: Parts, owner: Caller, desk: Desk, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desks, "PATIENCE_SECONDS", 0.1)
    [code] = codes_of(parts, coded(parts, owner).id)
    with psycopg.connect(conninfo) as blocker:
        blocker.execute(LOCK)
        for _ in range(2):
            with pytest.raises(Unavailable, match="Scan the code again"):
                follow(desk, code)
        blocker.rollback()
    # The first was on its way and may come; the second had been given up before anyone began with it.
    desk.close()
    assert len(inbox(parts)) <= 1


def test_a_database_that_is_gone_is_told_at_once_and_scans_go_on_when_it_is_back(
    parts: Parts, owner: Caller, conninfo: str
) -> None:
    [code] = codes_of(parts, coded(parts, owner).id)
    nowhere = Database(psycopg.conninfo.make_conninfo(conninfo, dbname="nowhere"))
    away = Desk(nowhere, parts.clock)
    with pytest.raises(Unavailable):
        follow(away, code)
    away._line._db = parts.db
    assert isinstance(follow(away, code)[0], Known)
    away.close()
    nowhere.close()


def test_a_lost_connection_loses_no_scan(parts: Parts, owner: Caller, desk: Desk) -> None:
    [code] = codes_of(parts, coded(parts, owner).id)
    follow(desk, code)
    with psycopg.connect(parts.db.conninfo, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    assert isinstance(follow(desk, code)[0], Known)
    assert len(inbox(parts)) == 2


def test_a_crowd_that_nobody_serves_is_turned_away(
    parts: Parts, owner: Caller, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    [code] = codes_of(parts, coded(parts, owner).id)
    monkeypatch.setattr(desks, "MOST_WAITING", -1)
    with pytest.raises(Unavailable):
        follow(desk, code)


def test_a_closed_desk_opens_again_and_leaves_no_thread(parts: Parts, owner: Caller, desk: Desk) -> None:
    [code] = codes_of(parts, coded(parts, owner).id)
    for _ in range(2):
        assert isinstance(follow(desk, code)[0], Known)
        desk.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "scans"]


def test_those_who_count_are_told_of_scans(parts: Parts, owner: Caller, desk: Desk) -> None:
    [code] = codes_of(parts, coded(parts, owner).id)
    told: list[int] = []
    with desk.heard_by(lambda: told.append(1)):
        follow(desk, code, counts=False)
        desk.close()
        assert told == []
        follow(desk, code)
        desk.close()
    assert told == [1]
    follow(desk, code)
    desk.close()
    assert told == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_desk_whose_thread_broke_down_serves_the_next(parts: Parts, owner: Caller, desk: Desk) -> None:
    [code] = codes_of(parts, coded(parts, owner).id)
    broken: Queue[threading.Thread] = Queue()

    def break_down() -> None:
        broken.put(threading.current_thread())
        raise OSError("nobody reads the log")

    with desk.heard_by(break_down):
        for _ in range(2):
            assert isinstance(follow(desk, code)[0], Known)
            broken.get(timeout=10).join(10)  # it ends within this test, which alone expects its failure
    desk.close()
    assert len(inbox(parts)) == 2
