"""Capitals in names and streets that were typed without care for them."""

import re

from quillpost.rendering.models import Parts
from quillpost.rendering.text.titles import DEGREES, PARTICLES, ROMAN, SUFFIXES

_JOINERS = frozenset({"&", "+", "and", "und", "et"})
_ACRONYMS = frozenset({"llc", "llp", "pllc", "hoa", "usa"})
# Words whose capitals follow no rule.
_SPELLINGS = {"phd": "PhD"} | {word: word.upper() for word in ROMAN | DEGREES | _ACRONYMS}
_ODD = PARTICLES | _JOINERS | SUFFIXES | frozenset(_SPELLINGS)
_BEFORE_APOSTROPHE = frozenset({"dell", "dall", "sant"})
_APOSTROPHE = re.compile("['’ʼ`´]")
_TYPED_ACCENT = re.compile(r"(?<=\w)[`´](?=\w)")
_TWO_CONSONANTS = re.compile("(?!ng|mr|ms|mx|dr|fr|st)[bcdfghjklmnpqrstvwxz]{2}")
_MARKED = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)+")
_PART = re.compile(r"[^-.]+")


def cased(name: str) -> str:
    """Capitals for words typed all in capitals or all in small letters; others stay.

    In a name of mixed words (`Jane DOE`, `Vincent van Gogh`, `TJ Smith`) only shouted words are
    calmed, and only the first is raised.
    """
    name = _TYPED_ACCENT.sub("'", name)
    words = name.split(" ")
    # A sharp s has no capital in daily use: `WEIß` is shouted all the same.
    if name.replace("ß", "") == name.replace("ß", "").upper() or name == name.lower():
        # `JUAN Y MARIA LOPEZ` are two, `JOHN Y SMITH` is one with an initial.
        if len(words) > 3 and words[1] in "yY":
            words[1] = "y"
        return " ".join([_cased_word(word, inside=place > 0) for place, word in enumerate(words)])
    return " ".join([_calmed(word, inside=place > 0) for place, word in enumerate(words)])


def ordinary(word: str) -> str | None:
    """The word as a name shows it, if it leaves no doubt; most do."""
    if len(word) < 3 or word.lower() in _ODD or not _is_plain(word):
        return None
    if word.istitle():
        return word
    return _cased_word(word, inside=True) if word.isupper() else None


def joins(word: str) -> bool:
    """Whether the word stands between two people, or (`y`) between two surnames."""
    return word == "y" or word.lower() in _JOINERS


def bare(word: str) -> str:
    """The word without the marks around and inside it, in small letters: for comparing."""
    return word.replace(".", "").strip(",;:").lower()


def _is_plain(word: str) -> bool:
    """Letters, perhaps joined by apostrophes or hyphens."""
    return word.isalpha() or _MARKED.fullmatch(word) is not None


def _calmed(word: str, *, inside: bool) -> str:
    is_shouted = len(word) > 2 and word.isupper() and _is_plain(word)
    is_small = not inside and word.islower() and word not in PARTICLES
    return _cased_word(word, inside=inside) if is_shouted or is_small else word


def _cased_word(word: str, *, inside: bool) -> str:
    small = word.lower()
    plain = bare(small)
    if plain in _SPELLINGS and (inside or plain not in SUFFIXES) and "." not in word:
        return word.lower().replace(plain, _SPELLINGS[plain])
    if inside and (small in PARTICLES or small in _JOINERS or word == "y"):
        return small
    if not inside and _TWO_CONSONANTS.fullmatch(small):
        return small.upper()
    return _PART.sub(lambda part: _cased_part(part[0]), word)


def _cased_part(part: str) -> str:
    """A part between hyphens or full stops."""
    mark = _APOSTROPHE.search(part)
    if mark is not None:
        head, tail = part[: mark.start()], part[mark.end() :]
        if (len(head) == 1 and len(tail) > 1) or head.lower() in _BEFORE_APOSTROPHE:
            return capitalised(head) + mark[0] + capitalised(tail)
    if len(part) > 4 and part[:2].lower() == "mc":
        return "Mc" + capitalised(part[2:])
    return capitalised(part)


def capitalised(part: str) -> str:
    """The first letter large, the others small. A dotted İ becomes a plain i, not an i with two dots."""
    if part.isascii() and part.isalpha():
        return part.capitalize()
    for place, letter in enumerate(part):
        if letter.isalpha():
            head = part[:place] + (letter if letter.isupper() else letter.title())
            return head + part[place + 1 :].replace("İ", "i").lower()
    return part


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
