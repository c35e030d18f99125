"""Where other services put people on a list.

The same call may come again and again: whoever is on the list already is there once.
"""

import re
from collections.abc import Hashable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from quillpost.accounts.service import count_hook, count_stranger
from quillpost.app.container import Limits, Parts
from quillpost.core.body_limits import Bounds, check_unknown, read_form
from quillpost.core.errors import Invalid, NotFound, Throttled
from quillpost.recipients.field_names import meaning, plain
from quillpost.recipients.service import Refusal
from quillpost.recipients.webhooks import rules as webhook_rules
from quillpost.recipients.webhooks.rules import SOURCES, Said
from quillpost.recipients.webhooks.service import KeyHolder, Outcome, holder_of, take_in
from quillpost.web.api.bodies import MULTIPART, Upload
from quillpost.web.api.dependencies import parts_of
from quillpost.web.api.errors import WrongBody
from quillpost.web.api.requests import LARGE_BODY, Stops, Turns, read_json, read_parts, while_there
from quillpost.web.api.responses import answer, name_ignored
from quillpost.web.public.partner_webhooks import at_most

LARGEST = 5_000_000
MOST_FIELDS = 100_000
DEEPEST = 8
"""Brackets in one name."""

FORM = "application/x-www-form-urlencoded"
EMPTY = "The body is empty: send one person as an object, or many as an array."
NO_PEOPLE = "Send one person as an object, or many as an array."
WRONG_TYPE = f"Send application/json, {FORM} or {MULTIPART}."
JSON_AS_FORM = "The body looks like JSON but is labelled as a form: send Content-Type: application/json."
NO_FORM = f"The form cannot be read. It may have {MOST_FIELDS:,} fields in UTF-8."
FILES = "No files are taken here: send the fields of a person."
TWO_THINGS = "This name is given both a value and fields of its own."
TWICE = "This field is given twice, with different values: give it once."

_BRACKETS = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])+)")
_INSIDE = re.compile(r"\[([^\[\]]*)\]")

