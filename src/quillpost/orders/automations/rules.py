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
"""People in one order, as many as a call may name."""

MAX_AUTOMATIONS = 1_000
"""Automations of an account in each mode."""

LOOK_BACK_DAYS = 3
"""Days: who was due while nobody worked gets their mail late, but not absurdly so."""

LEASE_DURATION = timedelta(minutes=5)
"""How long one worker has an automation to itself. If it dies, another goes on after that."""

RETRY_DELAYS = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 2 * 60, 6 * 60))
"""How long it waits after each refusal; the last again and again."""

GIVE_UP_AFTER = timedelta(days=7)
"""Of refusals and nothing else: then it is switched off, for a person to look at."""

LEAP_DAY, DAY_BEFORE_LEAP_DAY = 229, 228


@dataclass(frozen=True, slots=True)
class Occasion:
    """A birthday, or the like, that is mailed for on `mailing_date`: it is `occasion_date` that date, and `month_day`
    is how a
    date of birth is written that is celebrated then."""

    mailing_date: date
    occasion_date: date
    month_day: int


def find_occasions(days: list[date], days_offset: int) -> list[Occasion]:
    """What is mailed for on these days, so many days after it or, where negative, before."""
    return [occasion for day in days for occasion in _occasions_on(day, days_offset)]


def _occasions_on(day: date, days_offset: int) -> Iterator[Occasion]:
    occasion_date = day - timedelta(days=days_offset)
    month_day = occasion_date.month * 100 + occasion_date.day
    yield Occasion(day, occasion_date, month_day)
    if month_day == DAY_BEFORE_LEAP_DAY and not isleap(occasion_date.year):
        # Whoever was born on the 29th of February has no other day in such a year.
        yield Occasion(day, occasion_date, LEAP_DAY)


def list_days_to_check(today: date) -> list[date]:
    """Today, and those on which it may be that nobody looked."""
    return [today - timedelta(days=days_ago) for days_ago in range(LOOK_BACK_DAYS, -1, -1)]


def local_date(moment: datetime, zone: tzinfo) -> date:
    return moment.astimezone(zone).date()


def start_of_day(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time.min, tzinfo=zone)


def next_attempt_at(attempts: int, *, now: datetime) -> datetime:
    """When to try again after so many refusals in a row."""
    return now + RETRY_DELAYS[min(attempts, len(RETRY_DELAYS)) - 1]


def has_recovered(last_refused_at: datetime, *, now: datetime) -> bool:
    """Whether the trouble of then is not that of now: while it lasts, it is tried again in its time. There
    was nobody to mail to since."""
    return now - last_refused_at > 2 * RETRY_DELAYS[-1]


def should_give_up(failing_since: datetime, *, now: datetime) -> bool:
    return now - failing_since >= GIVE_UP_AFTER
