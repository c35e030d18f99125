"""Carrier scans: how they are read, and what they make of an item."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from io import BytesIO
from itertools import pairwise

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.fulfillment import batches, prints
from quillpost.fulfillment.tracking import service as tracking_service
from quillpost.fulfillment.tracking.rules import OPERATION_PHASES, PHASES, Scan, choose_reason, parse_phase, scan_digest
from quillpost.orders.models import Order
from quillpost.orders.rules import NEXT_STATUSES, ItemStatus
from support import production as carrier
from support.factories import Clock, people
from support.orders import create_order, fact_rows, item_ids, item_rows, order_row
from support.production import (
    carrier_scan_rows,
    ingest,
    item_statuses_recorded,
    mailed_order,
    scan,
    scan_journey,
    statuses,
    tracking_codes,
)
from support.rows import execute

pytestmark = pytest.mark.usefixtures("clean_database")

STATUSES = ["Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered"]
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
S = ItemStatus

EVIDENCE: dict[ItemStatus | None, tuple[str, ...]] = {
    S.IN_TRANSIT: ("0", "1", "1a", "Phase 1b - Origin Secondary Processing"), S.IN_LOCAL_AREA: ("2", "2c"),
    S.PROCESSED_FOR_DELIVERY: ("3a", "3C", "Phase 3a", "PHASE 3c- Destination Sequenced Carrier Sortation"),
    S.DELIVERED: (" phase 4c ",), S.RE_ROUTED: ("PARS", "FPARS Processing"), S.RETURNED_TO_SENDER: ("returned",),
    S.FAILED: ("destroyed",), None: ("Miscellaneous", "Foreign Processing", "", "5", "1d", "11", "phase"),
}  # fmt: skip
ROWS = [
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
]


def test_a_phase_is_evidence_of_a_status_and_the_rest_of_a_row_counts_where_it_is_no_number() -> None:
    for status, phases in EVIDENCE.items():
        for phase in phases:
            assert PHASES.get(parse_phase(phase)) is status, phase
    for phase, operation, words, found in ROWS:
        assert parse_phase(phase, operation, words) == found, (phase, operation, words)
    assert set(OPERATION_PHASES.values()) <= PHASES.keys()
    assert all(len(operation) == 3 and operation.isdigit() for operation in OPERATION_PHASES)


def test_a_sighting_has_one_digest_wherever_its_clock_stands_and_the_carrier_s_reason_first() -> None:
    first, there = Scan("0" * 20, "1", NOON, "{}"), NOON.astimezone(timezone(timedelta(hours=-5)))
    assert scan_digest(first._replace(at=there, raw='{"facility": "Austin"}')) == scan_digest(first)
    others = ({"phase": "2"}, {"tracking": "1" * 20}, {"at": NOON + timedelta(seconds=1)})
    sightings = [first, *(first._replace(**other) for other in others)]
    assert len({scan_digest(sighting) for sighting in sightings}) == len(sightings)
    reasons = {
        ("returned", "Vacant"): "Vacant", ("returned", None): "Returned by the postal service",
        ("destroyed", ""): "Lost in the mail", ("pars", "Moved"): "Moved",
        ("1", "Sorted"): None, ("99z", "Sorted"): None,
    }  # fmt: skip
    assert {given: choose_reason(*given) for given in reasons} == reasons


@pytest.mark.parametrize("arrival", ["one by one", "together", "in disorder"])
def test_each_scan_moves_the_piece_on(container: Container, caller: Caller, arrival: str) -> None:
    order = mailed_order(container, caller)
    scans = scan_journey(container, *tracking_codes(container, order))
    if arrival == "one by one":
        assert [ingest(container, sighting) for sighting in scans] == [1] * 4
    else:
        assert ingest(container, *(scans if arrival == "together" else reversed(scans))) == 4
    assert carrier.item_statuses_recorded(container, order) == STATUSES
    assert item_rows(container, order)[0].delivery_date == date(2026, 5, 8)
    assert order_row(container, order).status == "fulfilled"
    assert [ingest(container, *scans), ingest(container, scans[0], scans[0])] == [0, 0], "nothing is new"
    assert (carrier.item_statuses_recorded(container, order), len(carrier_scan_rows(container))) == (STATUSES, 4)


def test_pieces_of_one_poll_do_not_mix_and_repeated_reports_count_once(container: Container, caller: Caller) -> None:
    order = mailed_order(container, caller, 3)
    first, second, _ = tracking_codes(container, order)
    transit = scan_journey(container, second)[0]
    assert ingest(container, *scan_journey(container, first), transit, transit) == 5, "twice in a report is once"
    assert statuses(container, order) == ["Delivered", "In Transit", "Printed"]
    order = mailed_order(container, caller, 20)
    scans = [seen for tracking in tracking_codes(container, order) for seen in scan_journey(container, tracking)]
    with ThreadPoolExecutor(2) as pool:
        new = list(pool.map(lambda _: ingest(container, *scans), range(2)))
    assert (sum(new), len(carrier.item_statuses_recorded(container, order))) == (len(scans), 20 * len(STATUSES))


def test_a_late_scan_or_one_without_meaning_is_kept_and_moves_nothing(container: Container, caller: Caller) -> None:
    order = mailed_order(container, caller)
    [tracking] = tracking_codes(container, order)
    transit, local, _, _ = scan_journey(container, tracking)
    unknown = scan(tracking, "99z", container.clock(), facility="Austin", place="Austin, TX")
    nobodys = scan("00310555555000000001", "4c", container.clock())
    for sighting in (unknown, nobodys):
        assert (ingest(container, sighting), statuses(container, order)) == (1, ["Printed"])
    ingest(container, local)
    assert (ingest(container, transit), statuses(container, order)) == (1, ["In Local Area"])
    kept, [piece] = carrier_scan_rows(container), item_ids(container, order)
    assert [(row.phase, row.item_id) for row in kept] == [("99z", piece), ("4c", None), ("2", piece), ("1", piece)]
    assert (kept[0].raw, kept[0].place) == ({"imb": tracking, "facility": "Austin"}, "Austin, TX")


def test_a_scan_of_paper_unhanded_or_replaced_moves_no_piece(container: Container, caller: Caller) -> None:
    replaced, unhanded = mailed_order(container, caller), mailed_order(container, caller)
    execute(container, sa.update(prints).where(prints.c.item_id.in_(item_ids(container, replaced))).values(
        superseded=True
    ))  # fmt: skip
    newest = sa.select(sa.func.max(batches.c.id)).scalar_subquery()
    none = {"status": "composed", "handed_at": None, "mailed_at": None}
    execute(container, sa.update(batches).where(batches.c.id == newest).values(**none))
    for order in (replaced, unhanded):
        assert ingest(container, *scan_journey(container, *tracking_codes(container, order))) == 4
        assert statuses(container, order) == ["Printed"]
    assert [row.item_id for row in carrier_scan_rows(container)][4:] == [None] * 4


@pytest.mark.parametrize(
    ("hours_before", "is_handed", "meant"), [(0, True, "new"), (23, True, "new"), (25, True, "old"), (0, False, "old")]
)
def test_a_barcode_that_returns_means_the_newer_piece_once_it_is_mailed(
    container: Container, clock: Clock, caller: Caller, hours_before: int, is_handed: bool, meant: str
) -> None:
    """Within a day it may be the carrier's clock that is slow."""
    old = mailed_order(container, caller)
    [tracking] = tracking_codes(container, old)
    clock.advance(days=46)
    new = mailed_order(container, caller)
    own = prints.c.item_id.in_(item_ids(container, new))
    execute(container, sa.update(prints).where(own).values(tracking=tracking))
    if not is_handed:
        newest = sa.select(sa.func.max(batches.c.id)).scalar_subquery()
        execute(container, sa.update(batches).where(batches.c.id == newest).values(handed_at=None))
    ingest(container, scan(tracking, "1", container.clock() - timedelta(hours=hours_before)))
    moved = {"old": statuses(container, old), "new": statuses(container, new)}
    assert moved == {"old": ["Printed"], "new": ["Printed"]} | {meant: ["In Transit"]}


