"""The desk that takes scans in: together, remembered for a moment, and answered when they are stored."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from queue import Queue

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Database
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import Unavailable
from quillpost.fulfillment.qr_scans import service as recording
from quillpost.fulfillment.qr_scans.service import CodeLookup, InvalidCode, ScanRecorder, ScanTarget
from support.factories import Clock
from support.orders import item_ids, open_account
from support.qr_scans import PAGE, ManualTimer, codes_of, inbox_rows, order_with_codes

LOCK = "lock table visit_inbox in access exclusive mode"
WAITING = "select count(*) from pg_locks where not granted"


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


@pytest.fixture
def ticks() -> ManualTimer:
    return ManualTimer()


@pytest.fixture
def recorder(container: Container, ticks: ManualTimer) -> Iterator[ScanRecorder]:
    recorder = ScanRecorder(container.db, container.clock, monotonic=ticks)
    yield recorder
    recorder.close()


async def ask(recorder: ScanRecorder, code: str, *, counts: bool = True) -> CodeLookup:
    return await recorder.record_scan(code, recorder.find_cached(code), "person", "test", is_counted=counts)


def follow(recorder: ScanRecorder, *codes: str, counts: bool = True) -> list[CodeLookup]:
    async def all_at_once() -> list[CodeLookup]:
        return await asyncio.gather(*(ask(recorder, code, counts=counts) for code in codes))

    return asyncio.run(all_at_once())


def test_a_scan_is_a_row_when_it_is_answered(container: Container, owner: Caller, recorder: ScanRecorder) -> None:
    order = order_with_codes(container, owner, 2)
    [one, two] = codes_of(container, order.id)
    found = follow(recorder, one, two, one, "AAAAzzzz")
    with container.db.system_transaction() as tx:
        [first, second] = item_ids(tx, order)
    lead = PAGE.encode()
    assert found == [ScanTarget(first, lead), ScanTarget(second, lead), ScanTarget(first, lead), InvalidCode.UNKNOWN]
    assert [(row.item_id, row.kind, row.agent, row.at) for row in inbox_rows(container)] == [
        (item, "person", "test", container.clock()) for item in (first, second, first)
    ]


async def together_behind_one(
    container: Container, recorder: ScanRecorder, conninfo: str, codes: Sequence[str]
) -> None:
    """The first code is scanned, and all others while it is not stored yet."""
    with psycopg.connect(conninfo) as blocker:
        blocker.execute(LOCK)
        first = asyncio.create_task(ask(recorder, codes[0]))
        while not await asyncio.to_thread(_is_someone_waiting, container):
            await asyncio.sleep(0)
        others = [asyncio.create_task(ask(recorder, code)) for code in codes[1:]]
        await asyncio.sleep(0)  # each has put its scan down
        assert not first.done()
        blocker.rollback()
        await asyncio.gather(first, *others)


def test_scans_of_one_moment_are_one_transaction(
    container: Container, owner: Caller, recorder: ScanRecorder, conninfo: str
) -> None:
    """Those that come while others are stored go together: their rows have one writer's number."""
    codes = codes_of(container, order_with_codes(container, owner, 30).id)

    asyncio.run(together_behind_one(container, recorder, conninfo, codes))
    with container.db.system_transaction() as tx:
        writers = tx.execute(sa.text("select xmin::text, count(*) from visit_inbox group by 1 order by 2")).all()
    assert [n for _, n in writers] == [1, 29]


def test_in_a_crowd_the_next_are_waited_for_and_whoever_comes_alone_is_not_kept_waiting(
    container: Container, owner: Caller, conninfo: str
) -> None:
    codes = codes_of(container, order_with_codes(container, owner, 12).id)
    waits: list[float] = []
    recorder = ScanRecorder(container.db, container.clock, sleep=waits.append)

    follow(recorder, codes[0])
    asyncio.run(together_behind_one(container, recorder, conninfo, codes))
    assert waits == [], "nobody was there with the first, and all others were when it was seen to"
    follow(recorder, codes[1])
    follow(recorder, codes[2])
    recorder.close()
    assert waits == [recording.BATCH_WAIT_SECONDS], "once, behind the crowd"


def _is_someone_waiting(container: Container) -> bool:
    with container.db.system_transaction() as tx:
        return bool(tx.execute(sa.text(WAITING)).scalar_one())


def test_a_lookup_without_counting_is_answered_and_not_stored(
    container: Container, owner: Caller, recorder: ScanRecorder
) -> None:
    [code] = codes_of(container, order_with_codes(container, owner).id)
    assert isinstance(follow(recorder, code, counts=False)[0], ScanTarget)
    assert inbox_rows(container) == []


def test_what_was_found_is_remembered_for_a_while(
    container: Container, owner: Caller, recorder: ScanRecorder, ticks: ManualTimer
) -> None:
    order = order_with_codes(container, owner)
    [code] = codes_of(container, order.id)
    [before] = follow(recorder, code)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).values(qrcode_url="https://new.example.com/"))
    assert recorder.find_cached(code) == before
    ticks.now += recording.TARGET_CACHE_SECONDS
    assert recorder.find_cached(code) is None
    [after] = follow(recorder, code)
    assert isinstance(after, ScanTarget)
    assert after.location == b"https://new.example.com/"


