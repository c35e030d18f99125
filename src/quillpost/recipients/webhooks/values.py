"""Values of a person's fields as other services write them: texts, days, and streets in parts or lines."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from quillpost.core.exact_json import ExactFloat
from quillpost.recipients.addresses.service import HOME_COUNTRY

NUL_CHARACTER = "This text holds a NUL character, which cannot be printed or stored."
INVALID_CHARACTER = "This text holds a character that does not exist (a lone surrogate)."

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_WITH_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[T ]\d.*", re.DOTALL)
_WITHOUT_YEAR = re.compile(r"(?:--)?\d{1,2}[/-]\d{1,2}")
_DIGITS = re.compile(r"-?[0-9]{1,15}")
_SEVERAL_SPACES = re.compile(r" {2,}")
_DAY_MILLISECONDS = timedelta(days=1) // timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAUSIBLE_YEARS = range(1850, 2200)

_NUMBER_FIRST_COUNTRIES = frozenset({"US", "CA", "GB", "IE", "AU", "NZ", "FR", "ZA", "IN", "PR"})
"""Where the number of a house is written before its street."""


def combine_street(fields: dict[str, str]) -> None:
    """The address of its parts, where it came in parts; or apart, where it came on several lines."""
    full_address, route, number = (fields.pop(name, None) for name in ("whole", "route", "number"))
    if "address" not in fields and route:
        is_number_first = fields.get("country", HOME_COUNTRY).upper() in _NUMBER_FIRST_COUNTRIES
        fields["address"] = " ".join(filter(None, (number, route) if is_number_first else (route, number)))
    if "address" not in fields and full_address:
        fields["address"] = full_address
        code = fields.get("postal_code")
        if code and code in full_address:  # its parts are within it
            for part in ("city", "province", "postal_code"):
                fields.pop(part, None)
    lines = [line.strip() for line in fields.get("address", "").splitlines() if line.strip()]
    if len(lines) > 1 and "address2" not in fields:
        fields["address"], fields["address2"] = lines[0], ", ".join(lines[1:])
    elif lines:
        fields["address"] = ", ".join(lines)
    if "address" in fields and not fields.keys() & {"city", "postal_code"}:
        # Some services write an address on one line, with two spaces between its parts.
        fields["address"] = _SEVERAL_SPACES.sub(", ", fields["address"])


def to_text(value: Any) -> str:
    match value:
        case str():
            return value.strip()
        case ExactFloat():
            return value.text
        case bool() | None:
            return ""
        case int():
            return str(value)
    return ""


def find_text_error(text: str) -> str | None:
    """What keeps a text from being stored and printed."""
    if "\x00" in text:
        return NUL_CHARACTER
    return INVALID_CHARACTER if _LONE_SURROGATE.search(text) else None


def normalize_date(text: str) -> str | None:
    """A date as our own calls take one. None where it lacks its year: such a day is of no use to us."""
    if _WITHOUT_YEAR.fullmatch(text):
        return None
    if match := _WITH_TIME.fullmatch(text):
        return match[1]
    if _DIGITS.fullmatch(text) and int(text) and int(text) % _DAY_MILLISECONDS == 0:
        days = int(text) // _DAY_MILLISECONDS  # a midnight, in milliseconds since 1970
        if abs(days) < 400 * 365 and (day := _EPOCH + timedelta(days=days)).year in _PLAUSIBLE_YEARS:
            return day.date().isoformat()
    return text
