"""Values of a person's fields as other services write them: texts, days, and streets in parts or lines."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from quillpost.core.exact_json import WrittenNumber
from quillpost.recipients.addresses.service import HOME

NUL = "This text holds a NUL character, which cannot be printed or stored."
NO_CHARACTER = "This text holds a character that does not exist (a lone surrogate)."

_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")
_WITH_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[T ]\d.*", re.DOTALL)
_WITHOUT_YEAR = re.compile(r"(?:--)?\d{1,2}[/-]\d{1,2}")
_DIGITS = re.compile(r"-?[0-9]{1,15}")
_APART = re.compile(r" {2,}")
_DAY = timedelta(days=1) // timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS = range(1850, 2200)

_NUMBER_FIRST = frozenset({"US", "CA", "GB", "IE", "AU", "NZ", "FR", "ZA", "IN", "PR"})
"""Where the number of a house is written before its street."""


def put_street(given: dict[str, str]) -> None:
    """The address of its parts, where it came in parts; or apart, where it came on several lines."""
    whole, route, number = (given.pop(name, None) for name in ("whole", "route", "number"))
    if "address" not in given and route:
        is_first = given.get("country", HOME).upper() in _NUMBER_FIRST
        given["address"] = " ".join(filter(None, (number, route) if is_first else (route, number)))
    if "address" not in given and whole:
        given["address"] = whole
        code = given.get("postal_code")
        if code and code in whole:  # its parts are within it
            for part in ("city", "province", "postal_code"):
                given.pop(part, None)
    lines = [line.strip() for line in given.get("address", "").splitlines() if line.strip()]
    if len(lines) > 1 and "address2" not in given:
        given["address"], given["address2"] = lines[0], ", ".join(lines[1:])
    elif lines:
        given["address"] = ", ".join(lines)
    if "address" in given and not given.keys() & {"city", "postal_code"}:
        # Some services write an address on one line, with two spaces between its parts.
        given["address"] = _APART.sub(", ", given["address"])


def text_of(value: Any) -> str:
    match value:
        case str():
            return value.strip()
        case WrittenNumber():
            return value.text
        case bool() | None:
            return ""
        case int():
            return str(value)
    return ""


def flaw_of(text: str) -> str | None:
    """What keeps a text from being stored and printed."""
    if "\x00" in text:
        return NUL
    return NO_CHARACTER if _HALF_A_CHARACTER.search(text) else None


def day_said(text: str) -> str | None:
    """A date as our own calls take one. None where it lacks its year: such a day is of no use to us."""
    if _WITHOUT_YEAR.fullmatch(text):
        return None
    if with_time := _WITH_TIME.fullmatch(text):
        return with_time[1]
    if _DIGITS.fullmatch(text) and int(text) and int(text) % _DAY == 0:
        days = int(text) // _DAY  # a midnight, in milliseconds since 1970
        if abs(days) < 400 * 365 and (day := _EPOCH + timedelta(days=days)).year in _YEARS:
            return day.date().isoformat()
    return text
