"""Scans are taken in together, remembered for a moment, answered when they are stored, and counted later."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from queue import Queue
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
import structlog

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Database
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import Unavailable
from quillpost.fulfillment.qr_scans import service
from quillpost.fulfillment.qr_scans import service as recording
from quillpost.fulfillment.qr_scans import tasks as counting_tasks
from quillpost.fulfillment.qr_scans.queries import NewScan
from quillpost.fulfillment.qr_scans.rules import VisitorKind
from quillpost.fulfillment.qr_scans.service import CodeLookup, InvalidCode, ScanRecorder, ScanTarget
from quillpost.fulfillment.qr_scans.tasks import ScanCounter
from support.factories import Build
from support.orders import item_ids, order_row
from support.qr_scans import PAGE, ManualTimer, codes_of, inbox_rows, order_with_codes, record_scans, visit_rows
from support.rows import execute, scalars
from support.waiting import is_lock_awaited, wait_until

LOCK = "lock table visit_inbox in access exclusive mode"
MOST = 3


@pytest.fixture
def ticks() -> ManualTimer:
    return ManualTimer()


@pytest.fixture
def recorder(container: Container, ticks: ManualTimer) -> Iterator[ScanRecorder]:
    recorder = ScanRecorder(container.db, container.clock, max_per_minute=MOST, monotonic=ticks)
    yield recorder
    recorder.close()


@pytest.fixture
def code(container: Container, caller: Caller) -> str:
    """On a piece of an order of its own."""
    [code] = codes_of(container, order_with_codes(container, caller).id)
    return code


async def ask(recorder: ScanRecorder, code: str, *, counts: bool = True, kind: VisitorKind = "person") -> CodeLookup:
    return await recorder.record_scan(code, recorder.find_cached(code), kind, "test", is_counted=counts)


def follow(recorder: ScanRecorder, *codes: str, **how: Any) -> list[CodeLookup]:
    async def all_at_once() -> list[CodeLookup]:
        return await asyncio.gather(*(ask(recorder, code, **how) for code in codes))

    return asyncio.run(all_at_once())


def is_found(recorder: ScanRecorder, code: str) -> bool:
    return isinstance(follow(recorder, code)[0], ScanTarget)


def scanned(container: Container) -> list[int]:
    return [row.item_id for row in inbox_rows(container)]


@pytest.mark.usefixtures("clean_database")
def test_a_scan_is_a_row_when_it_is_answered(container: Container, caller: Caller, recorder: ScanRecorder) -> None:
    order = order_with_codes(container, caller, 2)
    [one, two], [first, second], lead = codes_of(container, order.id), item_ids(container, order), PAGE.encode()
    assert isinstance(follow(recorder, one, counts=False)[0], ScanTarget)
    assert inbox_rows(container) == [], "it does not count"
    found = follow(recorder, one, two, one, "AAAAzzzz")
    assert found == [ScanTarget(first, lead), ScanTarget(second, lead), ScanTarget(first, lead), InvalidCode.UNKNOWN]
    assert [(row.item_id, row.kind, row.agent, row.at) for row in inbox_rows(container)] == [
        (item, "person", "test", container.clock()) for item in (first, second, first)
    ]


async def together_behind_it(container: Container, recorder: ScanRecorder, conninfo: str, codes: Sequence[str]) -> None:
    """The first code is scanned, and all others while it is not stored yet."""
    with psycopg.connect(conninfo) as blocker:
        blocker.execute(LOCK)
        first = asyncio.create_task(ask(recorder, codes[0]))
        while not await asyncio.to_thread(is_lock_awaited, container):
            await asyncio.sleep(0)
        others = [asyncio.create_task(ask(recorder, code)) for code in codes[1:]]
        await asyncio.sleep(0)  # each has put its scan down
        assert not first.done()
        blocker.rollback()
        await asyncio.gather(first, *others)


def test_scans_of_a_moment_are_one(container: Container, caller: Caller, recorder: ScanRecorder, conninfo: str) -> None:
    """Those that come while others are stored go together: their rows have one writer's number."""
    codes = codes_of(container, order_with_codes(container, caller, 30).id)
    asyncio.run(together_behind_it(container, recorder, conninfo, codes))
    assert scalars(container, "select count(*) from visit_inbox group by xmin::text order by 1") == [1, 29]


