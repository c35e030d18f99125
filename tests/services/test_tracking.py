"""Carrier scans as they come: late, twice, out of order, or of somebody else's mail."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from placing import fact_rows, item_rows, open_account, order_row, place

from makers import Clock, people
from quillpost.accounts.rules import Caller
from quillpost.database.tables import carrier_scans, items
from quillpost.fulfilment import store
from quillpost.orders.moves import Move, move_items
from quillpost.orders.records import Order
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.store import swap_status
from quillpost.parts import Parts
from quillpost.ports import CarrierReport, CarrierScan
from quillpost.tracking import service

JOURNEY = ("1", "2", "3a", "4c")
TOLD = ["Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered"]


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def mailed(parts: Parts, who: Caller, pieces: int = 1) -> Order:
    """An order whose pieces carry barcodes and are in the mail."""
    order = place(parts, who, people(pieces))
    mail(parts, order)
    return order


def mail(parts: Parts, order: Order) -> None:
    now = parts.clock()
    with parts.db.work() as tx:
        swap_status(tx, [order.id], expected=[OrderStatus.REVIEWING], to=OrderStatus.PROCESSING, now=now)
        store.pool(tx, [order.id], mailer_id="999999", now=now)
        move_items(tx, [Move(piece.id, ItemStatus.PRINTED) for piece in item_rows(tx, order)], now=now)


def codes(parts: Parts, order: Order) -> list[str]:
    with parts.db.work() as tx:
        return [piece.tracking for piece in item_rows(tx, order)]


def scan(tracking: str, phase: str, at: datetime, **raw: object) -> CarrierScan:
    return CarrierScan(tracking, phase, at, {"imb": tracking, **raw})


def journey(parts: Parts, tracking: str) -> list[CarrierScan]:
    """A scan a day until it is delivered."""
    return [
        scan(tracking, phase, parts.clock() + timedelta(days=day))
        for day, phase in enumerate(JOURNEY, start=1)
    ]


def ingest(parts: Parts, *scans: CarrierScan) -> int:
    with parts.db.work() as tx:
        return service.ingest(tx, scans, now=parts.clock())


def statuses(parts: Parts, order: Order) -> list[str]:
    with parts.db.work() as tx:
        return [piece.status for piece in item_rows(tx, order)]


def told(parts: Parts, order: Order) -> list[str]:
    with parts.db.work() as tx:
        return [fact.current for fact in fact_rows(tx, order) if fact.item_id is not None]


def kept(parts: Parts) -> list[sa.Row[Any]]:
    with parts.db.work() as tx:
        return list(tx.execute(sa.select(carrier_scans).order_by(carrier_scans.c.id)).all())


def test_each_scan_moves_the_piece_on(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner)
    for sighting in journey(parts, *codes(parts, order)):
        assert ingest(parts, sighting) == 1
    assert told(parts, order) == TOLD
    with parts.db.work() as tx:
        assert item_rows(tx, order)[0].delivery_date == date(2026, 5, 8)
        assert order_row(tx, order).status == "fulfilled"


def test_scans_that_arrive_together_are_each_told(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner)
    assert ingest(parts, *journey(parts, *codes(parts, order))) == 4
    assert told(parts, order) == TOLD


def test_scans_that_arrive_together_in_disorder_are_told_in_their_order(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner)
    ingest(parts, *reversed(journey(parts, *codes(parts, order))))
    assert told(parts, order) == TOLD


def test_pieces_of_one_poll_do_not_mix(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner, 3)
    first, second, _ = codes(parts, order)
    ingest(parts, *journey(parts, first), *journey(parts, second)[:1])
    assert statuses(parts, order) == ["Delivered", "In Transit", "Printed"]


def test_a_repeated_scan_changes_nothing(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner)
    scans = journey(parts, *codes(parts, order))
    ingest(parts, *scans)
    assert ingest(parts, *scans) == 0
    assert ingest(parts, scans[0], scans[0]) == 0
    assert told(parts, order) == TOLD
    assert len(kept(parts)) == 4


def test_a_scan_twice_in_one_report_is_one_scan(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner)
    first = journey(parts, *codes(parts, order))[0]
    assert ingest(parts, first, first) == 1
    assert told(parts, order) == TOLD[:3]


def test_a_late_scan_changes_nothing_and_is_kept(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner)
    transit, local, _, _ = journey(parts, *codes(parts, order))
    ingest(parts, local)
    assert ingest(parts, transit) == 1
    assert statuses(parts, order) == ["In Local Area"]
    assert [row.phase for row in kept(parts)] == ["2", "1"]


def test_an_unknown_phase_is_kept_and_moves_nothing(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner)
    [tracking] = codes(parts, order)
    assert ingest(parts, scan(tracking, "99z", parts.clock(), facility="Austin")) == 1
    assert statuses(parts, order) == ["Printed"]
    [row] = kept(parts)
    assert row.raw == {"imb": tracking, "facility": "Austin"}
    with parts.db.work() as tx:
        assert row.item_id == item_rows(tx, order)[0].id


def test_somebody_else_s_barcode_is_kept_and_belongs_to_no_piece(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner)
    ingest(parts, scan("00310555555000000001", "4c", parts.clock()))
    assert statuses(parts, order) == ["Printed"]
    assert [row.item_id for row in kept(parts)] == [None]


def test_a_barcode_that_returns_means_the_newer_piece(parts: Parts, clock: Clock, owner: Caller) -> None:
    old = mailed(parts, owner)
    [tracking] = codes(parts, old)
    clock.advance(days=46)
    new = mailed(parts, owner)
    with parts.db.work() as tx:
        tx.execute(sa.update(items).where(items.c.order_id == new.id).values(tracking=tracking))
    ingest(parts, scan(tracking, "1", parts.clock()))
    assert (statuses(parts, old), statuses(parts, new)) == (["Printed"], ["In Transit"])


@pytest.mark.parametrize(("hours_before", "meant"), [(23, "new"), (25, "old")])
def test_a_scan_from_before_a_barcode_returned_means_the_older_piece(
    parts: Parts, clock: Clock, owner: Caller, hours_before: int, meant: str
) -> None:
    """Within a day it may be the carrier's clock that is slow."""
    old = mailed(parts, owner)
    [tracking] = codes(parts, old)
    clock.advance(days=46)
    new = mailed(parts, owner)
    with parts.db.work() as tx:
        tx.execute(sa.update(items).where(items.c.order_id == new.id).values(tracking=tracking))
    ingest(parts, scan(tracking, "1", parts.clock() - timedelta(hours=hours_before)))
    moved = {"old": statuses(parts, old), "new": statuses(parts, new)}
    assert [name for name, status in moved.items() if status == ["In Transit"]] == [meant]


