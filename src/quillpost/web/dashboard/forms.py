"""Pages with a form: its values, its errors, its times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

from fastapi import Request, Response

from quillpost.accounts.users.sessions import SignedIn
from quillpost.core.errors import Invalid, Refused
from quillpost.web.api import bodies
from quillpost.web.api.bodies import Body
from quillpost.web.cookies import known_zone, zone_of
from quillpost.web.forms import Form
from quillpost.web.rendering import show


@dataclass(frozen=True, slots=True)
class Filled:
    """A form as a page shows it: what stands in its fields, and what is wrong with each."""

    typed: Mapping[str, Sequence[str]]
    faults: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def back(cls, form: Form, refused: Invalid | Refused, *, at: str) -> "Filled":
        """As it was sent, for another try. What is refused as a whole is told `at` a field."""
        faults = refused.fields if isinstance(refused, Invalid) else {at: [refused.message]}
        return cls(form.fields, faults)

    @property
    def values(self) -> Mapping[str, str]:
        """Of the fields that are filled in but once."""
        return {name: given[0] for name, given in self.typed.items() if given}

    def has(self, name: str, value: object) -> bool:
        """Whether this choice is the one, or one of those, that are made."""
        return str(value) in self.typed.get(name, ())

    def unseen(self, fields: Sequence[str]) -> list[str]:
        """Faults of none of these fields, which the form has: they are told at its top."""
        return [sentence for name, told in self.faults.items() if name not in fields for sentence in told]


EMPTY = Filled({})


def show_form(
    request: Request,
    template: str,
    who: SignedIn | None,
    form: Filled,
    *,
    status: int | None = None,
    **values: Any,
) -> Response:
    """The page with this in its form, as `typed`, `faults` and `has`; with faults its status is 422."""
    return show(
        request,
        template,
        who=who,
        status=status or (422 if form.faults else 200),
        typed=form.values,
        faults=form.faults,
        has=form.has,
        **values,
    )


@dataclass(frozen=True, slots=True)
class Reason:
    """A field beside the question, for why it is done."""

    label: str
    hint: str
    is_needed: bool = False


def are_you_sure(
    request: Request,
    who: SignedIn,
    form: Filled = EMPTY,
    *,
    title: str,
    means: Sequence[str],
    button: str,
    back: str,
    refused: str | None = None,
    crumbs: Sequence[tuple[str, str]] = (),
    reason: Reason | None = None,
    carried: Mapping[str, str] | None = None,
    is_once: bool = False,
    is_harmless: bool = False,
) -> Response:
    """Before something ends: what that means, and a form for the same path. Works without any script. Where
    it was `refused`, the same page says why. `crumbs` lead back, by address and words; `carried` are fields
    that were filled in on the page before. `is_once`: its form has a key for `do_once`."""
    return show_form(
        request,
        "parts/sure.html",
        who,
        form,
        status=None if refused is None else 400,
        title=title,
        means=means,
        button=button,
        back=back,
        refused=refused,
        crumbs=crumbs,
        reason=reason,
        carried=carried or {},
        is_once=is_once,
        is_harmless=is_harmless,
    )


Read = TypeVar("Read", bound=Body)


def read_body(body: type[Read], given: Mapping[str, Any]) -> Read:
    """What the API would read out of these values. `Invalid`, by its names of fields, where it would not."""
    return bodies.read_body(body, dict(given))


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
