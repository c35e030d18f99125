"""Carrier scans: how they are read, and what they make of an item."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from io import BytesIO

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.fulfillment import batches, prints
from quillpost.fulfillment.tracking import service as tracking_service
from quillpost.fulfillment.tracking.rules import OPERATION_PHASES, PHASES, Scan, choose_reason, parse_phase, scan_digest
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from support.carrier_scans import (
    JOURNEY,
    carrier_scan_rows,
    ingest,
    item_statuses_recorded,
    mail_order,
    mailed_order,
    scan,
    scan_journey,
    statuses,
    tracking_codes,
)
from support.factories import Clock, people
from support.orders import create_order, fact_rows, item_rows, open_account, order_row

pytestmark = pytest.mark.usefixtures("clean_database")

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def read_scan(phase: str = "1", *, tracking: str = "0" * 20, at: datetime = NOON, raw: str = "{}") -> Scan:
    return Scan(tracking, phase, at, raw)


@pytest.mark.parametrize(
    ("phase", "status"),
    [
        ("0", ItemStatus.IN_TRANSIT),
        ("1", ItemStatus.IN_TRANSIT),
        ("1a", ItemStatus.IN_TRANSIT),
        ("Phase 1b - Origin Secondary Processing", ItemStatus.IN_TRANSIT),
        ("2", ItemStatus.IN_LOCAL_AREA),
        ("2c", ItemStatus.IN_LOCAL_AREA),
        ("3a", ItemStatus.PROCESSED_FOR_DELIVERY),
        ("3C", ItemStatus.PROCESSED_FOR_DELIVERY),
        ("Phase 3a", ItemStatus.PROCESSED_FOR_DELIVERY),
        ("PHASE 3c- Destination Sequenced Carrier Sortation", ItemStatus.PROCESSED_FOR_DELIVERY),
        (" phase 4c ", ItemStatus.DELIVERED),
        ("PARS", ItemStatus.RE_ROUTED),
        ("FPARS Processing", ItemStatus.RE_ROUTED),
        ("returned", ItemStatus.RETURNED_TO_SENDER),
        ("destroyed", ItemStatus.FAILED),
        ("Miscellaneous", None),
        ("Foreign Processing", None),
        ("", None),
        ("5", None),
        ("1d", None),
        ("11", None),
        ("phase", None),
    ],
)
def test_a_phase_is_evidence_of_a_status(phase: str, status: ItemStatus | None) -> None:
    assert PHASES.get(parse_phase(phase)) is status


@pytest.mark.parametrize(
    ("phase", "operation", "words", "found"),
    [
        ("PARS Processing", "", "Return to Sender", "returned"),
        ("PARS", "", "RTS", "returned"),
        ("FPARS", "", "Destroyed as dead mail", "destroyed"),
        ("Miscellaneous", "", "Returned to the mailer", "returned"),
        ("Miscellaneous", "", "Treated as waste", "destroyed"),
        ("Phase 2 - Destination Processing", "", "Return to sender", "2"),  # a number speaks for itself
        ("", "896", "", "3a"),
        ("", "919", "", "3c"),
        ("", "893", "Destroyed", "destroyed"),
        ("Phase 1", "896", "", "1"),
        ("", "777", "", "operation 777"),
        ("", "", "Forwarded", "pars"),
        ("", "", "Logical Delivery Event", "4c"),
        ("", "", "Delivery Confirmation Label", "unknown"),
        ("Miscellaneous", "896", "", "miscellaneous"),
    ],
)
def test_what_else_a_row_says_counts_where_the_phase_is_no_number(
    phase: str, operation: str, words: str, found: str
) -> None:
    assert parse_phase(phase, operation, words) == found


def test_every_operation_belongs_to_a_phase_that_we_know() -> None:
    assert set(OPERATION_PHASES.values()) <= PHASES.keys()
    assert all(len(operation) == 3 and operation.isdigit() for operation in OPERATION_PHASES)


def test_the_same_sighting_has_one_digest_wherever_its_clock_stands() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=-5)))
    assert scan_digest(read_scan(at=there, raw='{"facility": "Austin"}')) == scan_digest(read_scan(at=NOON))


def test_another_piece_phase_or_second_is_another_sighting() -> None:
    sightings = [read_scan(), read_scan("2"), read_scan(tracking="1" * 20), read_scan(at=NOON + timedelta(seconds=1))]
    assert len({scan_digest(sighting) for sighting in sightings}) == len(sightings)


def test_the_carrier_s_own_reason_comes_first() -> None:
    assert choose_reason("returned", "Vacant") == "Vacant"
    assert choose_reason("returned", None) == "Returned by the postal service"
    assert choose_reason("destroyed", "") == "Lost in the mail"
    assert choose_reason("pars", "Moved") == "Moved"
    assert choose_reason("1", "Sorted") is None
    assert choose_reason("99z", "Sorted") is None


STATUSES = ["Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered"]


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def test_each_scan_moves_the_piece_on(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner)
    for sighting in scan_journey(container, *tracking_codes(container, order)):
        assert ingest(container, sighting) == 1
    assert item_statuses_recorded(container, order) == STATUSES
    with container.db.system_transaction() as tx:
        assert item_rows(tx, order)[0].delivery_date == date(2026, 5, 8)
        assert order_row(tx, order).status == "fulfilled"


def test_scans_that_arrive_together_are_each_recorded(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner)
    assert ingest(container, *scan_journey(container, *tracking_codes(container, order))) == 4
    assert item_statuses_recorded(container, order) == STATUSES


def test_unordered_scans_of_one_report_are_recorded_in_their_order(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner)
    ingest(container, *reversed(scan_journey(container, *tracking_codes(container, order))))
    assert item_statuses_recorded(container, order) == STATUSES


def test_pieces_of_one_poll_do_not_mix(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner, 3)
    first, second, _ = tracking_codes(container, order)
    ingest(container, *scan_journey(container, first), *scan_journey(container, second)[:1])
    assert statuses(container, order) == ["Delivered", "In Transit", "Printed"]


def test_a_repeated_scan_changes_nothing(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner)
    scans = scan_journey(container, *tracking_codes(container, order))
    ingest(container, *scans)
    assert ingest(container, *scans) == 0
    assert ingest(container, scans[0], scans[0]) == 0
    assert item_statuses_recorded(container, order) == STATUSES
    assert len(carrier_scan_rows(container)) == 4


def test_a_scan_twice_in_one_report_is_one_scan(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner)
    first = scan_journey(container, *tracking_codes(container, order))[0]
    assert ingest(container, first, first) == 1
    assert item_statuses_recorded(container, order) == STATUSES[:3]


def test_a_late_scan_changes_nothing_and_is_kept(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner)
    transit, local, _, _ = scan_journey(container, *tracking_codes(container, order))
    ingest(container, local)
    assert ingest(container, transit) == 1
    assert statuses(container, order) == ["In Local Area"]
    assert [row.phase for row in carrier_scan_rows(container)] == ["2", "1"]


def test_an_unknown_phase_is_kept_and_moves_nothing(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner)
    [tracking] = tracking_codes(container, order)
    assert ingest(container, scan(tracking, "99z", container.clock(), facility="Austin", place="Austin, TX")) == 1
    assert statuses(container, order) == ["Printed"]
    [row] = carrier_scan_rows(container)
    assert (row.raw, row.place) == ({"imb": tracking, "facility": "Austin"}, "Austin, TX")
    with container.db.system_transaction() as tx:
        assert row.item_id == item_rows(tx, order)[0].id


def test_somebody_else_s_barcode_is_kept_and_belongs_to_no_piece(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner)
    ingest(container, scan("00310555555000000001", "4c", container.clock()))
    assert statuses(container, order) == ["Printed"]
    assert [row.item_id for row in carrier_scan_rows(container)] == [None]


def mailed_with_one_code(container: Container, clock: Clock, owner: Caller) -> tuple[Order, Order, str]:
    """An old order and a new one, of a piece each, and the barcode that both had: it may return by then."""
    old = mailed_order(container, owner)
    [tracking] = tracking_codes(container, old)
    clock.advance(days=46)
    new = mailed_order(container, owner)
    own = sa.select(items.c.id).where(items.c.order_id == new.id)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(prints).where(prints.c.item_id.in_(own)).values(tracking=tracking))
    return old, new, tracking


def test_a_barcode_that_returns_means_the_newer_piece(container: Container, clock: Clock, owner: Caller) -> None:
    old, new, tracking = mailed_with_one_code(container, clock, owner)
    ingest(container, scan(tracking, "1", container.clock()))
    assert (statuses(container, old), statuses(container, new)) == (["Printed"], ["In Transit"])


@pytest.mark.parametrize(("hours_before", "meant"), [(23, "new"), (25, "old")])
def test_a_scan_from_before_a_barcode_returned_means_the_older_piece(
    container: Container, clock: Clock, owner: Caller, hours_before: int, meant: str
) -> None:
    """Within a day it may be the carrier's clock that is slow."""
    old, new, tracking = mailed_with_one_code(container, clock, owner)
    ingest(container, scan(tracking, "1", container.clock() - timedelta(hours=hours_before)))
    moved = {"old": statuses(container, old), "new": statuses(container, new)}
    assert [name for name, status in moved.items() if status == ["In Transit"]] == [meant]