def test_a_piece_ordered_or_mailed_long_ago_still_moves(container: Container, clock: Clock, caller: Caller) -> None:
    order = create_order(container, caller, people(1))
    clock.advance(days=365)
    carrier.mail_order(container, order)
    clock.advance(days=90)
    ingest(container, *scan_journey(container, *tracking_codes(container, order)))
    assert statuses(container, order) == ["Delivered"]


def test_a_time_with_an_offset_that_the_database_does_not_take_is_kept(container: Container, caller: Caller) -> None:
    offsets = ("+20:00", "-20:00", "+05:30:15.123456")
    order = mailed_order(container, caller, len(offsets))
    moments = [datetime.fromisoformat(f"2026-05-08T23:30:00{offset}") for offset in offsets]
    for tracking, seen in zip(tracking_codes(container, order), moments, strict=True):
        assert ingest(container, scan(tracking, "4c", seen)) == 1
    # The day is the carrier's own.
    assert {piece.delivery_date for piece in item_rows(container, order)} == {date(2026, 5, 8)}
    assert [row.scanned_at for row in carrier_scan_rows(container)] == moments


def test_what_went_wrong_is_recorded_with_time_and_place(container: Container, caller: Caller) -> None:
    cases = (
        ("destroyed", "Burnt", "Failed", "Burnt"),
        ("returned", "Vacant", "Returned to Sender", "Vacant"),
        ("pars", "Moved", "Re-routed", None),
    )
    seen, place = container.clock() + timedelta(days=3), "Austin, TX 78710"
    for phase, reason, status, failure in cases:
        order = mailed_order(container, caller)
        [tracking] = tracking_codes(container, order)
        ingest(container, scan(tracking, phase, seen, reason=reason, place=place))
        [piece], facts = item_rows(container, order), fact_rows(container, order)
        fact = [row for row in facts if row.item_id is not None][-1]
        assert (piece.status, piece.failure, piece.delivery_date) == (status, failure, None)
        assert (fact.current, fact.reason, fact.seen_at, fact.place) == (status, reason, seen, place)
        assert (fact.at, fact.inferred) == (container.clock(), False)


