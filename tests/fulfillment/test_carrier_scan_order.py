"""In whatever order and in whatever portions a carrier reports, a piece comes to stand where its scans in
their own order lead it."""

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.fulfillment.tracking.rules import PHASES
from quillpost.orders.rules import NEXT_STATUSES, ItemStatus
from support.carrier_scans import ingest, item_statuses_recorded, mailed_order, scan, statuses, tracking_codes
from support.orders import fact_rows, open_account

pytestmark = pytest.mark.costly

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


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def expected(seen: Sightings) -> str:
    status = ItemStatus.PRINTED
    for phase, _ in sorted(seen, key=lambda each: each[1]):
        target = PHASES.get(phase)
        if target is not None and target in NEXT_STATUSES[status]:
            status = target
    return status


@given(report=reports())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(report=([("2", 1), ("pars", 2), ("1", 3)], [("1", 3), ("2", 1), ("pars", 2)], [1]))
@example(report=([("3a", 1), ("pars", 2), ("1", 3)], [("3a", 1), ("1", 3), ("pars", 2)], [1]))
@example(report=([("1", 1), ("pars", 2), ("2", 3)], [("2", 3), ("pars", 2), ("1", 1)], [1]))
@example(report=([("2", 1), ("pars", 2), ("1", 3)], [("pars", 2), ("1", 3), ("2", 1)], [1]))
@example(report=([("1", 1), ("1", 106), ("pars", 3)], [("1", 1), ("1", 106), ("pars", 3), ("1", 106)], [1, 1]))
@example(report=([("pars", 1), ("1", 2), ("pars", 3)], [("pars", 3), ("1", 2), ("pars", 1)], [1]))
def test_a_piece_comes_to_stand_where_its_scans_lead_in_their_order(
    container: Container, owner: Caller, report: tuple[Sightings, Sightings, list[int]]
) -> None:
    seen, shuffled, portions = report
    order = mailed_order(container, owner)
    [tracking] = tracking_codes(container, order)
    start = container.clock()
    scans = [scan(tracking, phase, start + timedelta(hours=hour)) for phase, hour in shuffled]
    new = 0
    for size in [*portions, len(scans)]:
        new += ingest(container, *scans[:size])
        scans = scans[size:]
    assert new == len(set(shuffled))
    assert statuses(container, order) == [expected(seen)]
    way = [ItemStatus(status) for status in item_statuses_recorded(container, order)]
    assert all(after in NEXT_STATUSES[before] for before, after in pairwise(way))


@given(report=reports())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_events_of_a_piece_scanned_in_order_are_dated_in_order(
    container: Container, owner: Caller, report: tuple[Sightings, Sightings, list[int]]
) -> None:
    seen, _, portions = report
    order = mailed_order(container, owner)
    [tracking] = tracking_codes(container, order)
    ordered = sorted(seen, key=lambda each: each[1])
    scans = [scan(tracking, phase, container.clock() + timedelta(hours=hour)) for phase, hour in ordered]
    for size in [*portions, len(scans)]:
        ingest(container, *scans[:size])
        scans = scans[size:]
    with container.db.system_transaction() as tx:
        moments = [fact.seen_at for fact in fact_rows(tx, order) if fact.seen_at is not None]
    assert moments == sorted(moments)
    assert statuses(container, order) == [expected(seen)]


def test_a_late_word_of_a_turn_changes_nothing_where_the_piece_has_gone_on(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner)
    [tracking] = tracking_codes(container, order)
    first, turn, second = (container.clock() + timedelta(days=day) for day in (1, 2, 3))
    ingest(container, scan(tracking, "1", first), scan(tracking, "2", second))
    ingest(container, scan(tracking, "pars", turn))
    assert item_statuses_recorded(container, order) == ["Processing", "Printed", "In Transit", "In Local Area"]
    ingest(container, scan(tracking, "3a", second + timedelta(days=1)))
    assert statuses(container, order) == ["Processed for Delivery"]


def test_a_rerouting_and_the_scans_after_it_in_one_report_are_all_recorded(container: Container, owner: Caller) -> None:
    order = mailed_order(container, owner)
    [tracking] = tracking_codes(container, order)
    phases = ("1", "pars", "1", "2", "pars", "3a", "4c")
    scans = [
        scan(tracking, phase, container.clock() + timedelta(days=day)) for day, phase in enumerate(phases, start=1)
    ]
    ingest(container, *scans)
    assert item_statuses_recorded(container, order)[2:] == [
        *("In Transit", "Re-routed", "In Transit", "In Local Area"),
        *("Re-routed", "Processed for Delivery", "Delivered"),
    ]
