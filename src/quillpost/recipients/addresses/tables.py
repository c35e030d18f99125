"""The words of Publication 28 as look-ups, read from the files in `data`."""

import csv
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files

_DATA = files("quillpost.recipients.addresses") / "data"
_WORDS = tomllib.loads((_DATA / "words.toml").read_text(encoding="utf-8"))


def _suffixes() -> dict[str, str]:
    found: dict[str, str] = {}
    for row in csv.DictReader((_DATA / "street_suffixes.csv").read_text(encoding="utf-8").splitlines()):
        found |= dict.fromkeys([row["standard"], row["name"], *row["also"].split()], row["standard"])
    return found


def _by_spelling(entries: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {word: standard for standard, also in entries.items() for word in (standard, *also)}


SUFFIXES = _suffixes()
"""The standard abbreviation by any spelling of a street suffix."""
STANDARD_SUFFIXES = frozenset(SUFFIXES.values())
STRONG_SUFFIXES = frozenset(
    word for word, standard in SUFFIXES.items() if standard in _WORDS["strong_suffixes"]["standards"]
)

DIRECTIONS: dict[str, str] = _WORDS["directions"] | {code: code for code in _WORDS["directions"].values()}
DIRECTION_CODES = frozenset(DIRECTIONS.values())
DOUBLE_DIRECTIONS = {(first, second): first + second for first in "NS" for second in "EW"}

NUMBERED_UNITS = _by_spelling(_WORDS["units"])
LONE_UNITS = _by_spelling(_WORDS["lone_units"])
UNITS = NUMBERED_UNITS | LONE_UNITS
WEAK_UNITS = frozenset(_WORDS["weak_units"]["words"])
ONE_DOOR = frozenset(_WORDS["one_door"]["designators"])
COMPANIES, NOTES, REQUESTS, BUILDINGS = (
    frozenset(_WORDS["no_door"][kind]) for kind in ("companies", "notes", "requests", "buildings")
)
SAYS_NOTHING = frozenset(_WORDS["says_nothing"]["phrases"])

HIGHWAYS = _by_spelling(_WORDS["highways"])
HIGHWAY_STARTS = frozenset(phrase.split()[0] for phrase in HIGHWAYS)
BEFORE_HIGHWAYS = frozenset(_WORDS["highway_kinds"]["words"])
BEFORE_NAMES = frozenset(_WORDS["before_names"]["words"])

BOXES = _by_spelling(_WORDS["boxes"])
ROUTES = _by_spelling(_WORDS["routes"])
MILITARY = _by_spelling(_WORDS["military"])
BOX_STARTS = frozenset(phrase.split()[0] for phrase in (*BOXES, *ROUTES, *MILITARY))

SPELLED_NUMBERS: dict[str, str] = _WORDS["spelled_numbers"]
PUERTO_RICO: dict[str, str] = _WORDS["puerto_rico"]
NEIGHBOURHOODS, STREETS_OF_PUERTO_RICO = (
    frozenset(_WORDS["neighbourhoods"][kind]) for kind in ("words", "streets")
)
SAME: dict[str, str] = _WORDS["same"]
SPELLED_ORDINALS = {word: number for word, number in SAME.items() if number[0].isdigit()}
TENS: dict[str, str] = _WORDS["tens"]