def test_a_code_that_nobody_has_is_remembered_for_a_moment(
    container: Container, owner: Caller, recorder: ScanRecorder, ticks: ManualTimer
) -> None:
    code = "Nobodys1"
    assert (recorder.find_cached(code), follow(recorder, code), recorder.find_cached(code)) == (
        None,
        [InvalidCode.UNKNOWN],
        InvalidCode.UNKNOWN,
    )
    order = order_with_codes(container, owner)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(items).where(items.c.order_id == order.id).values(code=code))
    ticks.now += recording.INVALID_CACHE_SECONDS
    assert isinstance(follow(recorder, code)[0], ScanTarget)


def test_no_more_is_remembered_than_there_is_room_for(
    container: Container, recorder: ScanRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAX_CACHED_CODES", 3)
    guesses = [f"Guess{n:03}" for n in range(10)]
    for guess in guesses:
        follow(recorder, guess)
    assert [guess for guess in guesses if recorder.find_cached(guess)] == guesses[-3:]


def test_a_code_expires_when_its_piece_is_old_enough(container: Container, owner: Caller, clock: Clock) -> None:
    recorder = ScanRecorder(container.db, container.clock, code_lifetime=timedelta(days=30), monotonic=lambda: 0.0)
    [young, old] = codes_of(container, order_with_codes(container, owner, 2).id)
    clock.advance(days=30, seconds=-1)
    assert isinstance(follow(recorder, young)[0], ScanTarget)
    clock.advance(seconds=1)
    assert follow(recorder, old) == [InvalidCode.EXPIRED]
    assert len(inbox_rows(container)) == 1
    recorder.close()


def test_a_scan_that_cannot_be_stored_is_not_answered(
    container: Container, owner: Caller, recorder: ScanRecorder, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "TIMEOUT_SECONDS", 0.1)
    [code] = codes_of(container, order_with_codes(container, owner).id)
    with psycopg.connect(conninfo) as blocker:
        blocker.execute(LOCK)
        for _ in range(2):
            with pytest.raises(Unavailable, match="Scan the code again"):
                follow(recorder, code)
        blocker.rollback()
    # The first was on its way and may come; the second had been given up before anyone began with it.
    recorder.close()
    assert len(inbox_rows(container)) <= 1


def test_a_lost_database_is_reported_at_once_and_scans_go_on_when_it_is_back(
    container: Container, owner: Caller, conninfo: str
) -> None:
    [code] = codes_of(container, order_with_codes(container, owner).id)
    nowhere = Database(psycopg.conninfo.make_conninfo(conninfo, dbname="nowhere"))
    away = ScanRecorder(nowhere, container.clock)
    with pytest.raises(Unavailable):
        follow(away, code)
    away._connection._db = container.db
    assert isinstance(follow(away, code)[0], ScanTarget)
    away.close()
    nowhere.close()


def test_a_lost_connection_loses_no_scan(container: Container, owner: Caller, recorder: ScanRecorder) -> None:
    [code] = codes_of(container, order_with_codes(container, owner).id)
    follow(recorder, code)
    with psycopg.connect(container.db.conninfo, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    assert isinstance(follow(recorder, code)[0], ScanTarget)
    assert len(inbox_rows(container)) == 2


def test_a_crowd_that_nobody_serves_is_turned_away(
    container: Container, owner: Caller, recorder: ScanRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    [code] = codes_of(container, order_with_codes(container, owner).id)
    monkeypatch.setattr(recording, "MAX_QUEUE_LENGTH", -1)
    with pytest.raises(Unavailable):
        follow(recorder, code)


def test_a_closed_recorder_opens_again_and_leaves_no_thread(
    container: Container, owner: Caller, recorder: ScanRecorder
) -> None:
    [code] = codes_of(container, order_with_codes(container, owner).id)
    for _ in range(2):
        assert isinstance(follow(recorder, code)[0], ScanTarget)
        recorder.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "scans"]


def test_the_counter_is_notified_of_scans(container: Container, owner: Caller, recorder: ScanRecorder) -> None:
    [code] = codes_of(container, order_with_codes(container, owner).id)
    notified: list[int] = []
    with recorder.notify_on_scans(lambda: notified.append(1)):
        follow(recorder, code, counts=False)
        recorder.close()
        assert notified == []
        follow(recorder, code)
        recorder.close()
    assert notified == [1]
    follow(recorder, code)
    recorder.close()
    assert notified == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_recorder_whose_thread_crashed_serves_the_next_scan(
    container: Container, owner: Caller, recorder: ScanRecorder
) -> None:
    [code] = codes_of(container, order_with_codes(container, owner).id)
    broken: Queue[threading.Thread] = Queue()

    def break_down() -> None:
        broken.put(threading.current_thread())
        raise OSError("nobody reads the log")

    with recorder.notify_on_scans(break_down):
        for _ in range(2):
            assert isinstance(follow(recorder, code)[0], ScanTarget)
            broken.get(timeout=10).join(10)  # it ends within this test, which alone expects its failure
    recorder.close()
    assert len(inbox_rows(container)) == 2
