"""Times that somebody types into a form: in the zone that the words beside them name. It goes along with
them: when the form is sent the reader's own may be known that was not when its page was written."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from fastapi import Request

from quillpost.kit.errors import Invalid
from quillpost.reception.forms import Form
from quillpost.reception.zones import known_zone, zone_of

ZONE: Final = "zone"
WHEN: Final = "Choose a day and a time."
UNKNOWN_ZONE: Final = (
    "Your browser's time zone is not known here, so times are now in {}. Look at it once more."
)
FURTHEST: Final = timedelta(days=365)


def typed_zone(request: Request, fields: Mapping[str, Sequence[str]]) -> ZoneInfo:
    """In which zone the times of these fields are. Where they name none that is known, it is the reader's."""
    return known_zone(_named(fields)) or zone_of(request)


def typed_moment(form: Form, name: str, zone: ZoneInfo) -> datetime:
    """In UTC, what was typed as a clock of the zone shows it. `Invalid` at the field where that is nothing,
    or where the form is in a zone that is not known here: nobody guesses at hours."""
    named = _named(form.fields)
    if named and known_zone(named) is None:
        raise Invalid({name: [UNKNOWN_ZONE.format(zone.key)]})
    try:
        local = datetime.fromisoformat(form.text(name))
        return (local if local.tzinfo else local.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid({name: [WHEN]}) from None


def day_in(text: str) -> date | None:
    """A day as browsers send it; none, where it is no day."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def start_of(day: date, zone: tzinfo, *, later: int = 0) -> datetime | None:
    """When the day begins where the reader lives, or one that is so many days later."""
    try:
        return datetime.combine(day + timedelta(days=later), time(), zone)
    except OverflowError:
        return None


def local_time(at: datetime, zone: ZoneInfo) -> str:
    """As a browser's field for a date and time has it."""
    return f"{at.astimezone(zone):%Y-%m-%dT%H:%M}"


def when_values(zone: ZoneInfo, *, now: datetime) -> dict[str, Any]:
    """What a page needs whose form asks when to send."""
    return {
        "earliest": local_time(now, zone),
        "latest": local_time(now + FURTHEST, zone),
        **zone_values(zone, now=now),
    }


def zone_values(zone: ZoneInfo, *, now: datetime) -> dict[str, Any]:
    """What the macros `zone_field` and `zone_name` need."""
    return {"typed_zone": zone.key, "zone_words": zone_in_words(zone, now)}


def zone_in_words(zone: ZoneInfo, now: datetime) -> str:
    """`Chicago time (CST)`; where the zone is none in particular, that."""
    city = zone.key.rpartition("/")[2].replace("_", " ")
    short = now.astimezone(zone).tzname() or ""
    if zone.key in ("UTC", "Etc/UTC"):
        return "UTC"
    return f"{city} time ({short})" if short.isalpha() else f"{city} time"


def _named(fields: Mapping[str, Sequence[str]]) -> str:
    return next(iter(fields.get(ZONE, ())), "")