def test_a_piece_that_was_ordered_a_year_before_it_was_mailed_is_followed(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    order = place(parts, owner, people(1))
    clock.advance(days=365)
    mail(parts, order)
    ingest(parts, *journey(parts, *codes(parts, order)))
    assert statuses(parts, order) == ["Delivered"]


def test_a_piece_seen_long_after_it_was_mailed_still_moves(parts: Parts, clock: Clock, owner: Caller) -> None:
    order = mailed(parts, owner)
    clock.advance(days=90)
    ingest(parts, scan(*codes(parts, order), "1", parts.clock()))
    assert statuses(parts, order) == ["In Transit"]


@pytest.mark.parametrize(
    ("phase", "raw", "status", "failure"),
    [
        ("destroyed", {}, "Failed", "Lost in the mail"),
        ("destroyed", {"reason": "Burnt"}, "Failed", "Burnt"),
        ("returned", {}, "Returned to Sender", "Returned by the postal service"),
        ("PARS", {"reason": "Moved"}, "Re-routed", None),
    ],
)
def test_what_went_wrong_is_said(
    parts: Parts, owner: Caller, phase: str, raw: dict[str, Any], status: str, failure: str | None
) -> None:
    order = mailed(parts, owner)
    [tracking] = codes(parts, order)
    ingest(parts, scan(tracking, phase, parts.clock(), **raw))
    with parts.db.work() as tx:
        [piece] = item_rows(tx, order)
    assert (piece.status, piece.failure, piece.delivery_date) == (status, failure, None)


def test_the_same_report_taken_in_twice_at_once_is_told_once(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner, 20)
    scans = [sighting for tracking in codes(parts, order) for sighting in journey(parts, tracking)]
    with ThreadPoolExecutor(2) as pool:
        new = list(pool.map(lambda _: ingest(parts, *scans), range(2)))
    assert sum(new) == len(scans)
    assert len(told(parts, order)) == 20 * len(TOLD)


class Feed:
    """A carrier that says what it was told to say."""

    def __init__(self, scans: Sequence[CarrierScan], *, more: bool) -> None:
        self._scans, self._more = scans, more
        self.settled_receipts: list[tuple[str, ...]] = []

    def poll(self, *, now: datetime) -> CarrierReport:
        return CarrierReport(self._scans, receipt=("page 7",), expects_more=self._more)

    def settled(self, receipt: tuple[str, ...]) -> None:
        self.settled_receipts.append(receipt)


@pytest.mark.parametrize("more", [True, False])
def test_a_poll_comes_back_while_pieces_are_on_their_way(parts: Parts, owner: Caller, more: bool) -> None:
    order = mailed(parts, owner)
    feed = Feed(journey(parts, *codes(parts, order))[:2], more=more)
    worlds = {"test": replace(parts.worlds["test"], carrier=feed)}
    service.poll(parts.db, worlds, now=parts.clock())
    assert feed.settled_receipts == [("page 7",)]
    assert statuses(parts, order) == ["In Local Area"]
    with parts.db.work() as tx:
        polls = sa.text("select count(*) from procrastinate_jobs where task_name = 'tracking.poll'")
        assert tx.execute(polls).scalar_one() == more