Pairs = Iterable[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class People:
    """What a call says: its rows as they were read, and what is said around them."""

    said: Sequence[Said]
    source: str | None
    ignored: Set[str]
    """Names that mean nothing to us, in the rows and around them."""


async def read_people(request: Request, who: Hashable, limits: Limits) -> People:
    """The people of a call. A heavy one is read when it is its turn, and only while its sender is there."""
    body = await at_most(min(limits.body_bytes, LARGEST))(request)
    if len(body) <= LARGE_BODY:
        return read(request, body, limits, lambda: False)
    turns: Turns = request.app.state.turns
    work = turns.take(who, lambda stops: read(request, body, limits, stops))
    return await while_there(request.receive, work)


def read(request: Request, body: bytes, limits: Limits, stops: Stops) -> People:
    """Bounded first, then parsed, then understood row by row."""
    value = _value(request, body, limits.bounds)
    check_unknown(webhook_rules.unknown_names(value), limits.bounds)
    sent = webhook_rules.people_in(value)
    most = limits.inline_recipients
    if len(sent.rows) > most:
        raise Invalid({"recipients": [f"At most {most:,} recipients in one call, please."]})
    said = [] if stops() else [webhook_rules.read(row, is_leaving=sent.is_leaving) for row in sent.rows]
    return People(said, sent.source, {*sent.ignored, *(name for one in said for name in one.ignored)})


def _value(request: Request, body: bytes, bounds: Bounds) -> Any:
    """What was sent: an object or an array."""
    kind = kind_of(request)
    if not body.strip():
        raise Invalid({"body": [EMPTY]})
    if kind == MULTIPART:
        return nested(_parts(request, body, bounds))
    looks_like_json = body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    if kind == FORM and looks_like_json:
        raise WrongBody(415, JSON_AS_FORM)
    if kind == FORM:
        return nested(_form(body, bounds))
    # Not every tool says what it sends.
    if (
        kind == "application/json"
        or kind.endswith("+json")
        or (kind in ("", "text/plain") and looks_like_json)
    ):
        return _json(body, bounds)
    raise WrongBody(415, WRONG_TYPE)


def kind_of(request: Request) -> str:
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def nested(pairs: Pairs) -> dict[str, Any]:
    """The fields of a form, where `contact[fields][city]` is a field of a field of a field."""
    tree: dict[str, Any] = {}
    for name, value in pairs:
        place, *steps = [tree, *_steps(name)]
        *outer, last = steps
        for step in outer:
            place = place.setdefault(step or str(len(place)), {})
            if not isinstance(place, dict):
                raise Invalid({_short(name): [TWO_THINGS]})
        _put(place, last or str(len(place)), name, value)
    return tree


def _put(place: dict[str, Any], last: str, name: str, value: Any) -> None:
    """A name that is given twice has both values; where it is a field of a person, it may have but one."""
    match place.get(last):
        case None:
            place[last] = value
        case str() as one if meaning(plain(last)) or meaning(plain(name)):
            if one != value:
                raise Invalid({_short(name): [TWICE]})
        case dict():
            raise Invalid({_short(name): [TWO_THINGS]})
        case list() as several:
            several.append(value)
        case one:
            place[last] = [one, value]


def _steps(name: str) -> list[str]:
    parts = _BRACKETS.fullmatch(name)
    if parts is None:
        return [name]
    steps = [parts[1], *_INSIDE.findall(parts[2])]
    if len(steps) > DEEPEST:
        raise Invalid({_short(name): [f"At most {DEEPEST - 1} brackets in a name, please."]})
    return steps


def _short(name: str) -> str:
    return name[:100]


def _form(body: bytes, bounds: Bounds) -> Pairs:
    try:
        return read_form(body, fields=MOST_FIELDS, bounds=bounds)
    except ValueError:
        raise Invalid({"body": [NO_FORM]}) from None


def _parts(request: Request, body: bytes, bounds: Bounds) -> Pairs:
    """A form in parts: all of them fields."""
    found = read_parts(request, body, bounds)
    for name, value in found.items():
        if isinstance(value, Upload):
            raise Invalid({name: [FILES]})
    return [(name, str(value)) for name, value in found.items()]


def _json(body: bytes, bounds: Bounds) -> Any:
    value = read_json(body, bounds)
    if not isinstance(value, dict | list):
        raise Invalid({"body": [NO_PEOPLE]})
    return value


router = APIRouter(include_in_schema=False)

WELCOME = "People are put on a mailing list by POST to this address."
WRONG_SOURCE = "Use automation or crm, or leave it out."


def let_in(api_key: str, request: Request, parts: Annotated[Parts, Depends(parts_of)]) -> KeyHolder:
    """Whoever has a list's key, not too often; the others are counted, so that nobody guesses for long."""
    holder = holder_of(parts.db, api_key)
    if holder is None:
        address = request.client.host if request.client else "unknown"
        allowance = count_stranger(parts.db, address, limit=parts.limits.calls_a_minute)
    else:
        allowance = count_hook(parts.db, holder.list_id, limit=parts.limits.hook_calls_a_minute)
    request.state.allowance = allowance
    if allowance.is_spent:
        raise Throttled(retry_after=allowance.resets_in)
    if holder is None:
        raise NotFound
    return holder


Holder = Annotated[KeyHolder, Depends(let_in)]


async def arrived(request: Request, holder: Holder, parts: Annotated[Parts, Depends(parts_of)]) -> People:
    """What someone who was let in has sent."""
    return await read_people(request, holder.tenant.account_id, parts.limits)


@router.get("/hooks/lists/{api_key}")
def greet(_holder: Holder) -> Response:
    """Some services look whether there is anyone before they send."""
    return answer({"message": WELCOME})


@router.post("/hooks/lists/{api_key}")
def take_people(
    holder: Holder,
    sent: Annotated[People, Depends(arrived)],
    parts: Annotated[Parts, Depends(parts_of)],
    source: Annotated[str | None, Query()] = None,
) -> Response:
    """What became of each row, in order. One that is refused keeps none of the others back."""
    if source and source not in SOURCES:
        raise Invalid({"source": [WRONG_SOURCE]})
    with parts.db.transaction(holder.tenant) as tx:
        outcomes = take_in(tx, holder, sent.said, source=source or sent.source, clock=parts.clock)
    shown = [_shown(holder, *each) for each in zip(sent.said, outcomes, strict=True)]
    return name_ignored(answer(shown), sent.ignored)


def _shown(holder: KeyHolder, said: Said, outcome: Outcome | Refusal) -> dict[str, Any]:
    """What we read of a row, and what became of it. Of what was known before, a key shows nothing."""
    shown: dict[str, Any] = dict(said.given)
    if isinstance(outcome, Refusal):
        shown |= {"result": "refused", "error": outcome.why}
    else:
        result, entry = outcome
        shown = {"id": entry.id, "mailing_list_id": holder.list_id, **shown, "result": result}
    return shown | {"ignored": list(said.ignored)}
