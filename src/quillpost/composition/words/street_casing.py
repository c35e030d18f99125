"""An address in the post's capitals as a hand writes it: without shouting."""

import re

from quillpost.composition.content import Parts
from quillpost.composition.words.casing import capitalised, cased

_DIRECTIONS = frozenset({"N", "S", "E", "W", "NE", "NW", "SE", "SW"})
# Rural, highway and military routes, ships and boxes: letters that are no word.
_LETTERS = _DIRECTIONS | frozenset(
    {"PO", "PMB", "RR", "HC", "PSC", "CMR", "APO", "FPO", "DPO", "US", "USS", "USNS", "UPS", "AFB", "FM"}
    | {"CR", "SR", "TX", "II", "III", "IV", "JFK", "MLK"}
)
_ORDINAL = re.compile(r"\d+(?:ST|ND|RD|TH)")
_SMALL = frozenset({"OF", "THE", "AND", "AT", "ON", "DE", "DEL", "LA", "LAS", "LOS", "DU"})
_MARKS = re.compile(r"[^\w]+")

Given = tuple[str | None, str | None, str | None]
"""The street, the second line and the city as they were given."""


def calm(block: Parts, given: Given) -> Parts:
    """The same parts in the letters of daily use; a word that was given so keeps the spelling it came in."""
    street, second, city, province, postal_code = block
    known = _spellings(given[0]) | _spellings(given[1])
    return (
        street and _line(street, known),
        second and _line(second, known),
        city and _city(city, given[2]),
        province,
        postal_code,
    )


def _city(city: str, given: str | None) -> str:
    """Pub. 28 writes OFALLON: who wrote O'Fallon knows better."""
    if given is not None and _is_mixed(given) and _MARKS.sub("", given).upper() == _MARKS.sub("", city):
        return given
    return cased(city) if city.isupper() else city


def _line(line: str, known: dict[str, str]) -> str:
    if not line.isupper():
        return line  # no post has capitalised it
    return " ".join(
        [known.get(word) or _word(word, is_first=place == 0) for place, word in enumerate(line.split())]
    )


def _word(word: str, *, is_first: bool) -> str:
    if word in _LETTERS:
        return word
    if _ORDINAL.fullmatch(word):
        return word.lower()
    if any(letter.isdigit() for letter in word) or len(word) == 1:
        return word  # a number, 4B, a street that is named by a letter
    if word in _SMALL:
        return capitalised(word) if is_first else word.lower()
    return cased(word) if word.startswith("MC") else _hyphened(word)


def _hyphened(word: str) -> str:
    return "-".join(map(capitalised, word.split("-")))


def _spellings(given: str | None) -> dict[str, str]:
    """By its capitals, each word of a line that was written with care."""
    if given is None or not _is_mixed(given):
        return {}
    words = (word.strip(".,;") for word in given.split())
    return {_MARKS.sub("", word).upper(): word for word in words if _is_whole(word)}


def _is_mixed(text: str) -> bool:
    return text not in (text.upper(), text.lower())


def _is_whole(word: str) -> bool:
    """Capitals at its start: `main` in `12 main St` was not written with care."""
    return word[:1].isupper()