def test_in_a_crowd_the_next_are_waited_for_and_whoever_comes_alone_is_not_kept_waiting(
    container: Container, caller: Caller, conninfo: str
) -> None:
    codes = codes_of(container, order_with_codes(container, caller, 12).id)
    waits: list[float] = []
    recorder = ScanRecorder(container.db, container.clock, sleep=waits.append)
    follow(recorder, codes[0])
    asyncio.run(together_behind_it(container, recorder, conninfo, codes))
    assert waits == [], "nobody was there with the first, and all others were when it was seen to"
    follow(recorder, codes[1])
    follow(recorder, codes[2])
    recorder.close()
    assert waits == [recording.BATCH_WAIT_SECONDS], "once, behind the crowd"


# What is remembered


def test_what_is_found_is_kept_and_what_nobody_has_for_a_moment(
    container: Container, code: str, recorder: ScanRecorder, ticks: ManualTimer, caller: Caller
) -> None:
    [before] = follow(recorder, code)
    execute(container, sa.update(orders).values(qrcode_url="https://new.example.com/"))
    assert recorder.find_cached(code) == before
    ticks.now += recording.TARGET_CACHE_SECONDS
    assert recorder.find_cached(code) is None
    [after] = follow(recorder, code)
    assert isinstance(after, ScanTarget)
    assert after.location == b"https://new.example.com/"
    code = "Nobodys1"
    assert recorder.find_cached(code) is None
    assert follow(recorder, code) == [recorder.find_cached(code)] == [InvalidCode.UNKNOWN]
    order = order_with_codes(container, caller)
    execute(container, sa.update(items).where(items.c.order_id == order.id).values(code=code))
    ticks.now += recording.INVALID_CACHE_SECONDS
    assert is_found(recorder, code)


def test_no_more_is_remembered_than_there_is_room_for(
    container: Container, recorder: ScanRecorder, ticks: ManualTimer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAX_CACHED_CODES", 3)
    guesses = [f"Guess{n:03}" for n in range(10)]
    for guess in guesses:
        follow(recorder, guess)
    assert [guess for guess in guesses if recorder.find_cached(guess)] == guesses[-3:]
    monkeypatch.setattr(recording, "MAX_COUNTERS", 5)
    crowd = service.ScanRateLimit(MOST, monotonic=ticks)
    for item in range(100):
        assert len(crowd.admit([NewScan(item, container.clock(), "person", "test")])) == 1
    assert len(crowd._counts) == 5


# Too many


@pytest.mark.usefixtures("clean_database")
def test_everybody_is_led_on_however_many_scan(
    container: Container, caller: Caller, recorder: ScanRecorder, ticks: ManualTimer
) -> None:
    order = order_with_codes(container, caller, 2)
    [one, other], [first, second] = codes_of(container, order.id), item_ids(container, order)
    with structlog.testing.capture_logs() as lines:
        assert follow(recorder, *[one] * 10) == [ScanTarget(first, PAGE.encode())] * 10
        for _ in range(10):
            assert is_found(recorder, one)
    assert scanned(container) == [first] * MOST
    warnings = [line for line in lines if line["event"] == "qr_scans.rate_limited"]
    assert [(line["item"], line["kind"]) for line in warnings] == [(first, "person")], "said once a minute"
    follow(recorder, other, one)
    assert scanned(container) == [first] * MOST + [second]
    ticks.now += service.WINDOW_SECONDS
    follow(recorder, *[one] * 10, kind="bot")
    follow(recorder, *[one] * 10, kind="preview")
    assert is_found(recorder, one), "machines keep no person from counting"
    expected = ["person"] * (MOST + 1) + ["bot"] * MOST + ["preview"] * MOST + ["person"]
    assert [row.kind for row in inbox_rows(container)] == expected


def test_the_operator_says_how_many(build: Build) -> None:
    assert build().scan_recorder._rate_limit._max_per_minute == service.MAX_PER_MINUTE == 30
    assert build(scans_a_minute=7).scan_recorder._rate_limit._max_per_minute == 7


# Failures


def test_scans_that_could_not_be_kept_are_not_held_against_anyone(
    container: Container, recorder: ScanRecorder, conninfo: str, code: str
) -> None:
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("alter table visit_inbox rename to elsewhere")
        for _ in range(MOST):
            with pytest.raises(Unavailable):
                follow(recorder, code)
        admin.execute("alter table elsewhere rename to visit_inbox")
    follow(recorder, *[code] * MOST)
    assert len(inbox_rows(container)) == MOST


def test_a_scan_that_cannot_be_stored_is_not_answered(
    container: Container, recorder: ScanRecorder, conninfo: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "TIMEOUT_SECONDS", 0.1)
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
    container: Container, recorder: ScanRecorder, conninfo: str, code: str
) -> None:
    nowhere = Database(psycopg.conninfo.make_conninfo(conninfo, dbname="nowhere"))
    away = ScanRecorder(nowhere, container.clock)
    with pytest.raises(Unavailable):
        follow(away, code)
    away._connection._db = container.db
    assert is_found(away, code)
    away.close()
    nowhere.close()
    with psycopg.connect(conninfo, autocommit=True) as admin:
        assert is_found(recorder, code)
        admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    assert is_found(recorder, code), "a lost connection loses no scan"
    assert len(inbox_rows(container)) == 3


