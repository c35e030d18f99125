"""ZIP codes, cities and states.

Its own look-up reads the whole table for every question, and its list of all takes 100 MB. So the table is
read once, in parts, at the first question, and kept as one short text for each ZIP code.
"""

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module

from quillpost.recipients.addresses.keys import bare
from quillpost.recipients.addresses.segments import plain
from quillpost.recipients.addresses.tables import DIRECTIONS, SAME, SUFFIXES

ZIP = re.compile(r"([0-9]{5})(?:-?([0-9]{4}))?")
ASKED_AT_ONCE = 4096
MILITARY_TOWNS = frozenset({"APO", "FPO", "DPO"})
_BETWEEN, _AMONG = "|", ";"


@dataclass(frozen=True, slots=True)
class ZipPlace:
    state: str
    city: str
    """The name that the postal service prefers."""
    cities: tuple[str, ...]
    """All names that it accepts, the preferred one first."""
    latitude: float | None
    """Of the middle of the area; None where it is nowhere in particular, as with the military."""
    longitude: float | None
    nicknames: tuple[str, ...] = ()
    """Names that people write and the postal service would rather not read: Manhattan, Queens."""


def state_and_city(zip5: str) -> tuple[str, str] | None:
    """The state, and in capitals the city's preferred name: what nearly every question is about."""
    packed = _TABLE.get(zip5)
    if packed is None:
        return None
    state, city, _ = packed.split(_BETWEEN, 2)
    return state, city


@lru_cache(maxsize=ASKED_AT_ONCE)
def zip_place(zip5: str) -> ZipPlace | None:
    """Where the ZIP code of these five digits is, or None where there is no such."""
    packed = _TABLE.get(zip5)
    if packed is None:
        return None
    state, _, latitude, longitude, names, nicknames = packed.split(_BETWEEN)
    cities = tuple(names.split(_AMONG))
    is_somewhere = float(latitude) != 0 or float(longitude) != 0
    return ZipPlace(
        state=state,
        city=cities[0],
        cities=cities,
        latitude=float(latitude) if is_somewhere else None,
        longitude=float(longitude) if is_somewhere else None,
        nicknames=tuple(nicknames.split(_AMONG)) if nicknames else (),
    )


def written_zip(code: str) -> str:
    """Five digits, or five and four with a hyphen; what is neither stays, in capitals."""
    if len(code) == 5 and code.isascii() and code.isdigit():
        return code
    parts = ZIP.fullmatch(code)
    if parts is None:
        return bare(code).replace(" ", "")
    return f"{parts[1]}-{parts[2]}" if parts[2] else parts[1]


def all_zips() -> list[str]:
    """Every ZIP code, in order."""
    return sorted(_TABLE.whole())


class _Table:
    """Read at the first question, by one thread; the others wait for it."""

    def __init__(self) -> None:
        self._packed: dict[str, str] | None = None
        self._reading = threading.Lock()

    def get(self, zip5: str) -> str | None:
        return (self._packed or self.whole()).get(zip5)

    def whole(self) -> dict[str, str]:
        with self._reading:
            if self._packed is None:
                self._packed = _packed()
            return self._packed


_TABLE = _Table()


def _packed() -> dict[str, str]:
    library = import_module("zipcodes")  # 40 MB that only those pay who ask
    packed: dict[str, str] = {}
    for digit in "0123456789":
        for row in library.similar_to(digit):
            names = _AMONG.join([row["city"], *row["acceptable_cities"]])
            nicknames = _AMONG.join(row["unacceptable_cities"])
            where = (row["lat"] or "0", row["long"] or "0")
            parts = (_state(row), row["city"].upper(), *where, names, nicknames)
            packed[row["zip_code"]] = _BETWEEN.join(parts)
    return packed


def _state(row: Mapping[str, str]) -> str:
    """Some ZIP codes of the armed forces are in New Jersey by the table: in AE, as all that begin with 09."""
    is_military = row["city"].upper() in MILITARY_TOWNS
    return "AE" if is_military and row["zip_code"].startswith("09") else row["state"]


KNOWN_AT_ONCE = 16_384


