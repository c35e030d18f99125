"""The words of Publication 28 as look-ups, read from the files in `data`."""

import csv
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files

_DATA_FOLDER = files("quillpost.recipients.addresses") / "data"
_VOCABULARY = tomllib.loads((_DATA_FOLDER / "words.toml").read_text(encoding="utf-8"))


def _read_suffixes() -> dict[str, str]:
    suffixes: dict[str, str] = {}
    for row in csv.DictReader((_DATA_FOLDER / "street_suffixes.csv").read_text(encoding="utf-8").splitlines()):
        suffixes |= dict.fromkeys([row["standard"], row["name"], *row["also"].split()], row["standard"])
    return suffixes


def _index_by_spelling(entries: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {word: standard for standard, spellings in entries.items() for word in (standard, *spellings)}


STREET_SUFFIXES = _read_suffixes()
"""The standard abbreviation by any spelling of a street suffix."""
STANDARD_STREET_SUFFIXES = frozenset(STREET_SUFFIXES.values())
UNAMBIGUOUS_STREET_SUFFIXES = frozenset(
    word for word, standard in STREET_SUFFIXES.items() if standard in _VOCABULARY["strong_suffixes"]["standards"]
)

DIRECTIONS: dict[str, str] = _VOCABULARY["directions"] | {code: code for code in _VOCABULARY["directions"].values()}
DIRECTION_CODES = frozenset(DIRECTIONS.values())
DOUBLE_DIRECTIONS = {(first, second): first + second for first in "NS" for second in "EW"}

NUMBERED_UNITS = _index_by_spelling(_VOCABULARY["units"])
UNNUMBERED_UNITS = _index_by_spelling(_VOCABULARY["lone_units"])
UNITS = NUMBERED_UNITS | UNNUMBERED_UNITS
AMBIGUOUS_UNITS = frozenset(_VOCABULARY["weak_units"]["words"])
INTERCHANGEABLE_UNITS = frozenset(_VOCABULARY["one_door"]["designators"])
COMPANY_WORDS, NOTE_WORDS, REQUEST_WORDS, BUILDING_WORDS = (
    frozenset(_VOCABULARY["no_door"][kind]) for kind in ("companies", "notes", "requests", "buildings")
)
MEANINGLESS_PHRASES = frozenset(_VOCABULARY["says_nothing"]["phrases"])

HIGHWAY_KINDS = _index_by_spelling(_VOCABULARY["highways"])
HIGHWAY_STARTS = frozenset(phrase.split()[0] for phrase in HIGHWAY_KINDS)
HIGHWAY_PREFIXES = frozenset(_VOCABULARY["highway_kinds"]["words"])
NAME_PREFIXES = frozenset(_VOCABULARY["before_names"]["words"])

BOX_KINDS = _index_by_spelling(_VOCABULARY["boxes"])
ROUTE_KINDS = _index_by_spelling(_VOCABULARY["routes"])
MILITARY_KINDS = _index_by_spelling(_VOCABULARY["military"])
BOX_STARTS = frozenset(phrase.split()[0] for phrase in (*BOX_KINDS, *ROUTE_KINDS, *MILITARY_KINDS))

SPELLED_NUMBERS: dict[str, str] = _VOCABULARY["spelled_numbers"]
PUERTO_RICO_WORDS: dict[str, str] = _VOCABULARY["puerto_rico"]
PUERTO_RICO_NEIGHBORHOODS, PUERTO_RICO_STREETS = (
    frozenset(_VOCABULARY["neighbourhoods"][kind]) for kind in ("words", "streets")
)
STANDARD_SPELLINGS: dict[str, str] = _VOCABULARY["same"]
SPELLED_ORDINALS = {word: number for word, number in STANDARD_SPELLINGS.items() if number[0].isdigit()}
SPELLED_TENS: dict[str, str] = _VOCABULARY["tens"]
