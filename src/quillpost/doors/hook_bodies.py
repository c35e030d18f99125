"""What other services send to a list: JSON, or a form whose names are taken apart at their brackets."""

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.types import Message

from quillpost.api.bodies import MULTIPART, ReadRequest, Upload, understand
from quillpost.api.errors import WrongBody
from quillpost.audience.field_names import meaning, plain
from quillpost.doors.raw_bodies import at_most
from quillpost.kit import exact_json
from quillpost.kit.errors import Invalid

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


async def arrived(request: Request, *, largest: int) -> bytes | Pairs:
    """The body as it came; a form with parts is read here, as its parts are bytes."""
    body = await at_most(min(largest, LARGEST))(request)
    if kind_of(request) != MULTIPART or not body.strip():
        return body
    read = await understand(Request(request.scope, _again(body)), takes_files=True)
    assert isinstance(read, ReadRequest)
    for name, value in read.understood.items():
        if isinstance(value, Upload):
            raise Invalid({name: [FILES]})
    return [(name, str(value)) for name, value in read.understood.items()]


def people_of(kind: str, body: bytes | Pairs) -> Any:
    """What was sent: an object or an array."""
    if not isinstance(body, bytes):
        return nested(body)
    if not body.strip():
        raise Invalid({"body": [EMPTY]})
    looks_like_json = body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    if kind == FORM and looks_like_json:
        raise WrongBody(415, JSON_AS_FORM)
    if kind == FORM:
        return nested(_form(body))
    # Not every tool says what it sends.
    if (
        kind == "application/json"
        or kind.endswith("+json")
        or (kind in ("", "text/plain") and looks_like_json)
    ):
        return _json(body)
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


def _form(body: bytes) -> Pairs:
    try:
        return parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Invalid({"body": [NO_FORM]}) from None


def _json(body: bytes) -> Any:
    try:
        value = exact_json.read(body)
    except exact_json.NotJson as wrong:
        raise Invalid({"body": [str(wrong).encode(errors="backslashreplace").decode()]}) from None
    if not isinstance(value, dict | list):
        raise Invalid({"body": [NO_PEOPLE]})
    return value


def _again(body: bytes) -> Any:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
