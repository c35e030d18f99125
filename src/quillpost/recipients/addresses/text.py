"""The vocabulary of Publication 28, and address lines split into its words."""

import csv
import re
import tomllib
import unicodedata
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
"""The standard abbreviation by any spelling."""
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
STATE_CODES_BY_NAME: dict[str, str] = _VOCABULARY["states"]
PROVINCES: dict[str, str] = _VOCABULARY["provinces"]
INVISIBLE_MARKS = re.compile("[\u034f\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Marks that are invisible, or only select another form of the letter before them."""


_ASCII_TRANSLATION = str.maketrans(
    dict.fromkeys(map(chr, (*range(32), 127)), " ")
    | dict.fromkeys('"!$()*+:<=>?@[\\]^_{|}~', " ")
    | {"'": "", "`": "", "#": " # ", ",": " , ", ";": " , ", "\n": " , ", "\r": " , ", "%": " C/O "}
)
_INITIALS = re.compile(r"(?<!\w)([^\W\d_])\.(?=[^\W\d_](?!\w))")
_POINT = re.compile(r"(?<!\d)\.|\.(?!\d)")
_SLASH = re.compile(r"(?<![\d])/|/(?![\d])")
_CARE_OF = re.compile(r"(?<!\w)C ?/ ?O(?!\w)")
_CARE_OF_PLACEHOLDER = "\u0001"
_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_QUOTES = re.compile("[\u02b9-\u02bc\u2018\u2019\u201b\u2032\u00b4\uff07]")
_FRACTION = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")
_LATIN_ACCENTS = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")


def split_segments(text: str) -> list[list[str]]:
    """The words of each part between commas that is not empty."""
    words = _split_words(text)
    if "," not in words:
        return [words] if words else []
    parts: list[list[str]] = [[]]
    for word in words:
        if word == ",":
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def standardize_text(text: str) -> str:
    """In capitals without punctuation: for cities, and lines that are no street."""
    words = _split_words(text)
    return " ".join([word for word in words if word != ","])


def _split_words(text: str) -> list[str]:
    if text.isascii() and text.replace(" ", "").isalnum():
        return text.upper().split()  # nothing in it but letters, digits and spaces, as in most
    if not text.isascii():
        text = _strip_accents(text)
    text = text.upper().translate(_ASCII_TRANSLATION)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if "." in text:
        text = _POINT.sub(" ", _INITIALS.sub(r"\1", text))
    if "/" in text:
        text = _SLASH.sub(" ", _CARE_OF.sub(_CARE_OF_PLACEHOLDER, text)).replace(_CARE_OF_PLACEHOLDER, " C/O ")
    words = text.split()
    return _strip_loose_hyphens(words) if "-" in text else words


def _strip_accents(text: str) -> str:
    """Letters and digits, Latin ones without accents; other characters become spaces."""
    text = INVISIBLE_MARKS.sub("", _FRACTION.sub(lambda match: f" {match[0]}", text))
    decomposed = unicodedata.normalize("NFKD", text).replace("\u2044", "/")
    decomposed = _LATIN_ACCENTS.sub("", _QUOTES.sub("", _DASHES.sub("-", decomposed)))
    return "".join([_letter_or_space(char) for char in decomposed])


def _letter_or_space(char: str) -> str:
    if char.isascii() or unicodedata.category(char)[0] in "LNM":
        return char
    return " "


def _strip_loose_hyphens(words: list[str]) -> list[str]:
    """A hyphen within a word stays; `12 - 14` is one number; other loose hyphens go."""
    cleaned: list[str] = []
    follows_hyphen = False
    for word in words:
        stripped = word.strip("-")
        if not stripped:
            follows_hyphen = True
        elif follows_hyphen and cleaned and cleaned[-1].isdigit() and stripped.isdigit():
            cleaned[-1] += f"-{stripped}"
            follows_hyphen = False
        else:
            cleaned.append(stripped)
            follows_hyphen = False
    return cleaned
