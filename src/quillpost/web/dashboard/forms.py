"""Forms of the dashboard: values, errors, times, pages of lists."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

from fastapi import Request

from quillpost.core.errors import Invalid, QuillpostError
from quillpost.core.paging import PageRequest
from quillpost.web.api import schemas as api_schemas
from quillpost.web.api.schemas import Body
from quillpost.web.dependencies import DEFAULT_PAGE_SIZE, MAX_PAGE, parse_digits
from quillpost.web.forms import Form
from quillpost.web.messages import page_errors
from quillpost.web.security import find_zone, get_zone


@dataclass(frozen=True, slots=True)
class FormState:
    """The values of a form's fields, and their errors."""

    fields: Mapping[str, Sequence[str]]
    errors: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "errors", page_errors(self.errors))

    @classmethod
    def from_error(cls, form: Form, error: QuillpostError, *, default_field: str) -> "FormState":
        """The form as it was sent. An error of no field stands at `default_field`."""
        errors = error.fields if isinstance(error, Invalid) else {default_field: [error.message]}
        return cls(form.fields, errors)

    @property
    def values(self) -> Mapping[str, str]:
        """The first value of each field."""
        return {name: texts[0] for name, texts in self.fields.items() if texts}

    def is_selected(self, name: str, value: object) -> bool:
        return str(value) in self.fields.get(name, ())

    def regroup(self, fields: Collection[str], default_field: str) -> "FormState":
        """Errors of a field's part, such as `amounts.3`, at the field; those of other fields at `default_field`."""
        errors: dict[str, list[str]] = {}
        for name, messages in self.errors.items():
            field_name = name.partition(".")[0]
            errors.setdefault(field_name if field_name in fields else default_field, []).extend(messages)
        return FormState(self.fields, errors)

    def list_errors_outside(self, fields: Sequence[str]) -> list[str]:
        """Errors of other fields, for the top of the form."""
        return [message for name, messages in self.errors.items() if name not in fields for message in messages]


EMPTY_FORM = FormState({})


Read = TypeVar("Read", bound=Body)


def read_body(body_class: type[Read], values: Mapping[str, Any]) -> Read:
    """As the API reads them; `Invalid` by its field names."""
    return api_schemas.validate_body(body_class, dict(values))


def parse_page(page: str, *, per_page: int = DEFAULT_PAGE_SIZE) -> PageRequest:
    """The first page if it is no number."""
    return PageRequest(min(parse_digits(page.strip()) or 1, MAX_PAGE), per_page)


ZONE_FIELD: Final = "zone"
INVALID_MOMENT: Final = "Choose a day and a time."
UNKNOWN_ZONE: Final = "Your browser's time zone is not known here, so times are now in {}. Look at it once more."
MAX_SCHEDULE_AHEAD: Final = timedelta(days=365)


def parse_zone(request: Request, fields: Mapping[str, Sequence[str]]) -> ZoneInfo:
    """The zone that the form names, or else the user's."""
    return find_zone(_zone_name(fields)) or get_zone(request)


def parse_moment(form: Form, name: str, zone: ZoneInfo) -> datetime:
    """A local time of the zone, in UTC. `Invalid` at the field if it is no time, or if the form's zone is unknown."""
    zone_name = _zone_name(form.fields)
    if zone_name and find_zone(zone_name) is None:
        raise Invalid({name: [UNKNOWN_ZONE.format(zone.key)]})
    try:
        local = datetime.fromisoformat(form.text(name))
        return (local if local.tzinfo else local.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid({name: [INVALID_MOMENT]}) from None


def parse_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def start_of_day(day: date, zone: tzinfo, *, days_later: int = 0) -> datetime | None:
    try:
        return datetime.combine(day + timedelta(days=days_later), time(), zone)
    except OverflowError:
        return None


def format_local_time(at: datetime, zone: ZoneInfo) -> str:
    """As a browser's field for a date and time has it."""
    return f"{at.astimezone(zone):%Y-%m-%dT%H:%M}"


def send_time_context(zone: ZoneInfo, *, now: datetime) -> dict[str, Any]:
    return {
        "earliest": format_local_time(now, zone),
        "latest": format_local_time(now + MAX_SCHEDULE_AHEAD, zone),
        **zone_context(zone, now=now),
    }


def zone_context(zone: ZoneInfo, *, now: datetime) -> dict[str, Any]:
    """For the macros `zone_field` and `zone_name`."""
    return {"form_zone": zone.key, "zone_label": zone_label(zone, now)}


def zone_label(zone: ZoneInfo, now: datetime) -> str:
    """`Chicago time (CST)`"""
    city = zone.key.rpartition("/")[2].replace("_", " ")
    abbreviation = now.astimezone(zone).tzname() or ""
    if zone.key in ("UTC", "Etc/UTC"):
        return "UTC"
    return f"{city} time ({abbreviation})" if abbreviation.isalpha() else f"{city} time"


def _zone_name(fields: Mapping[str, Sequence[str]]) -> str:
    return next(iter(fields.get(ZONE_FIELD, ())), "")