def test_a_closed_recorder_opens_again_and_turns_an_unserved_crowd_away(
    code: str, recorder: ScanRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert is_found(recorder, code)
        recorder.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "scans"]
    monkeypatch.setattr(recording, "MAX_QUEUE_LENGTH", -1)
    with pytest.raises(Unavailable):
        follow(recorder, code)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.usefixtures("clean_database")
def test_a_recorder_that_crashed_serves_the_next_scan(container: Container, code: str, recorder: ScanRecorder) -> None:
    broken: Queue[threading.Thread] = Queue()

    def break_down() -> None:
        broken.put(threading.current_thread())
        raise OSError("nobody reads the log")

    with recorder.notify_on_scans(break_down):
        for _ in range(2):
            assert is_found(recorder, code)
            broken.get(timeout=10).join(10)  # it ends within this test, which alone expects its failure
    recorder.close()
    assert len(inbox_rows(container)) == 2


# The counter


def test_the_counter_is_notified_of_scans(code: str, recorder: ScanRecorder) -> None:
    notified: list[int] = []
    with recorder.notify_on_scans(lambda: notified.append(1)):
        for counts, expected in ((False, []), (True, [1])):
            follow(recorder, code, counts=counts)
            recorder.close()
            assert notified == expected
    follow(recorder, code)
    recorder.close()
    assert notified == [1]


@pytest.mark.usefixtures("clean_database")
def test_the_counter_counts_incoming_scans_until_it_is_stopped(container: Container, caller: Caller) -> None:
    order, recorder = order_with_codes(container, caller), container.scan_recorder
    record_scans(container, *item_ids(container, order))  # taken in by another process

    async def live() -> None:
        stop, counter = asyncio.Event(), ScanCounter(container.db, container.encryptor, recorder, container.clock)
        running = asyncio.create_task(counter.run(stop))
        await asyncio.to_thread(wait_until, lambda: len(visit_rows(container)) == 1)
        await recorder.record_scan(codes_of(container, order.id)[0], None, "person", "phone", is_counted=True)
        await asyncio.to_thread(wait_until, lambda: len(visit_rows(container)) == 2)
        stop.set()
        await running

    asyncio.run(live())
    recorder.close()
    assert order_row(container, order).total_scans == 2


def test_the_counter_survives_a_lost_database(
    container: Container, caller: Caller, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting_tasks, "ERROR_PAUSE_SECONDS", 0.01)
    record_scans(container, *item_ids(container, order_with_codes(container, caller)))
    nowhere = Database(psycopg.conninfo.make_conninfo(conninfo, dbname="nowhere"))
    lost = "qr_scans.database_unavailable"

    async def live() -> None:
        stop = asyncio.Event()
        counter = ScanCounter(nowhere, container.encryptor, container.scan_recorder, container.clock)
        with structlog.testing.capture_logs() as logs:
            running = asyncio.create_task(counter.run(stop))
            await asyncio.to_thread(wait_until, lambda: lost in {line["event"] for line in logs})
        counter._db = container.db
        await asyncio.to_thread(wait_until, lambda: len(visit_rows(container)) == 1)
        stop.set()
        await running

    asyncio.run(live())
    nowhere.close()