def test_a_piece_that_was_ordered_a_year_before_it_was_mailed_is_followed(
    container: Container, clock: Clock, owner: Caller
) -> None:
    order = create_order(container, owner, people(1))
    clock.advance(days=365)
    mail_order(container, order)
    ingest(container, *scan_journey(container, *tracking_codes(container, order)))
    assert statuses(container, order) == ["Delivered"]


@pytest.mark.parametrize("offset", ["+20:00", "-20:00", "+05:30:15.123456"])
def test_a_time_with_an_offset_that_the_database_does_not_take_is_kept(
    container: Container, owner: Caller, offset: str
) -> None:
    order = mailed_order(container, owner)
    [tracking] = tracking_codes(container, order)
    seen = datetime.fromisoformat(f"2026-05-08T23:30:00{offset}")
    assert ingest(container, scan(tracking, "4c", seen)) == 1
    with container.db.system_transaction() as tx:
        # The day is the carrier's own.
        assert item_rows(tx, order)[0].delivery_date == date(2026, 5, 8)
    assert [row.scanned_at for row in carrier_scan_rows(container)] == [seen]


def test_a_scan_of_paper_that_nobody_has_means_no_piece(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(batches).values(status="composed", handed_at=None, mailed_at=None))
    assert ingest(container, *scan_journey(container, *tracking_codes(container, order))) == 4
    assert statuses(container, order) == ["Printed"]
    assert [row.item_id for row in carrier_scan_rows(container)] == [None] * 4


