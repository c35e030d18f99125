"""Looking for scans in a carrier's folder: when, and in which order."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.ports import CarrierDown, CarrierReport, RefusedScanFile, ScanFileForbidden
from quillpost.fulfillment.tracking import queries as tracking_queries
from quillpost.fulfillment.tracking import service as tracking_service
from quillpost.fulfillment.tracking.rules import PHASES, Scan
from quillpost.orders.models import Order
from quillpost.orders.rules import NEXT_STATUSES, ItemStatus
from support.orders import fact_rows
from support.production import (
    JOURNEY,
    carrier_scan_rows,
    ingest,
    item_statuses_recorded,
    mailed_order,
    scan,
    scan_journey,
    statuses,
    tracking_codes,
    with_environment,
)
from support.rows import scalar

pytestmark = pytest.mark.usefixtures("clean_database")

STATUSES = ["Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered"]


class Killed(BaseException):
    """Nothing runs after it."""


class Feed:
    """A carrier that has the files it was given; it raises those that are errors."""

    def __init__(self, files: dict[str, bytes | Exception], *, more: bool = False) -> None:
        self.files, self._more = files, more
        self.settled: list[str] = []
        self.refused: dict[str, str] = {}

    def poll(self, *, now: datetime) -> CarrierReport:
        return CarrierReport(list(self.files), expects_more=self._more)

    def fetch(self, name: str) -> bytes:
        file = self.files[name]
        if isinstance(file, Exception):
            raise file
        return file

    def settle(self, name: str) -> None:
        self.settled.append(name)

    def refuse(self, name: str, reason: str) -> None:
        self.refused[name] = reason

    def set_aside(self) -> Sequence[RefusedScanFile]:
        return ()


def poll(container: Container, feed: Feed) -> None:
    """Once the journey of what was mailed is over."""
    environments = {"test": with_environment(container, carrier=feed).environments["test"]}
    later = container.clock() + timedelta(days=len(JOURNEY))
    tracking_service.poll_carriers(container.db, environments, now=later)


def in_a_file(scans: Sequence[Scan]) -> bytes:
    return json.dumps([json.loads(each.raw) for each in scans]).encode()


@pytest.fixture
def order(container: Container, caller: Caller) -> Order:
    return mailed_order(container, caller)


@pytest.fixture
def journey(container: Container, order: Order) -> list[Scan]:
    return scan_journey(container, *tracking_codes(container, order))


@pytest.mark.parametrize("more", [True, False])
def test_a_poll_comes_back_while_pieces_are_on_their_way(
    container: Container, order: Order, journey: list[Scan], more: bool
) -> None:
    feed = Feed({"page 7": in_a_file(journey[:2])}, more=more)
    poll(container, feed)
    assert feed.settled == ["page 7"]
    assert statuses(container, order) == ["In Local Area"]
    polls = "select count(*) from procrastinate_jobs where task_name = 'tracking.poll_carriers'"
    assert scalar(container, polls) == more


def test_files_and_rows_that_cannot_be_read_keep_nobody_from_the_others(
    container: Container, order: Order, journey: list[Scan], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = tracking_queries._copy_row

    def odd(row: tuple[bytes, Scan]) -> str:
        return line(row).replace("2026-", "soon-") if row[1].phase == "99z" else line(row)

    monkeypatch.setattr(tracking_queries, "_copy_row", odd)
    bad = {"imb": "00310555555000000001", "scanDatetime": "2026-05-04T12:00:00Z", "mailPhase": "99z"}
    good = [json.loads(each.raw) for each in journey]
    feed = Feed(
        {
            "a letter": b"Dear carrier, ...",
            "gone": FileMissing("gone"),
            "odd": json.dumps([bad]).encode(),
            "secret": ScanFileForbidden("It cannot be read: Permission denied."),
            "scans": json.dumps([{"imb": "12"}, *good]).encode(),
        }
    )
    poll(container, feed)
    assert (feed.settled, list(feed.refused)) == (["scans"], ["a letter", "odd"])
    assert feed.refused["a letter"].startswith("This is no file of scans")
    assert feed.refused["odd"].startswith("The database does not take this file: invalid input syntax")
    assert statuses(container, order) == ["Delivered"]


def test_a_file_that_was_stored_and_not_settled_changes_nothing_the_next_time(
    container: Container, order: Order, journey: list[Scan], monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Feed({"scans.json": in_a_file(journey)})

    def die(name: str) -> None:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(feed, "settle", die)
        with pytest.raises(Killed):
            poll(container, feed)
    poll(container, feed)
    assert feed.settled == ["scans.json"]
    assert item_statuses_recorded(container, order) == STATUSES
    assert len(carrier_scan_rows(container)) == 4


def test_a_feed_that_is_down_does_not_stop_the_other_environment(
    container: Container, order: Order, journey: list[Scan], monkeypatch: pytest.MonkeyPatch
) -> None:
    good, down = Feed({"scans.json": in_a_file(journey)}), Feed({})

    def fail(*, now: datetime) -> CarrierReport:
        raise CarrierDown("The folder is not there.")

    monkeypatch.setattr(down, "poll", fail)
    feeds = {"live": down, "test": good}
    environments = {mode: replace(container.environments[mode], carrier=feed) for mode, feed in feeds.items()}
    tracking_service.poll_carriers(container.db, environments, now=container.clock() + timedelta(days=len(JOURNEY)))
    assert statuses(container, order) == ["Delivered"]


Sightings = list[tuple[str, int]]
ON_THE_WAY = st.sampled_from(["1", "1b", "2", "2c", "3a", "3c", "pars", "miscellaneous"])
END = st.sampled_from(["4c", "returned", "destroyed"])


@st.composite
def reports(draw: st.DrawFn) -> tuple[Sightings, Sightings, list[int]]:
    """Sightings by phase and hour, at most one of them an end; the same shuffled, some twice; and after how
    many of those each portion ends."""
    hours = draw(st.lists(st.integers(1, 200), unique=True, min_size=1, max_size=8))
    seen = [(draw(ON_THE_WAY), hour) for hour in hours]
    if draw(st.booleans()):
        seen.append((draw(END), draw(st.integers(1, 300).filter(lambda hour: hour not in hours))))
    again = draw(st.lists(st.sampled_from(seen), max_size=3))
    shuffled = draw(st.permutations(seen + again))
    return seen, shuffled, draw(st.lists(st.integers(1, 4), min_size=1, max_size=12))


def expected(seen: Sightings) -> str:
    status = ItemStatus.PRINTED
    for phase, _ in sorted(seen, key=lambda each: each[1]):
        target = PHASES.get(phase)
        if target is not None and target in NEXT_STATUSES[status]:
            status = target
    return status


@given(report=reports())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(report=([("2", 1), ("pars", 2), ("1", 3)], [("1", 3), ("2", 1), ("pars", 2)], [1]))
@example(report=([("3a", 1), ("pars", 2), ("1", 3)], [("3a", 1), ("1", 3), ("pars", 2)], [1]))
@example(report=([("1", 1), ("pars", 2), ("2", 3)], [("2", 3), ("pars", 2), ("1", 1)], [1]))
@example(report=([("2", 1), ("pars", 2), ("1", 3)], [("pars", 2), ("1", 3), ("2", 1)], [1]))
@example(report=([("1", 1), ("1", 106), ("pars", 3)], [("1", 1), ("1", 106), ("pars", 3), ("1", 106)], [1, 1]))
@example(report=([("pars", 1), ("1", 2), ("pars", 3)], [("pars", 3), ("1", 2), ("pars", 1)], [1]))
def test_a_piece_comes_to_stand_where_its_scans_lead_in_their_order(
    container: Container, caller: Caller, report: tuple[Sightings, Sightings, list[int]]
) -> None:
    seen, shuffled, portions = report
    order = mailed_order(container, caller)
    assert ingest_in_portions(container, order, shuffled, portions) == len(set(shuffled))
    assert statuses(container, order) == [expected(seen)]
    way = [ItemStatus(status) for status in item_statuses_recorded(container, order)]
    assert all(after in NEXT_STATUSES[before] for before, after in pairwise(way))


def ingest_in_portions(container: Container, order: Order, seen: Sightings, portions: list[int]) -> int:
    """How many were new."""
    [tracking], start, new = tracking_codes(container, order), container.clock(), 0
    scans = [scan(tracking, phase, start + timedelta(hours=hour)) for phase, hour in seen]
    for size in [*portions, len(scans)]:
        new += ingest(container, *scans[:size])
        scans = scans[size:]
    return new


@given(report=reports())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_events_of_a_piece_scanned_in_order_are_dated_in_order(
    container: Container, caller: Caller, report: tuple[Sightings, Sightings, list[int]]
) -> None:
    seen, _, portions = report
    order = mailed_order(container, caller)
    ingest_in_portions(container, order, sorted(seen, key=lambda each: each[1]), portions)
    moments = [fact.seen_at for fact in fact_rows(container, order) if fact.seen_at is not None]
    assert moments == sorted(moments)
    assert statuses(container, order) == [expected(seen)]


def test_a_late_word_of_a_turn_changes_nothing_where_the_piece_has_gone_on(container: Container, order: Order) -> None:
    [tracking] = tracking_codes(container, order)
    first, turn, second, last = (container.clock() + timedelta(days=day) for day in (1, 2, 3, 4))
    ingest(container, scan(tracking, "1", first), scan(tracking, "2", second))
    ingest(container, scan(tracking, "pars", turn))
    assert item_statuses_recorded(container, order) == STATUSES[:4]
    ingest(container, scan(tracking, "3a", last))
    assert statuses(container, order) == ["Processed for Delivery"]


def test_a_rerouting_and_the_scans_after_it_in_one_report_are_all_recorded(container: Container, order: Order) -> None:
    [tracking] = tracking_codes(container, order)
    phases = enumerate(("1", "pars", "1", "2", "pars", "3a", "4c"), start=1)
    ingest(container, *(scan(tracking, phase, container.clock() + timedelta(days=day)) for day, phase in phases))
    assert item_statuses_recorded(container, order)[2:] == [
        "In Transit", "Re-routed", "In Transit", "In Local Area", "Re-routed", "Processed for Delivery", "Delivered",
    ]  # fmt: skip
