"""When an automation mails, and how long it goes on trying."""

from calendar import isleap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo

DATE_FIELDS = ("dob", "anniversary")

MAX_DAYS_OFFSET = 365
DEFAULT_DAILY_LIMIT, MAX_DAILY_LIMIT = 5_000, 100_000
"""Pieces a day, when nothing is said, and at most: an import of a whole town is no reason to mail to it."""

MAX_PEOPLE_PER_ORDER = 5_000

MAX_AUTOMATIONS = 1_000

LOOK_BACK_DAYS = 3
"""Mail for missed days is late, but not absurdly so."""

LEASE_DURATION = timedelta(minutes=5)
"""If a worker dies, another continues after that."""

RETRY_DELAYS = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 2 * 60, 6 * 60))
"""After each refusal; the last repeats."""

GIVE_UP_AFTER = timedelta(days=7)
"""Then it is switched off."""

LEAP_DAY, DAY_BEFORE_LEAP_DAY = 229, 228


@dataclass(frozen=True, slots=True)
class Occasion:
    """A birthday or the like that is mailed for on `mailing_date`; `month_day` is that of the matching dates."""

    mailing_date: date
    occasion_date: date
    month_day: int


def find_occasions(days: list[date], days_offset: int) -> list[Occasion]:
    """The occasions for these days; the offset is negative before the occasion."""
    return [occasion for day in days for occasion in _occasions_on(day, days_offset)]


def _occasions_on(day: date, days_offset: int) -> Iterator[Occasion]:
    occasion_date = day - timedelta(days=days_offset)
    month_day = occasion_date.month * 100 + occasion_date.day
    yield Occasion(day, occasion_date, month_day)
    if month_day == DAY_BEFORE_LEAP_DAY and not isleap(occasion_date.year):
        # People born on the 29th of February have no other day in such a year.
        yield Occasion(day, occasion_date, LEAP_DAY)


def list_days_to_check(today: date) -> list[date]:
    """Today, and the days that may have been missed."""
    return [today - timedelta(days=days_ago) for days_ago in range(LOOK_BACK_DAYS, -1, -1)]


def local_date(moment: datetime, zone: tzinfo) -> date:
    return moment.astimezone(zone).date()


def start_of_day(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time.min, tzinfo=zone)


def next_attempt_at(attempts: int, *, now: datetime) -> datetime:
    """After so many refusals in a row."""
    return now + RETRY_DELAYS[min(attempts, len(RETRY_DELAYS)) - 1]


def has_recovered(last_refused_at: datetime, *, now: datetime) -> bool:
    """Whether the last refusal is too old to be the same trouble."""
    return now - last_refused_at > 2 * RETRY_DELAYS[-1]


def should_give_up(failing_since: datetime, *, now: datetime) -> bool:
    return now - failing_since >= GIVE_UP_AFTER