def test_a_barcode_whose_new_paper_nobody_has_means_the_older_piece(
    container: Container, clock: Clock, owner: Caller
) -> None:
    old, new, tracking = mailed_with_one_code(container, clock, owner)
    with container.db.system_transaction() as tx:
        newest = sa.select(sa.func.max(batches.c.id)).scalar_subquery()
        tx.execute(sa.update(batches).where(batches.c.id == newest).values(handed_at=None))
    ingest(container, scan(tracking, "1", container.clock()))
    assert (statuses(container, old), statuses(container, new)) == (["In Transit"], ["Printed"])


def test_a_piece_seen_long_after_it_was_mailed_still_moves(container: Container, clock: Clock, owner: Caller) -> None:
    order = mailed_order(container, owner)
    [tracking] = tracking_codes(container, order)
    clock.advance(days=90)
    ingest(container, scan(tracking, "1", container.clock()))
    assert statuses(container, order) == ["In Transit"]


@pytest.mark.parametrize(
    ("phase", "reason", "status", "failure"),
    [
        ("destroyed", "Burnt", "Failed", "Burnt"),
        ("returned", "Vacant", "Returned to Sender", "Vacant"),
        ("pars", "Moved", "Re-routed", None),
    ],
)
def test_what_went_wrong_is_recorded_with_time_and_place(
    container: Container, owner: Caller, phase: str, reason: str, status: str, failure: str | None
) -> None:
    order = mailed_order(container, owner)
    [tracking] = tracking_codes(container, order)
    seen = container.clock() + timedelta(days=3)
    ingest(container, scan(tracking, phase, seen, reason=reason, place="Austin, TX 78710"))
    with container.db.system_transaction() as tx:
        [piece] = item_rows(tx, order)
        fact = [row for row in fact_rows(tx, order) if row.item_id is not None][-1]
    assert (piece.status, piece.failure, piece.delivery_date) == (status, failure, None)
    assert (fact.current, fact.reason, fact.seen_at, fact.place) == (status, reason, seen, "Austin, TX 78710")
    assert (fact.at, fact.inferred) == (container.clock(), False)


