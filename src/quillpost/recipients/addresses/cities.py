"""ZIP codes, cities and states; provinces of Canada. The library's look-up reads its whole table every time, and its
list takes 100 MB. So the table is read once, a tenth at a time, and stored as one short text for each ZIP code."""

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module

from quillpost.recipients.addresses.text import (
    DIRECTIONS,
    PROVINCES,
    STANDARD_SPELLINGS,
    STATE_CODES_BY_NAME,
    STREET_SUFFIXES,
    normalize_for_key,
    standardize_text,
)

ZIP_PATTERN = re.compile(r"([0-9]{5})(?:-?([0-9]{4}))?")
ZIP_CACHE_SIZE = 4096
MILITARY_CITIES = frozenset({"APO", "FPO", "DPO"})
_FIELD_SEPARATOR, _NAME_SEPARATOR = "|", ";"


@dataclass(frozen=True, slots=True)
class ZipArea:
    state: str
    city: str
    cities: tuple[str, ...]
    """All names that the USPS accepts, the preferred one first."""
    latitude: float | None
    """Of the center; None for military codes and the like."""
    longitude: float | None
    nicknames: tuple[str, ...] = ()
    """Names that people write and the USPS does not prefer: Manhattan, Queens."""


def find_state_and_city(zip5: str) -> tuple[str, str] | None:
    """The state, and the preferred city in capitals: the most frequent look-up."""
    packed = _ZIP_TABLE.get(zip5)
    if packed is None:
        return None
    state, city, _ = packed.split(_FIELD_SEPARATOR, 2)
    return state, city


@lru_cache(maxsize=ZIP_CACHE_SIZE)
def find_zip_area(zip5: str) -> ZipArea | None:
    packed = _ZIP_TABLE.get(zip5)
    if packed is None:
        return None
    state, _, latitude, longitude, names, nicknames = packed.split(_FIELD_SEPARATOR)
    cities = tuple(names.split(_NAME_SEPARATOR))
    has_coordinates = float(latitude) != 0 or float(longitude) != 0
    return ZipArea(
        state=state,
        city=cities[0],
        cities=cities,
        latitude=float(latitude) if has_coordinates else None,
        longitude=float(longitude) if has_coordinates else None,
        nicknames=tuple(nicknames.split(_NAME_SEPARATOR)) if nicknames else (),
    )


def format_zip(code: str) -> str:
    """Five digits, or five and four with a hyphen; anything else in capitals."""
    if len(code) == 5 and code.isascii() and code.isdigit():
        return code
    match = ZIP_PATTERN.fullmatch(code)
    if match is None:
        return normalize_for_key(code).replace(" ", "")
    return f"{match[1]}-{match[2]}" if match[2] else match[1]


def load_zip_codes() -> None:
    """All of them, for a process whose children are to share them."""
    _ZIP_TABLE.load_all()


def list_zip_codes() -> list[str]:
    return _ZIP_TABLE.list_codes()


class _ZipTable:
    """ZIP codes with the same first digit are loaded when one of them is first looked up, by one thread; the others
    wait for it. A first order waits for a tenth of the table, and not for a second."""

    def __init__(self) -> None:
        self._packed: dict[str, str] = {}
        self._digits_to_load = set("0123456789")
        self._lock = threading.Lock()

    def get(self, zip5: str) -> str | None:
        if zip5[:1] in self._digits_to_load:
            self._load(zip5[:1])
        return self._packed.get(zip5)

    def list_codes(self) -> list[str]:
        self.load_all()
        return sorted(self._packed)

    def load_all(self) -> None:
        for digit in sorted(self._digits_to_load):
            self._load(digit)

    def _load(self, digit: str) -> None:
        with self._lock:
            if digit in self._digits_to_load:
                self._packed.update(_pack_codes(digit))
                self._digits_to_load.remove(digit)


_ZIP_TABLE = _ZipTable()


def _pack_codes(digit: str) -> dict[str, str]:
    library = import_module("zipcodes")  # 40 MB that only those pay who ask
    packed: dict[str, str] = {}
    for row in library.similar_to(digit):
        names = _NAME_SEPARATOR.join([row["city"], *row["acceptable_cities"]])
        nicknames = _NAME_SEPARATOR.join(row["unacceptable_cities"])
        coordinates = (row["lat"] or "0", row["long"] or "0")
        values = (_get_state(row), row["city"].upper(), *coordinates, names, nicknames)
        packed[row["zip_code"]] = _FIELD_SEPARATOR.join(values)
    return packed


