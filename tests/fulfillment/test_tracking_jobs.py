"""A carrier's folder is looked at for scans, and pieces that nobody sees any more are inferred or left alone."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.ports import CarrierDown, CarrierReport, RefusedScanFile, ScanFileForbidden
from quillpost.fulfillment.tracking import queries as tracking_queries
from quillpost.fulfillment.tracking import service as tracking_service
from quillpost.fulfillment.tracking import tasks as tracking_tasks
from quillpost.fulfillment.tracking.rules import Scan
from quillpost.orders.models import Order
from support import production as carrier
from support.factories import Clock, person
from support.orders import create_order, fact_rows, item_rows, order_row
from support.production import batch_rows, item_statuses_recorded, mailed_order, scan, statuses, with_environment
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
    later = container.clock() + timedelta(days=len(carrier.JOURNEY))
    tracking_service.poll_carriers(container.db, environments, now=later)


def in_a_file(scans: Sequence[Scan]) -> bytes:
    return json.dumps([json.loads(each.raw) for each in scans]).encode()


@pytest.fixture
def order(container: Container, caller: Caller) -> Order:
    return carrier.mailed_order(container, caller)


@pytest.fixture
def journey(container: Container, order: Order) -> list[Scan]:
    return carrier.scan_journey(container, *carrier.tracking_codes(container, order))


@pytest.mark.parametrize("more", [True, False])
def test_polls_go_on_while_pieces_travel(container: Container, order: Order, journey: list[Scan], more: bool) -> None:
    feed = Feed({"page 7": in_a_file(journey[:2])}, more=more)
    poll(container, feed)
    assert (feed.settled, statuses(container, order)) == (["page 7"], ["In Local Area"])
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
    assert (item_statuses_recorded(container, order), len(carrier.carrier_scan_rows(container))) == (STATUSES, 4)


def test_a_feed_that_is_down_does_not_stop_the_other_environment(
    container: Container, order: Order, journey: list[Scan], monkeypatch: pytest.MonkeyPatch
) -> None:
    good, down = Feed({"scans.json": in_a_file(journey)}), Feed({})

    def fail(*, now: datetime) -> CarrierReport:
        raise CarrierDown("The folder is not there.")

    monkeypatch.setattr(down, "poll", fail)
    feeds = {"live": down, "test": good}
    environments = {mode: replace(container.environments[mode], carrier=feed) for mode, feed in feeds.items()}
    later = container.clock() + timedelta(days=len(carrier.JOURNEY))
    tracking_service.poll_carriers(container.db, environments, now=later)
    assert statuses(container, order) == ["Delivered"]


NEVER: dict[str, Any] = {"infer_delivery_after": None, "infer_unseen_delivery_after": None}
AFTER_SORTING = NEVER | {"infer_delivery_after": timedelta(days=3)}
AFTER_SILENCE = NEVER | {"infer_unseen_delivery_after": timedelta(days=20)}
EITHER = AFTER_SORTING | {"infer_unseen_delivery_after": timedelta(days=20)}


def close(container: Container, **changes: Any) -> None:
    environments = with_environment(container, **changes).environments
    tracking_tasks.close_items(container.db, {"test": environments["test"]}, now=container.clock())


def seen(container: Container, order: Order, *phases: str) -> None:
    """Every piece is seen in these phases, an hour after each other, from now on."""
    for tracking in carrier.tracking_codes(container, order):
        moments = (container.clock() + timedelta(hours=hour) for hour in range(len(phases)))
        carrier.ingest(container, *(scan(tracking, phase, at) for phase, at in zip(phases, moments, strict=True)))


def settled(container: Container) -> list[bool]:
    return [row.settled_at is not None for row in batch_rows(container)]


def only_item(container: Container, order: Order) -> sa.Row[Any]:
    [piece] = item_rows(container, order)
    return piece


def inferred_order(container: Container, clock: Clock, caller: Caller) -> Order:
    order = mailed_order(container, caller)
    seen(container, order, "3a")
    clock.advance(days=4)
    close(container, **AFTER_SORTING)
    assert statuses(container, order) == ["Delivered"]
    return order


def test_a_delivery_is_inferred_days_after_it_was_sorted(container: Container, clock: Clock, caller: Caller) -> None:
    order = mailed_order(container, caller)
    clock.advance(days=2)
    seen(container, order, "1", "3a")
    clock.advance(days=3)
    close(container, **AFTER_SORTING)
    close(container, **NEVER)
    assert (statuses(container, order), settled(container)) == (["Processed for Delivery"], [False])
    clock.advance(hours=1)
    close(container, **AFTER_SORTING)
    piece, fact = only_item(container, order), [row for row in fact_rows(container, order) if row.item_id][-1]
    assert (piece.status, piece.delivery_date, piece.delivery_inferred) == ("Delivered", date(2026, 5, 6), True)
    assert (fact.current, fact.inferred, fact.seen_at) == ("Delivered", True, None)
    assert (order_row(container, order).status, settled(container)) == ("fulfilled", [True])


def test_nothing_is_inferred_unwanted_or_of_a_moving_piece(container: Container, clock: Clock, caller: Caller) -> None:
    order = mailed_order(container, caller)
    seen(container, order, "3a")
    clock.advance(days=100)
    close(container, **NEVER)
    assert (statuses(container, order), settled(container)) == (["Processed for Delivery"], [False])
    order = mailed_order(container, caller)
    seen(container, order, "pars")
    clock.advance(days=25)
    seen(container, order, "pars", "99z")
    clock.advance(days=10)
    close(container, **AFTER_SILENCE)
    assert statuses(container, order) == ["Re-routed"]
    seen(container, order, "1")
    assert statuses(container, order) == ["In Transit"]


def test_a_delivery_is_inferred_after_a_long_silence(container: Container, clock: Clock, caller: Caller) -> None:
    sightings = (["1"], ["1", "2"], ["3a"], ["99z"])
    unseen, *several = (mailed_order(container, caller) for _ in range(1 + len(sightings)))
    clock.advance(days=5)
    for order, phases in zip(several, sightings, strict=True):
        seen(container, order, *phases)
    clock.advance(days=15, hours=-1)
    close(container, **AFTER_SILENCE)
    assert statuses(container, unseen) == ["Printed"]
    clock.advance(hours=3)
    close(container, **AFTER_SILENCE)
    assert (statuses(container, unseen), only_item(container, unseen).delivery_date) == (
        ["Delivered"], container.clock().date(),
    )  # fmt: skip
    clock.advance(days=5, hours=-3)
    close(container, **AFTER_SILENCE)
    assert all(statuses(container, order) != ["Delivered"] for order in several)
    clock.advance(hours=3)
    close(container, **AFTER_SILENCE)
    for order, phases in zip(several, sightings, strict=True):
        piece = only_item(container, order)
        day = date(2026, 5, 9) if phases == ["3a"] else container.clock().date()
        assert (piece.status, piece.delivery_date, piece.delivery_inferred) == ("Delivered", day, True), phases


def test_what_is_seen_later_confirms_an_inferred_delivery(container: Container, clock: Clock, caller: Caller) -> None:
    order = inferred_order(container, clock, caller)
    before = carrier.item_statuses_recorded(container, order)
    seen(container, order, "2", "pars")
    piece = only_item(container, order)
    assert (piece.status, piece.delivery_inferred) == ("Delivered", True), "a late word on the way changes nothing"
    seen(container, order, "4c")
    piece = only_item(container, order)
    assert (piece.status, piece.delivery_date, piece.delivery_inferred) == ("Delivered", date(2026, 5, 8), False)
    assert carrier.item_statuses_recorded(container, order) == before


def test_a_return_overrides_an_inferred_delivery_alone(container: Container, clock: Clock, caller: Caller) -> None:
    delivered = mailed_order(container, caller)
    seen(container, delivered, "3a", "4c")
    inferred = inferred_order(container, clock, caller)
    for order in (inferred, delivered):
        [tracking] = carrier.tracking_codes(container, order)
        carrier.ingest(container, scan(tracking, "returned", container.clock(), reason="Vacant"))
    assert statuses(container, delivered) == ["Delivered"]
    piece, row = only_item(container, inferred), order_row(container, inferred)
    assert (piece.status, piece.failure, piece.delivery_date) == ("Returned to Sender", "Vacant", None)
    assert not piece.delivery_inferred
    assert (row.n_delivered, row.n_returned_to_sender, row.status) == (0, 1, "fulfilled")


def test_a_lost_re_routed_piece_stays_so_and_its_order_ends(container: Container, clock: Clock, caller: Caller) -> None:
    order = mailed_order(container, caller, 2)
    first, second = carrier.tracking_codes(container, order)
    carrier.ingest(container, scan(first, "pars", container.clock()), scan(second, "4c", container.clock()))
    clock.advance(days=29)
    close(container)
    assert order_row(container, order).status == "mailed"
    clock.advance(days=1)
    close(container)
    close(container)
    row = order_row(container, order)
    assert (row.status, row.n_over, row.n_re_routed) == ("fulfilled", 1, 1)
    assert [piece.is_over for piece in item_rows(container, order)] == [True, False]
    assert len([fact for fact in fact_rows(container, order) if fact.current == "fulfilled"]) == 1
    assert settled(container) == [True]
    carrier.ingest(container, scan(first, "1", container.clock()))
    assert statuses(container, order) == ["Re-routed", "Delivered"]


def test_a_batch_is_settled_once_nothing_is_on_its_way(container: Container, clock: Clock, caller: Caller) -> None:
    """What went abroad is neither inferred nor waited for."""
    abroad = create_order(container, caller, [person(country="CA", postal_code="K1A 0B1", province="ON")])
    carrier.mail_order(container, abroad)
    arrived, waiting = mailed_order(container, caller, 2), mailed_order(container, caller)
    seen(container, arrived, "4c")
    clock.advance(days=2)
    close(container, **AFTER_SILENCE)
    assert settled(container) == [True, True, False]
    clock.advance(days=tracking_tasks.MAX_TRACKED_TIME.days)
    close(container)
    assert settled(container) == [True, True, True]
    assert statuses(container, abroad) == statuses(container, waiting) == ["Printed"]


def test_pieces_are_looked_at_only_by_what_can_be_due(
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailed_order(container, caller)
    rules_run: list[tracking_tasks.ClosingRule] = []
    sorted_ones, unseen = tracking_tasks.INFER_SORTED, tracking_tasks.INFER_UNSEEN

    def run(rule: tracking_tasks.ClosingRule, *_: object, **__: object) -> int:
        rules_run.append(rule)
        return 0

    monkeypatch.setattr(tracking_tasks.ClosingRule, "run", run)
    cases: list[tuple[int, dict[str, Any], list[tracking_tasks.ClosingRule]]] = [
        (2, EITHER, []), (4, EITHER, [sorted_ones]), (21, EITHER, [sorted_ones, unseen]), (21, AFTER_SILENCE, [unseen]),
        (29, NEVER, []), (31, NEVER, [tracking_tasks.END_REROUTED]),
    ]  # fmt: skip
    day = 0
    for days, how, looked in cases:
        clock.advance(days=days - day)
        day = days
        close(container, **how)
        assert rules_run == looked, (days, how)
        rules_run.clear()


def test_a_piece_scanned_meanwhile_is_not_closed(
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = mailed_order(container, caller)
    clock.advance(days=21)
    usual = tracking_tasks.INFER_UNSEEN._end_statement.run

    def after_a_scan(*args: Any, **more: Any) -> int:
        seen(container, order, "1")
        return usual(*args, **more)

    monkeypatch.setattr(tracking_tasks.INFER_UNSEEN._end_statement, "run", after_a_scan)
    close(container, **AFTER_SILENCE)
    assert statuses(container, order) == ["In Transit"]


def test_many_orders_are_closed_a_few_at_a_time(
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking_tasks, "BATCHES_AT_ONCE", 2)
    several = [mailed_order(container, caller, pieces) for pieces in (1, 1, 1, 1, 20)]
    clock.advance(days=21)
    close(container, **AFTER_SILENCE)
    assert all(set(statuses(container, order)) == {"Delivered"} for order in several)
    assert settled(container) == [True] * 5
    row = order_row(container, several[-1])
    assert (row.n_delivered, row.n_printed, row.status) == (20, 0, "fulfilled")


@pytest.mark.parametrize(("wait", "booked"), [(timedelta(seconds=20), 1), (timedelta(days=3), 0)])
def test_a_short_wait_is_checked_again_soon(container: Container, caller: Caller, wait: timedelta, booked: int) -> None:
    mailed_order(container, caller)
    close(container, infer_delivery_after=wait)
    looks = "select count(*) from procrastinate_jobs where task_name = 'tracking.close_items'"
    assert scalar(container, looks) == booked