def test_a_report_ingested_twice_at_once_is_recorded_once(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner, 20)
    scans = [
        sighting for tracking in tracking_codes(container, order) for sighting in scan_journey(container, tracking)
    ]
    with ThreadPoolExecutor(2) as pool:
        new = list(pool.map(lambda _: ingest(container, *scans), range(2)))
    assert sum(new) == len(scans)
    assert len(item_statuses_recorded(container, order)) == 20 * len(STATUSES)


def test_paper_that_a_later_edition_has_replaced_moves_nothing(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner)
    [tracking] = tracking_codes(container, order)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(prints).values(superseded=True))
    assert ingest(container, *scan_journey(container, tracking)) == 4
    assert statuses(container, order) == ["Printed"]


def test_a_long_report_is_ingested_in_parts_and_summed_up_as_a_whole(
    container: Container, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = mailed_order(container, owner, 3)
    scans = [
        sighting for tracking in tracking_codes(container, order) for sighting in scan_journey(container, tracking)
    ]
    monkeypatch.setattr(tracking_service, "SCANS_PER_TRANSACTION", 5)
    taken = take_in(container, scans)
    assert (taken.rows, taken.new, taken.matched, taken.moved[ItemStatus.DELIVERED]) == (12, 12, 12, 3)
    assert statuses(container, order) == ["Delivered"] * 3
    again = take_in(container, scans)
    assert (again.rows, again.new, again.matched, again.moved) == (12, 0, 0, {})


def take_in(container: Container, scans: Sequence[Scan]) -> tracking_service.ScanImportResult:
    events = [{"imb": each.tracking, "mailPhase": each.phase, "scanDatetime": each.at.isoformat()} for each in scans]
    source = BytesIO(json.dumps({"events": events}).encode())
    return tracking_service.import_scan_file(container.db, source, now=container.clock() + timedelta(days=len(JOURNEY)))


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
def test_whatever_else_a_row_holds_is_kept(container: Container, owner: Caller, odd: str) -> None:
    order = mailed_order(container, owner)
    [tracking] = tracking_codes(container, order)
    row = f'{{"imb": "{tracking}", "scanDatetime": "2026-05-06T12:00:00Z", "mailPhase": "2", "city": {odd}}}'
    taken = tracking_service.import_scan_file(
        container.db, BytesIO(f"[{row}]".encode()), now=container.clock() + timedelta(days=2)
    )
    assert (taken.new, taken.matched, taken.bad_count) == (1, 1, 0)
    assert statuses(container, order) == ["In Local Area"]
    assert carrier_scan_rows(container)[0].raw.keys() == {"imb", "scanDatetime", "mailPhase", "city"}


def test_a_scan_of_the_day_after_tomorrow_is_passed_over(container: Container, clock: Clock, owner: Caller) -> None:
    order = mailed_order(container, owner, 2)
    [first, second] = tracking_codes(container, order)
    moments = [clock.now() + timedelta(hours=12), clock.now() + timedelta(days=2)]
    events = [
        {"imb": code, "mailPhase": "Phase 4c", "scanDatetime": at.isoformat()}
        for code, at in zip((first, second), moments, strict=True)
    ]
    taken = tracking_service.import_scan_file(
        container.db, BytesIO(json.dumps({"events": events}).encode()), now=clock.now()
    )
    assert (taken.new, taken.bad_count) == (1, 1)
    assert "future" in taken.bad_rows[0].reason
    assert statuses(container, order) == ["Delivered", "Printed"]