@lru_cache(maxsize=KNOWN_AT_ONCE)
def town_key(name: str) -> str:
    """The same for Saint Louis and St. Louis, for Fort Worth and Ft Worth, for De Soto and Desoto."""
    words = [SAME.get(word, word) for word in plain(name).split()]
    return "".join([DIRECTIONS.get(word) or SUFFIXES.get(word, word) for word in words]).replace("-", "")


def town_of(zip5: str, name: str) -> str | None:
    """The town as the postal service writes it, where it is one that this ZIP code serves."""
    preferred = state_and_city(zip5)
    if preferred is not None and preferred[1] == name.upper() and preferred[1].replace(" ", "").isalpha():
        return preferred[1]
    return _any_town_of(zip5, name)


@lru_cache(maxsize=KNOWN_AT_ONCE)
def _any_town_of(zip5: str, name: str) -> str | None:
    place = zip_place(zip5)
    if place is None:
        return None
    key = town_key(name)
    for known in place.cities:
        if town_key(known) == key:
            return plain(known)
    return plain(name) if any(town_key(known) == key for known in place.nicknames) else None


def restored_zip(code: str, state: str, city: str) -> str | None:
    """A ZIP code whose leading zeros a spreadsheet ate, where state and city both say that it is meant."""
    digits, hyphen, more = code.partition("-")
    if not (digits.isascii() and digits.isdigit() and 3 <= len(digits) <= 4) or (hyphen and len(more) != 4):
        return None
    zip5 = digits.zfill(5)
    place = zip_place(zip5)
    if place is None or place.state != state or town_of(zip5, city) is None:
        return None
    return f"{zip5}{hyphen}{more}"


STATES = {
    "ALABAMA": "AL", "ALASKA": "AK", "AMERICAN SAMOA": "AS", "ARIZONA": "AZ", "ARKANSAS": "AR",
    "ARMED FORCES AMERICAS": "AA", "ARMED FORCES EUROPE": "AE", "ARMED FORCES PACIFIC": "AP",
    "CALIFORNIA": "CA", "COLORADO": "CO", "CONNECTICUT": "CT", "DELAWARE": "DE",
    "DISTRICT OF COLUMBIA": "DC", "FEDERATED STATES OF MICRONESIA": "FM", "FLORIDA": "FL",
    "GEORGIA": "GA", "GUAM": "GU", "HAWAII": "HI", "IDAHO": "ID", "ILLINOIS": "IL",
    "INDIANA": "IN", "IOWA": "IA", "KANSAS": "KS", "KENTUCKY": "KY", "LOUISIANA": "LA",
    "MAINE": "ME", "MARSHALL ISLANDS": "MH", "MARYLAND": "MD", "MASSACHUSETTS": "MA",
    "MICHIGAN": "MI", "MINNESOTA": "MN", "MISSISSIPPI": "MS", "MISSOURI": "MO", "MONTANA": "MT",
    "NEBRASKA": "NE", "NEVADA": "NV", "NEW HAMPSHIRE": "NH", "NEW JERSEY": "NJ",
    "NEW MEXICO": "NM", "NEW YORK": "NY", "NORTH CAROLINA": "NC", "NORTH DAKOTA": "ND",
    "NORTHERN MARIANA ISLANDS": "MP", "OHIO": "OH", "OKLAHOMA": "OK", "OREGON": "OR",
    "PALAU": "PW", "PENNSYLVANIA": "PA", "PUERTO RICO": "PR", "RHODE ISLAND": "RI",
    "SOUTH CAROLINA": "SC", "SOUTH DAKOTA": "SD", "TENNESSEE": "TN", "TEXAS": "TX", "UTAH": "UT",
    "VERMONT": "VT", "VIRGIN ISLANDS": "VI", "VIRGINIA": "VA", "WASHINGTON": "WA",
    "WEST VIRGINIA": "WV", "WISCONSIN": "WI", "WYOMING": "WY",
}  # fmt: skip
CODES = frozenset(STATES.values())
LAST_WORDS = frozenset(name.split()[-1] for name in STATES if " " in name)
"""How the names end that are more than one word."""


def state_code(text: str) -> str | None:
    """The two letters for a state given as letters or name, or None."""
    if text in CODES:
        return text
    word = " ".join(text.upper().replace(".", "").split())
    return word if word in CODES else STATES.get(word)
