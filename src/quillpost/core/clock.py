"""How the interface writes times; all are UTC."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import overload

Clock = Callable[[], datetime]

_UNITS = (
    ("year", 365 * 86_400),
    ("month", 30 * 86_400),
    ("week", 7 * 86_400),
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
    ("second", 1),
)


@overload
def format_iso(moment: datetime) -> str: ...
@overload
def format_iso(moment: None) -> None: ...


def format_iso(moment: datetime | None) -> str | None:
    """ISO 8601 with a Z, to the second."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_time(moment: datetime) -> str:
    """`YYYY-MM-DD HH:MM:SS`, the form of send responses, templates and events."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def format_time_ago(moment: datetime, *, now: datetime) -> str:
    """In the largest unit that fits: `5 minutes ago`."""
    seconds = int((now - moment).total_seconds())
    for unit, length in _UNITS:
        count = seconds // length
        if count > 0:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
