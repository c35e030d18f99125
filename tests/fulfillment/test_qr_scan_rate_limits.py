"""One code that is scanned without end: everyone is led on, and only so many scans are kept."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
import structlog

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.errors import Unavailable
from quillpost.fulfillment.qr_scans import service as qr_scan_service
from quillpost.fulfillment.qr_scans.queries import NewScan
from quillpost.fulfillment.qr_scans.rules import VisitorKind
from quillpost.fulfillment.qr_scans.service import (
    MAX_PER_MINUTE,
    WINDOW_SECONDS,
    CodeLookup,
    ScanRateLimit,
    ScanRecorder,
    ScanTarget,
)
from support.factories import Build
from support.orders import item_ids, open_account
from support.qr_scans import PAGE, ManualTimer, codes_of, inbox_rows, order_with_codes

MOST = 3


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


@pytest.fixture
def ticks() -> ManualTimer:
    return ManualTimer()


@pytest.fixture
def recorder(container: Container, ticks: ManualTimer) -> Iterator[ScanRecorder]:
    recorder = ScanRecorder(container.db, container.clock, max_per_minute=MOST, monotonic=ticks)
    yield recorder
    recorder.close()


def follow(recorder: ScanRecorder, *codes: str, kind: VisitorKind = "person") -> list[CodeLookup]:
    async def all_at_once() -> list[CodeLookup]:
        return await asyncio.gather(
            *(recorder.record_scan(code, recorder.find_cached(code), kind, "test", is_counted=True) for code in codes)
        )

    return asyncio.run(all_at_once())


def test_everyone_is_led_on_and_so_many_are_kept(
    container: Container, owner: Caller, recorder: ScanRecorder, ticks: ManualTimer
) -> None:
    order = order_with_codes(container, owner, 2)
    [one, other] = codes_of(container, order.id)
    with container.db.system_transaction() as tx:
        [first, second] = item_ids(tx, order)
    lead = PAGE.encode()
    with structlog.testing.capture_logs() as lines:
        assert follow(recorder, *[one] * 10) == [ScanTarget(first, lead)] * 10
        for _ in range(10):
            assert follow(recorder, one) == [ScanTarget(first, lead)]
    assert [row.item_id for row in inbox_rows(container)] == [first] * MOST
    warnings = [line for line in lines if line["event"] == "qr_scans.rate_limited"]
    assert [(line["item"], line["kind"]) for line in warnings] == [(first, "person")], "said once a minute"

    follow(recorder, other, one)
    assert [row.item_id for row in inbox_rows(container)] == [first] * MOST + [second]
    ticks.now += WINDOW_SECONDS
    follow(recorder, *[one] * 10)
    assert [row.item_id for row in inbox_rows(container)] == [first] * MOST + [second] + [first] * MOST


def test_machines_keep_no_person_from_counting(container: Container, owner: Caller, recorder: ScanRecorder) -> None:
    [code] = codes_of(container, order_with_codes(container, owner).id)
    follow(recorder, *[code] * 10, kind="bot")
    follow(recorder, *[code] * 10, kind="preview")
    follow(recorder, code)
    assert [row.kind for row in inbox_rows(container)] == ["bot"] * MOST + ["preview"] * MOST + ["person"]


def test_scans_that_could_not_be_kept_are_not_held_against_anyone(
    container: Container, owner: Caller, recorder: ScanRecorder, conninfo: str
) -> None:
    [code] = codes_of(container, order_with_codes(container, owner).id)
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("alter table visit_inbox rename to elsewhere")
        for _ in range(MOST):
            with pytest.raises(Unavailable):
                follow(recorder, code)
        admin.execute("alter table elsewhere rename to visit_inbox")
    follow(recorder, *[code] * MOST)
    assert len(inbox_rows(container)) == MOST


def test_no_more_pieces_are_remembered_than_there_is_room_for(
    container: Container, ticks: ManualTimer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qr_scan_service, "MAX_COUNTERS", 5)
    crowd = ScanRateLimit(MOST, monotonic=ticks)
    for item in range(100):
        assert len(crowd.admit([NewScan(item, container.clock(), "person", "test")])) == 1
    assert len(crowd._counts) == 5


def test_the_operator_says_how_many(build: Build) -> None:
    assert build().scan_recorder._rate_limit._max_per_minute == MAX_PER_MINUTE == 30
    assert build(scans_a_minute=7).scan_recorder._rate_limit._max_per_minute == 7