def _get_state(row: Mapping[str, str]) -> str:
    """Some military ZIP codes are in New Jersey by the table: all that begin with 09 are in AE."""
    is_military = row["city"].upper() in MILITARY_CITIES
    return "AE" if is_military and row["zip_code"].startswith("09") else row["state"]


CITY_CACHE_SIZE = 16_384


@lru_cache(maxsize=CITY_CACHE_SIZE)
def build_city_key(name: str) -> str:
    """The same for Saint Louis and St. Louis, for Fort Worth and Ft Worth, for De Soto and Desoto."""
    words = [STANDARD_SPELLINGS.get(word, word) for word in standardize_text(name).split()]
    return "".join([DIRECTIONS.get(word) or STREET_SUFFIXES.get(word, word) for word in words]).replace("-", "")


def find_standard_city(zip5: str, name: str) -> str | None:
    """The city as the USPS writes it, if this ZIP code serves it."""
    preferred = find_state_and_city(zip5)
    if preferred is not None and preferred[1] == name.upper() and preferred[1].replace(" ", "").isalpha():
        return preferred[1]
    return _find_accepted_city(zip5, name)


@lru_cache(maxsize=CITY_CACHE_SIZE)
def _find_accepted_city(zip5: str, name: str) -> str | None:
    zip_area = find_zip_area(zip5)
    if zip_area is None:
        return None
    key = build_city_key(name)
    for city in zip_area.cities:
        if build_city_key(city) == key:
            return standardize_text(city)
    return standardize_text(name) if any(build_city_key(city) == key for city in zip_area.nicknames) else None


def restore_zip(code: str, state: str, city: str) -> str | None:
    """A ZIP code whose leading zeros a spreadsheet removed, if state and city confirm it."""
    digits, hyphen, plus4 = code.partition("-")
    if not (digits.isascii() and digits.isdigit() and 3 <= len(digits) <= 4) or (hyphen and len(plus4) != 4):
        return None
    zip5 = digits.zfill(5)
    zip_area = find_zip_area(zip5)
    if zip_area is None or zip_area.state != state or find_standard_city(zip5, city) is None:
        return None
    return f"{zip5}{hyphen}{plus4}"


STATE_CODES = frozenset(STATE_CODES_BY_NAME.values())
STATE_NAME_ENDINGS = frozenset(name.split()[-1] for name in STATE_CODES_BY_NAME if " " in name)


def find_state_code(text: str) -> str | None:
    if text in STATE_CODES:
        return text
    state = " ".join(text.upper().replace(".", "").split())
    return state if state in STATE_CODES else STATE_CODES_BY_NAME.get(state)


_PROVINCE_CODES = frozenset(PROVINCES.values())
_POSTAL_CODE = re.compile(r"[ABCEGHJ-NPRSTVXY]\d[A-Z][ -]?\d[A-Z]\d", re.IGNORECASE)
_CANADIAN_ADDRESS = re.compile(
    r"(?P<street>[^,]+(?:,[^,]+)?),\s*(?P<city>[^,\d]+),\s*(?P<province>[^,\d]+?),?\s+"
    rf"(?P<code>{_POSTAL_CODE.pattern})(?P<country>,?\s+Canada)?[.,]?",
    re.IGNORECASE,
)


def is_canadian(province: str | None, postal_code: str | None) -> bool:
    """Whether one of them is Canadian; no US state has the name of a province."""
    return _find_canadian_province(province or "") is not None or _POSTAL_CODE.fullmatch(postal_code or "") is not None


def split_canadian_address(line: str) -> tuple[dict[str, str], bool] | None:
    """Street, city, province and postal code, and whether the line names the country; or None."""
    match = _CANADIAN_ADDRESS.fullmatch(", ".join(" ".join(part.split()) for part in line.strip().splitlines()))
    province = match and _find_canadian_province(match["province"])
    if match is None or province is None:
        return None
    parts = {
        "address": match["street"].strip(),
        "city": match["city"].strip(),
        "province": province,
        "postal_code": match["code"].upper(),
    }
    return parts, match["country"] is not None


def _find_canadian_province(text: str) -> str | None:
    normalized = text.replace(".", "").strip().upper()
    return normalized if normalized in _PROVINCE_CODES else PROVINCES.get(normalized)
