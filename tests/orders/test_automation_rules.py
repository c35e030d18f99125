"""When an automation mails."""

from calendar import isleap
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from quillpost.orders.automations import rules as automation_rules

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


def test_a_day_of_downtime_is_looked_back_at() -> None:
    assert automation_rules.list_days_to_check(date(2027, 1, 2)) == [
        date(2026, 12, 30), date(2026, 12, 31), date(2027, 1, 1), date(2027, 1, 2),
    ]  # fmt: skip


def test_a_day_is_one_of_the_place_where_the_service_is() -> None:
    zone = ZoneInfo("America/New_York")
    new_year = datetime(2027, 1, 1, 2, tzinfo=UTC)
    assert automation_rules.local_date(new_year, zone) == date(2026, 12, 31)
    assert automation_rules.start_of_day(date(2026, 12, 31), zone) == datetime(2026, 12, 31, 5, tzinfo=UTC)


@given(st.integers(1, 50))
def test_it_waits_longer_each_time_up_to_the_longest(tries: int) -> None:
    now = datetime(2026, 5, 4, tzinfo=UTC)
    assert (
        automation_rules.next_attempt_at(tries, now=now) - now
        == automation_rules.RETRY_DELAYS[min(tries, len(automation_rules.RETRY_DELAYS)) - 1]
    )
    assert automation_rules.next_attempt_at(tries + 1, now=now) >= automation_rules.next_attempt_at(tries, now=now)


def test_it_gives_up_after_seven_days_of_refusals() -> None:
    since = datetime(2026, 5, 4, tzinfo=UTC)
    assert not automation_rules.should_give_up(since, now=since + timedelta(days=7, seconds=-1))
    assert automation_rules.should_give_up(since, now=since + timedelta(days=7))
