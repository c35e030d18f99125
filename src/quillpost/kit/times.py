"""The forms in which the interface writes a moment; all moments are UTC."""

from datetime import UTC, datetime
from typing import overload


@overload
def iso(moment: datetime) -> str: ...
@overload
def iso(moment: None) -> None: ...


def iso(moment: datetime | None) -> str | None:
    """ISO 8601 with a Z, to the second."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def plain_time(moment: datetime) -> str:
    """`YYYY-MM-DD HH:MM:SS`, the form of send responses, templates and events."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
