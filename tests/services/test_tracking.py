"""Carrier scans as they come: late, twice, out of order, or of somebody else's mail."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from io import BytesIO

import pytest
import sqlalchemy as sa
from placing import fact_rows, item_rows, open_account, order_row, place
from travelling import JOURNEY, codes, ingest, journey, kept, mail, mailed, scan, statuses, told

from makers import Clock, people
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.print_room import batches, prints
from quillpost.fulfillment.tracking import service as tracking_service
from quillpost.fulfillment.tracking.rules import Scan
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus

TOLD = ["Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered"]


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


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
    assert ingest(parts, scan(tracking, "99z", parts.clock(), facility="Austin", place="Austin, TX")) == 1
    assert statuses(parts, order) == ["Printed"]
    [row] = kept(parts)
    assert (row.raw, row.place) == ({"imb": tracking, "facility": "Austin"}, "Austin, TX")
    with parts.db.work() as tx:
        assert row.item_id == item_rows(tx, order)[0].id


def test_somebody_else_s_barcode_is_kept_and_belongs_to_no_piece(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner)
    ingest(parts, scan("00310555555000000001", "4c", parts.clock()))
    assert statuses(parts, order) == ["Printed"]
    assert [row.item_id for row in kept(parts)] == [None]


def mailed_with_one_code(parts: Parts, clock: Clock, owner: Caller) -> tuple[Order, Order, str]:
    """An old order and a new one, of a piece each, and the barcode that both had: it may return by then."""
    old = mailed(parts, owner)
    [tracking] = codes(parts, old)
    clock.advance(days=46)
    new = mailed(parts, owner)
    own = sa.select(items.c.id).where(items.c.order_id == new.id)
    with parts.db.work() as tx:
        tx.execute(sa.update(prints).where(prints.c.item_id.in_(own)).values(tracking=tracking))
    return old, new, tracking


def test_a_barcode_that_returns_means_the_newer_piece(parts: Parts, clock: Clock, owner: Caller) -> None:
    old, new, tracking = mailed_with_one_code(parts, clock, owner)
    ingest(parts, scan(tracking, "1", parts.clock()))
    assert (statuses(parts, old), statuses(parts, new)) == (["Printed"], ["In Transit"])


@pytest.mark.parametrize(("hours_before", "meant"), [(23, "new"), (25, "old")])
def test_a_scan_from_before_a_barcode_returned_means_the_older_piece(
    parts: Parts, clock: Clock, owner: Caller, hours_before: int, meant: str
) -> None:
    """Within a day it may be the carrier's clock that is slow."""
    old, new, tracking = mailed_with_one_code(parts, clock, owner)
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


@pytest.mark.parametrize("offset", ["+20:00", "-20:00", "+05:30:15.123456"])
def test_a_time_with_an_offset_that_the_database_does_not_take_is_kept(
    parts: Parts, owner: Caller, offset: str
) -> None:
    order = mailed(parts, owner)
    [tracking] = codes(parts, order)
    seen = datetime.fromisoformat(f"2026-05-08T23:30:00{offset}")
    assert ingest(parts, scan(tracking, "4c", seen)) == 1
    with parts.db.work() as tx:
        # The day is the carrier's own.
        assert item_rows(tx, order)[0].delivery_date == date(2026, 5, 8)
    assert [row.scanned_at for row in kept(parts)] == [seen]


def test_a_scan_of_paper_that_nobody_has_means_no_piece(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner)
    with parts.db.work() as tx:
        tx.execute(sa.update(batches).values(status="composed", handed_at=None, mailed_at=None))
    assert ingest(parts, *journey(parts, *codes(parts, order))) == 4
    assert statuses(parts, order) == ["Printed"]
    assert [row.item_id for row in kept(parts)] == [None] * 4