# Files


def take_in(container: Container, scans: Sequence[Scan], *, days: int) -> tracking_service.ScanImportResult:
    events = [{"imb": each.tracking, "mailPhase": each.phase, "scanDatetime": each.at.isoformat()} for each in scans]
    source = BytesIO(json.dumps({"events": events}).encode())
    return tracking_service.import_scan_file(container.db, source, now=container.clock() + timedelta(days=days))


def test_a_long_report_is_ingested_in_parts_and_summed_up_as_a_whole(
    container: Container, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = mailed_order(container, caller, 3)
    scans = [seen for tracking in tracking_codes(container, order) for seen in scan_journey(container, tracking)]
    monkeypatch.setattr(tracking_service, "SCANS_PER_TRANSACTION", 5)
    taken = take_in(container, scans, days=len(carrier.JOURNEY))
    assert (taken.rows, taken.new, taken.matched, taken.moved[S.DELIVERED]) == (12, 12, 12, 3)
    assert statuses(container, order) == ["Delivered"] * 3
    again = take_in(container, scans, days=len(carrier.JOURNEY))
    assert (again.rows, again.new, again.matched, again.moved) == (12, 0, 0, {})


def test_whatever_else_a_row_holds_is_kept(container: Container, caller: Caller, subtests: pytest.Subtests) -> None:
    odd_values = (
        r'"\u0000 and \ud800"', r'"back\\slash, \t tab, \n line, \" quote"', '"plain \\\\N and é"', "NaN",
        "1e999", "-0", "9" * 5_000, "[" * 500 + "]" * 500, '{"a": {"b": [1, 2.5, null]}}', '""',
    )  # fmt: skip
    order = mailed_order(container, caller, len(odd_values))
    now = container.clock() + timedelta(days=2)
    for tracking, odd in zip(tracking_codes(container, order), odd_values, strict=True):
        with subtests.test(odd=odd[:40]):
            row = f'{{"imb": "{tracking}", "scanDatetime": "2026-05-06T12:00:00Z", "mailPhase": "2", "city": {odd}}}'
            taken = tracking_service.import_scan_file(container.db, BytesIO(f"[{row}]".encode()), now=now)
            assert (taken.new, taken.matched, taken.bad_count) == (1, 1, 0)
            assert carrier_scan_rows(container)[-1].raw.keys() == {"imb", "scanDatetime", "mailPhase", "city"}
    assert set(statuses(container, order)) == {"In Local Area"}


def test_a_scan_of_the_day_after_tomorrow_is_passed_over(container: Container, caller: Caller) -> None:
    order = mailed_order(container, caller, 2)
    soon = (timedelta(hours=12), timedelta(days=2))
    scans = [
        scan(code, "Phase 4c", container.clock() + wait)
        for code, wait in zip(tracking_codes(container, order), soon, strict=True)
    ]
    taken = take_in(container, scans, days=0)
    assert (taken.new, taken.bad_count) == (1, 1)
    assert "future" in taken.bad_rows[0].reason
    assert statuses(container, order) == ["Delivered", "Printed"]


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
    shuffled = draw(st.permutations(seen + draw(st.lists(st.sampled_from(seen), max_size=3))))
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
    assert (moments, statuses(container, order)) == (sorted(moments), [expected(seen)])


@pytest.fixture
def order(container: Container, caller: Caller) -> Order:
    return mailed_order(container, caller)


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
