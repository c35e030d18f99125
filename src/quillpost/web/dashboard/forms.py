"""Forms of the dashboard: values, errors, times, pages of lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

from fastapi import Request

from quillpost.core.errors import Invalid, QuillpostError
from quillpost.core.paging import PageRequest
from quillpost.web.api import bodies
from quillpost.web.api.bodies import Body, parse_digits
from quillpost.web.api.dependencies import DEFAULT_PAGE_SIZE, MAX_PAGE
from quillpost.web.forms import Form
from quillpost.web.security import find_zone, get_zone


@dataclass(frozen=True, slots=True)
class FormState:
    """A form as a page shows it: what stands in its fields, and what is wrong with each."""

    fields: Mapping[str, Sequence[str]]
    errors: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def from_error(cls, form: Form, error: QuillpostError, *, default_field: str) -> "FormState":
        """As it was sent, for another try. What is refused as a whole is told `default_field` a field."""
        errors = error.fields if isinstance(error, Invalid) else {default_field: [error.message]}
        return cls(form.fields, errors)

    @property
    def values(self) -> Mapping[str, str]:
        """Of the fields that are filled in but once."""
        return {name: texts[0] for name, texts in self.fields.items() if texts}

    def is_selected(self, name: str, value: object) -> bool:
        """Whether this choice is the one, or one of those, that are made."""
        return str(value) in self.fields.get(name, ())

    def list_errors_outside(self, fields: Sequence[str]) -> list[str]:
        """Errors of none of these fields, which the form has: they are told at its top."""
        return [message for name, messages in self.errors.items() if name not in fields for message in messages]


EMPTY_FORM = FormState({})


Read = TypeVar("Read", bound=Body)


def read_body(body_class: type[Read], values: Mapping[str, Any]) -> Read:
    """What the API would read out of these values. `Invalid`, by its names of fields, where it would not."""
    return bodies.validate_body(body_class, dict(values))


def parse_page(page: str, *, per_page: int = DEFAULT_PAGE_SIZE) -> PageRequest:
    """The page of this number. Whoever asks for something odd gets the first."""
    return PageRequest(min(parse_digits(page.strip()) or 1, MAX_PAGE), per_page)


ZONE_FIELD: Final = "zone"
INVALID_MOMENT: Final = "Choose a day and a time."
UNKNOWN_ZONE: Final = "Your browser's time zone is not known here, so times are now in {}. Look at it once more."
MAX_SCHEDULE_AHEAD: Final = timedelta(days=365)


def parse_zone(request: Request, fields: Mapping[str, Sequence[str]]) -> ZoneInfo:
    """In which zone the times of these fields are. Where they name none that is known, it is the reader's."""
    return find_zone(_zone_name(fields)) or get_zone(request)


def parse_moment(form: Form, name: str, zone: ZoneInfo) -> datetime:
    """In UTC, what was typed as a clock of the zone shows it. `Invalid` at the field where that is nothing,
    or where the form is in a zone that is not known here: nobody guesses at hours."""
    zone_name = _zone_name(form.fields)
    if zone_name and find_zone(zone_name) is None:
        raise Invalid({name: [UNKNOWN_ZONE.format(zone.key)]})
    try:
        local = datetime.fromisoformat(form.text(name))
        return (local if local.tzinfo else local.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid({name: [INVALID_MOMENT]}) from None


def parse_day(text: str) -> date | None:
    """A day as browsers send it; none, where it is no day."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def start_of_day(day: date, zone: tzinfo, *, days_later: int = 0) -> datetime | None:
    """When the day begins where the reader lives, or one that is so many days later."""
    try:
        return datetime.combine(day + timedelta(days=days_later), time(), zone)
    except OverflowError:
        return None


def format_local_time(at: datetime, zone: ZoneInfo) -> str:
    """As a browser's field for a date and time has it."""
    return f"{at.astimezone(zone):%Y-%m-%dT%H:%M}"


def send_time_context(zone: ZoneInfo, *, now: datetime) -> dict[str, Any]:
    """What a page needs whose form asks when to send."""
    return {
        "earliest": format_local_time(now, zone),
        "latest": format_local_time(now + MAX_SCHEDULE_AHEAD, zone),
        **zone_context(zone, now=now),
    }


def zone_context(zone: ZoneInfo, *, now: datetime) -> dict[str, Any]:
    """What the macros `zone_field` and `zone_name` need."""
    return {"form_zone": zone.key, "zone_label": zone_label(zone, now)}


def zone_label(zone: ZoneInfo, now: datetime) -> str:
    """`Chicago time (CST)`; where the zone is none in particular, that."""
    city = zone.key.rpartition("/")[2].replace("_", " ")
    abbreviation = now.astimezone(zone).tzname() or ""
    if zone.key in ("UTC", "Etc/UTC"):
        return "UTC"
    return f"{city} time ({abbreviation})" if abbreviation.isalpha() else f"{city} time"


def _zone_name(fields: Mapping[str, Sequence[str]]) -> str:
    return next(iter(fields.get(ZONE_FIELD, ())), "")