def test_a_barcode_whose_new_paper_nobody_has_means_the_older_piece(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    old, new, tracking = mailed_with_one_code(parts, clock, owner)
    with parts.db.work() as tx:
        newest = sa.select(sa.func.max(batches.c.id)).scalar_subquery()
        tx.execute(sa.update(batches).where(batches.c.id == newest).values(handed_at=None))
    ingest(parts, scan(tracking, "1", parts.clock()))
    assert (statuses(parts, old), statuses(parts, new)) == (["In Transit"], ["Printed"])


def test_a_piece_seen_long_after_it_was_mailed_still_moves(parts: Parts, clock: Clock, owner: Caller) -> None:
    order = mailed(parts, owner)
    [tracking] = codes(parts, order)
    clock.advance(days=90)
    ingest(parts, scan(tracking, "1", parts.clock()))
    assert statuses(parts, order) == ["In Transit"]


@pytest.mark.parametrize(
    ("phase", "reason", "status", "failure"),
    [
        ("destroyed", "Burnt", "Failed", "Burnt"),
        ("returned", "Vacant", "Returned to Sender", "Vacant"),
        ("pars", "Moved", "Re-routed", None),
    ],
)
def test_what_went_wrong_is_said_with_when_and_where(
    parts: Parts, owner: Caller, phase: str, reason: str, status: str, failure: str | None
) -> None:
    order = mailed(parts, owner)
    [tracking] = codes(parts, order)
    seen = parts.clock() + timedelta(days=3)
    ingest(parts, scan(tracking, phase, seen, reason=reason, place="Austin, TX 78710"))
    with parts.db.work() as tx:
        [piece] = item_rows(tx, order)
        fact = [row for row in fact_rows(tx, order) if row.item_id is not None][-1]
    assert (piece.status, piece.failure, piece.delivery_date) == (status, failure, None)
    assert (fact.current, fact.reason, fact.seen_at, fact.place) == (
        status,
        reason,
        seen,
        "Austin, TX 78710",
    )
    assert (fact.at, fact.inferred) == (parts.clock(), False)


def test_the_same_report_taken_in_twice_at_once_is_told_once(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner, 20)
    scans = [sighting for tracking in codes(parts, order) for sighting in journey(parts, tracking)]
    with ThreadPoolExecutor(2) as pool:
        new = list(pool.map(lambda _: ingest(parts, *scans), range(2)))
    assert sum(new) == len(scans)
    assert len(told(parts, order)) == 20 * len(TOLD)


def test_paper_that_a_later_edition_has_replaced_moves_nothing(parts: Parts, owner: Caller) -> None:
    order = mailed(parts, owner)
    [tracking] = codes(parts, order)
    with parts.db.work() as tx:
        tx.execute(sa.update(prints).values(superseded=True))
    assert ingest(parts, *journey(parts, tracking)) == 4
    assert statuses(parts, order) == ["Printed"]


def test_a_long_report_is_taken_in_by_parts_and_told_as_a_whole(
    parts: Parts, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = mailed(parts, owner, 3)
    scans = [sighting for tracking in codes(parts, order) for sighting in journey(parts, tracking)]
    monkeypatch.setattr(tracking_service, "CHUNK", 5)
    taken = take_in(parts, scans)
    assert (taken.rows, taken.new, taken.ours, taken.moved[ItemStatus.DELIVERED]) == (12, 12, 12, 3)
    assert statuses(parts, order) == ["Delivered"] * 3
    again = take_in(parts, scans)
    assert (again.rows, again.new, again.ours, again.moved) == (12, 0, 0, {})


def take_in(parts: Parts, scans: Sequence[Scan]) -> tracking_service.TakenIn:
    events = [
        {"imb": each.tracking, "mailPhase": each.phase, "scanDatetime": each.at.isoformat()} for each in scans
    ]
    source = BytesIO(json.dumps({"events": events}).encode())
    return tracking_service.take_in(parts.db, source, now=parts.clock() + timedelta(days=len(JOURNEY)))


@pytest.mark.parametrize(
    "odd",
    [
        r'"\u0000 and \ud800"',
        r'"back\\slash, \t tab, \n line, \" quote"',
        '"plain \\\\N and é"',
        "1e999",
        "-0",
        "NaN",
        "9" * 5_000,
        "[" * 500 + "]" * 500,
        '{"a": {"b": [1, 2.5, null]}}',
        '""',
    ],
)
def test_whatever_else_a_row_holds_is_kept(parts: Parts, owner: Caller, odd: str) -> None:
    order = mailed(parts, owner)
    [tracking] = codes(parts, order)
    row = f'{{"imb": "{tracking}", "scanDatetime": "2026-05-06T12:00:00Z", "mailPhase": "2", "city": {odd}}}'
    taken = tracking_service.take_in(
        parts.db, BytesIO(f"[{row}]".encode()), now=parts.clock() + timedelta(days=2)
    )
    assert (taken.new, taken.ours, taken.bad) == (1, 1, 0)
    assert statuses(parts, order) == ["In Local Area"]
    assert kept(parts)[0].raw.keys() == {"imb", "scanDatetime", "mailPhase", "city"}


def test_a_scan_of_the_day_after_tomorrow_is_passed_over(parts: Parts, clock: Clock, owner: Caller) -> None:
    order = mailed(parts, owner, 2)
    [first, second] = codes(parts, order)
    moments = [clock.now() + timedelta(hours=12), clock.now() + timedelta(days=2)]
    events = [
        {"imb": code, "mailPhase": "Phase 4c", "scanDatetime": at.isoformat()}
        for code, at in zip((first, second), moments, strict=True)
    ]
    taken = tracking_service.take_in(
        parts.db, BytesIO(json.dumps({"events": events}).encode()), now=clock.now()
    )
    assert (taken.new, taken.bad) == (1, 1)
    assert "future" in taken.refused[0].reason
    assert statuses(parts, order) == ["Delivered", "Printed"]
