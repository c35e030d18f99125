"""How other services name and write the fields of a person. Names are compared without case, spaces and punctuation,
and a nested field is known by both names in a row: `address.city`, `address[city]`, `Address City` and `address_city`
are one name."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from typing import Any

from quillpost.core.exact_json import ExactFloat
from quillpost.recipients.addresses.rules import HOME_COUNTRY

MAX_NAME_LENGTH = 100

_TABLES: dict[str, Any] = tomllib.loads(
    (files("quillpost.recipients") / "field_names.toml").read_text(encoding="utf-8")
)

PERSON_FIELD_NAMES: dict[str, list[str]] = _TABLES["person"]
ADDRESS_FIELD_NAMES: dict[str, list[str]] = _TABLES["address"]
ADDRESS_PREFIXES: list[list[str]] = _TABLES["address_prefixes"]
PERSON_OBJECT_NAMES = frozenset(_TABLES["person_objects"])
PEOPLE_ARRAY_NAMES = frozenset(_TABLES["people_arrays"])
SINGLE_VALUE_ARRAYS: dict[str, str] = _TABLES["single_value_arrays"]
PRIORITY_OBJECT_NAME = "customdata"
"""What someone set by hand for this very call goes before what the tool sends anyway."""

CUSTOM_FIELD_PATTERN = re.compile(r"custom(?:field|value|text)?0?([1-9]|10)")


@dataclass(frozen=True, slots=True)
class FieldMeaning:
    """What a name stands for; of several names of one field the lowest rank wins."""

    field: str
    rank: int
    address_index: int | None = None
    name_address_index: int | None = None
    """At which of the addresses someone has this name: an order may be for another person than the payer."""


def normalize_name(name: str) -> str:
    """Only letters and digits, in lower case, without the suffix of a CRM's custom fields."""
    return _normalize_name(name.strip()[: MAX_NAME_LENGTH + 1])


@lru_cache(4_096)  # the rows of a body have the same names
def _normalize_name(name: str) -> str:
    return "".join(char for char in name.removesuffix("__c").casefold() if char.isalnum())


def find_field_meaning(name: str) -> FieldMeaning | None:
    if len(name) > MAX_NAME_LENGTH:
        return None
    if (exact_meaning := _MEANINGS.get(name)) is not None:
        return exact_meaning
    if custom_match := CUSTOM_FIELD_PATTERN.fullmatch(name):
        return FieldMeaning(f"custom{custom_match[1]}", 0)
    if (meaning_at_address := _MEANINGS_AT_ADDRESS.get(name)) is not None:
        return meaning_at_address
    owner_prefix = next((candidate for candidate in _TABLES["owner_prefixes"] if name.startswith(candidate)), None)
    if owner_prefix is None or (owner_meaning := _MEANINGS.get(name.removeprefix(owner_prefix))) is None:
        return None
    return FieldMeaning(owner_meaning.field, owner_meaning.rank + _RANK_PENALTY, owner_meaning.address_index)


def choose_address(meanings: Iterable[FieldMeaning]) -> int | None:
    """The index of the first address that names a street, else of the first of which anything is known."""
    fields = [(meaning.address_index, meaning.field) for meaning in meanings if meaning.address_index is not None]
    with_street = [address_index for address_index, field in fields if field in STREET_FIELDS]
    return min(with_street or [address_index for address_index, _ in fields], default=None)


STREET_FIELDS = frozenset({"address", "whole", "route"})
_RANK_PENALTY = 100


def _iter_person_names() -> Iterator[tuple[str, FieldMeaning]]:
    for field, names in PERSON_FIELD_NAMES.items():
        yield from ((name, FieldMeaning(field, rank)) for rank, name in enumerate(names))


def _iter_address_names() -> Iterator[tuple[str, FieldMeaning]]:
    for address_index, prefixes in enumerate(ADDRESS_PREFIXES):
        for prefix in prefixes:
            for field, names in ADDRESS_FIELD_NAMES.items():
                for rank, name in enumerate(names):
                    yield prefix + name, FieldMeaning(field, rank, address_index)
            if prefix.endswith("address"):
                # Inside an address a code can be but one; and an address that has parts is whole by itself.
                yield prefix + "code", FieldMeaning("postal_code", _RANK_PENALTY - 1, address_index)
                yield prefix + "value", FieldMeaning("whole", _RANK_PENALTY - 1, address_index)
                yield prefix, FieldMeaning("whole", _RANK_PENALTY - 2, address_index)


def _build_meanings() -> dict[str, FieldMeaning]:
    meanings: dict[str, FieldMeaning] = {}
    for name, field_meaning in (*_iter_person_names(), *_iter_address_names()):
        meanings.setdefault(name, field_meaning)  # an earlier entry of the tables is the likelier
    # Without the word address before them these are too little to recognize an address by.
    for vague_name in ("full", "formatted"):
        del meanings[vague_name]
    return meanings


NAME_FIELDS = ("name", "first_name", "last_name", "company")


def _build_meanings_at_address() -> dict[str, FieldMeaning]:
    """Names behind that of an address: `shipping_address.first_name`."""
    return {
        prefix + name: FieldMeaning(field, rank + _RANK_PENALTY, name_address_index=address_index)
        for address_index, prefixes in enumerate(ADDRESS_PREFIXES)
        for prefix in prefixes
        if address_index
        for field in NAME_FIELDS
        for rank, name in enumerate(PERSON_FIELD_NAMES[field])
    }


_MEANINGS = _build_meanings()
_MEANINGS_AT_ADDRESS = _build_meanings_at_address()
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
"""Countries that write the house number before the street."""


def combine_street(fields: dict[str, str]) -> None:
    """Build the address from its parts, or split it where it came on several lines."""
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
    if "\x00" in text:
        return NUL_CHARACTER
    return INVALID_CHARACTER if _LONE_SURROGATE.search(text) else None


def normalize_date(text: str) -> str | None:
    """As our API takes a date; None without a year, which is of no use."""
    if _WITHOUT_YEAR.fullmatch(text):
        return None
    if match := _WITH_TIME.fullmatch(text):
        return match[1]
    if _DIGITS.fullmatch(text) and int(text) and int(text) % _DAY_MILLISECONDS == 0:
        days = int(text) // _DAY_MILLISECONDS  # a midnight, in milliseconds since 1970
        if abs(days) < 400 * 365 and (day := _EPOCH + timedelta(days=days)).year in _PLAUSIBLE_YEARS:
            return day.date().isoformat()
    return text
