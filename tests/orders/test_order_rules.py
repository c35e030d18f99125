"""Rules of automations and of an order's status."""

from calendar import isleap
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from quillpost.core.database.tables.base import CHANGEABLE_ORDER_STATUSES, STATUS_COUNT_COLUMNS
from quillpost.orders.automations import rules as automation_rules
from quillpost.orders.models import OrderRequest
from quillpost.orders.products import DISPLAY_TYPES, POSTCARD
from quillpost.orders.rules import FINAL_STATUSES, NEXT_STATUSES, ItemStatus, OrderStatus

BORN = st.dates(date(1900, 1, 1), date(2020, 12, 31))
OFFSETS = st.integers(-automation_rules.MAX_DAYS_OFFSET, automation_rules.MAX_DAYS_OFFSET)
YEARS = st.integers(2021, 2060)


def days_of(year: int, offset: int) -> list[date]:
    """Every day on which a birthday of that year could be mailed for."""
    first = date(year, 1, 1) + timedelta(days=offset)
    return [first + timedelta(days=n) for n in range(366 if isleap(year) else 365)]


@given(BORN, YEARS, OFFSETS)
def test_every_birthday_is_mailed_for_on_exactly_one_day(born: date, year: int, offset: int) -> None:
    found = [
        each
        for each in automation_rules.find_occasions(days_of(year, offset), offset)
        if each.month_day == born.month * 100 + born.day and each.occasion_date.year == year
    ]
    [occasion] = found
    assert occasion.mailing_date - occasion.occasion_date == timedelta(days=offset)
    is_moved = (born.month, born.day) == (2, 29) and not isleap(year)
    assert (occasion.occasion_date.month, occasion.occasion_date.day) == (
        (2, 28) if is_moved else (born.month, born.day)
    )


def test_a_day_is_one_of_the_place_where_the_service_is_and_downtime_is_looked_back_at() -> None:
    days = [date(2026, 12, 30), date(2026, 12, 31), date(2027, 1, 1), date(2027, 1, 2)]
    assert automation_rules.list_days_to_check(date(2027, 1, 2)) == days
    zone, new_year = ZoneInfo("America/New_York"), datetime(2027, 1, 1, 2, tzinfo=UTC)
    assert automation_rules.local_date(new_year, zone) == date(2026, 12, 31)
    assert automation_rules.start_of_day(date(2026, 12, 31), zone) == datetime(2026, 12, 31, 5, tzinfo=UTC)


def test_it_waits_longer_each_time_up_to_the_longest_and_gives_up_after_seven_days() -> None:
    now, delays = datetime(2026, 5, 4, tzinfo=UTC), automation_rules.RETRY_DELAYS
    waits = [automation_rules.next_attempt_at(tries, now=now) - now for tries in range(1, 51)]
    assert waits == sorted(waits)
    assert waits == [*delays, *[delays[-1]] * (50 - len(delays))]
    week = timedelta(days=7)
    assert not automation_rules.should_give_up(now, now=now + week - timedelta(seconds=1))
    assert automation_rules.should_give_up(now, now=now + week)


S = ItemStatus
WAY = (S.PROCESSING, S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.PROCESSED_FOR_DELIVERY, S.DELIVERED)
MAILED = (S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.PROCESSED_FOR_DELIVERY)


def test_every_status_says_what_may_follow_it() -> None:
    assert set(NEXT_STATUSES) == set(ItemStatus)
    assert set(FINAL_STATUSES) == {S.DELIVERED, S.RETURNED_TO_SENDER, S.FAILED}
    assert all(status not in following for status, following in NEXT_STATUSES.items()), "a repeated scan never follows"
    assert NEXT_STATUSES[S.PROCESSING] == {S.PRINTED, S.FAILED}, "nothing is mailed that was not printed"
    assert all(S.PROCESSING not in following for following in NEXT_STATUSES.values())
    for status in MAILED:
        ahead = set(WAY[WAY.index(status) + 1 :])
        assert NEXT_STATUSES[status] == ahead | {S.RE_ROUTED, S.RETURNED_TO_SENDER, S.FAILED}
    again = {S.IN_TRANSIT, S.IN_LOCAL_AREA, S.PROCESSED_FOR_DELIVERY, S.DELIVERED}
    assert NEXT_STATUSES[S.RE_ROUTED] == again | {S.RETURNED_TO_SENDER, S.FAILED}, "it travels again"
    assert tuple(f"n_{status.count_name}" for status in ItemStatus) == STATUS_COUNT_COLUMNS


@given(scans=st.lists(st.sampled_from(ItemStatus)))
def test_on_the_usual_way_a_piece_never_goes_backwards(scans: list[ItemStatus]) -> None:
    standing, furthest = S.PROCESSING, 0
    for scan in scans:
        if scan not in NEXT_STATUSES[standing]:
            continue
        # A piece that is sent on starts again from wherever it turns up.
        furthest = 0 if standing is S.RE_ROUTED else furthest
        standing = scan
        if standing in WAY:
            assert WAY.index(standing) > furthest
            furthest = WAY.index(standing)


def test_only_an_order_that_waits_can_be_cancelled() -> None:
    held_back = {status for status in OrderStatus if status.is_held_back}
    assert held_back == {OrderStatus.REVIEWING, OrderStatus.PAUSED} == set(CHANGEABLE_ORDER_STATUSES)


def test_large_postcards_are_a_type_of_their_own() -> None:
    for size, kind in {"4x6": "postcard", "6x9": "postcard", "6x11": "postcard6x11"}.items():
        assert OrderRequest(product=POSTCARD, size=size).type == kind
        assert DISPLAY_TYPES[kind, size] == f"Postcard-{size}"
