"""The key of an address: one for every way to write a delivery point."""

import hashlib
import re
import unicodedata
from functools import lru_cache

from quillpost.recipients.addresses.tables import (
    BUILDINGS,
    COMPANIES,
    DIRECTION_CODES,
    NOTES,
    REQUESTS,
    SAME,
    SPELLED_ORDINALS,
    STANDARD_SUFFIXES,
    TENS,
    UNITS,
)
from quillpost.rendering.text.titles import (
    BUSINESS,
    FAMILY_FIRST,
    HOUSEHOLD,
    PARTICLES,
    PLACEHOLDERS,
    SUFFIXES,
    TITLES,
)

LONGEST_KEY = 500
"""Characters of an address's key, so that it fits into an index in any script."""
KEPT_OF_A_LONG_ONE = 300
NO_PLACE = "|?"
"""How the key of an address ends that may be in many places; no letter or digit of an address is like it."""

NOT_A_LETTER = re.compile(r"[\W_]")
BESIDE_A_LETTER = re.compile(r"(?<!\d) | (?!\d)")
OPTIONAL_POINTS = range(10, 37)
"""The combining classes of Hebrew and Arabic vowel points: most people leave them out."""
_DIGITS = "0123456789"
_ASCII_MARKS = {code: " " for code in range(128) if not chr(code).isalnum()}
SELECTORS = re.compile("[\u034f\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Marks that nobody sees, or that only choose another form of the letter before them."""


Known = tuple[str | None, ...]
"""City, province, e-mail; and of what is no door, the ZIP code and the name."""


def door_key(street: str, unit: str, place: str, country: str, *, known: Known) -> str:
    """`STREET|UNIT|PLACE|COUNTRY`, of parts that are `bare`; the place is a postal code, or else a city.

    A street whose place is not known is no door: there its key tells people apart by all that is known.
    """
    named = [street, unit, place, country]
    if place:
        return _short("|".join(named))
    city, province, email, *more = known
    rest = [bare(city), bare(province), (email or "").lower(), *map(bare, more)]
    return _short("|".join([*named, *rest])) + NO_PLACE


def street_of(key: str) -> str:
    """The part of an address's key that says the street and the house."""
    return key.split("|", 1)[0]


def unit_of(key: str) -> str:
    """The part of an address's key that says the unit, empty where there is none."""
    return key.split("|", 2)[1]


def bare(text: str | None) -> str:
    """Letters with their marks and digits, in capitals; where two numbers would run together, a space."""
    if text is None or text.isascii():
        return _bare_ascii(text or "")
    composed = unicodedata.normalize("NFC", SELECTORS.sub("", text))
    capitals = unicodedata.normalize("NFC", composed.upper())
    words = NOT_A_LETTER.sub(lambda found: found[0] if _is_mark(found[0]) else " ", capitals)
    return BESIDE_A_LETTER.sub("", " ".join(words.split()))


def _bare_ascii(text: str) -> str:
    """The same without patterns: most of a million addresses are such."""
    found, is_after_digit = "", False
    if not text.replace(" ", "").isalnum():
        text = text.translate(_ASCII_MARKS)
    for word in text.upper().split():
        found += f" {word}" if is_after_digit and word[0] in _DIGITS else word
        is_after_digit = word[-1] in _DIGITS
    return found


def _short(key: str) -> str:
    if len(key) <= LONGEST_KEY:
        return key
    return f"{key[:KEPT_OF_A_LONG_ONE]}|{hashlib.sha256(key.encode()).hexdigest()}"


def _is_mark(sign: str) -> bool:
    """Whether it is spoken with the letter before it: without their vowels two Thai streets are one."""
    return unicodedata.category(sign) in ("Mn", "Mc") and unicodedata.combining(sign) not in OPTIONAL_POINTS


PEOPLE = frozenset({"C/O", "ATTN", "ATTENTION"})
"""Words before somebody's name, which is no part of the door."""


def street_key(street: str) -> str:
    """`12 N ASH ST`, `12NASH ST`: directions and the suffix stand apart, and other words together.

    People write Lake Shore and Lakeshore for one street; but W Alton and Walton are two, and so are Fore St
    and Forest.
    """
    words = street.split()
    end = len(words)
    while end > 0 and words[end - 1] in DIRECTION_CODES:
        end -= 1
    suffix = end - 1 if end > 2 and words[end - 1] in STANDARD_SUFFIXES else -1
    found, is_apart = "", False
    for place, word in enumerate(_ordinals_in_digits(words)):
        letters = word if word.isascii() and word.isalnum() else bare(word)
        if not letters:
            continue
        is_direction = word in DIRECTION_CODES
        if found and (
            is_apart or is_direction or place == suffix or (found[-1].isdigit() and letters[0].isdigit())
        ):
            found += " "
        found += letters
        is_apart = is_direction
    return found


def _ordinals_in_digits(words: list[str]) -> list[str]:
    """Each word in the one spelling of it; as many as there were."""
    found = [SAME.get(word, word) for word in words]
    for place, word in enumerate(words):
        tens, hyphen, ones = word.partition("-")
        if tens not in TENS:
            continue
        following = words[place + 1] if not hyphen and place + 1 < len(words) else ""
        ordinal = SPELLED_ORDINALS.get(ones or following, "")
        if len(ordinal) == 3:  # 1ST to 9TH
            found[place] = TENS[tens] + ordinal
            if not hyphen:
                found[place + 1] = ""
    return found


def beside_key(beside: str) -> str:
    """What tells doors of one number apart: a building, a box; not who is there, or how to get in."""
    words = beside.split()
    people = next((place for place, word in enumerate(words) if word in PEOPLE), len(words))
    words = words[:people]
    if not words:
        return ""
    if BUILDINGS.isdisjoint(words) and UNITS.keys().isdisjoint(words):
        is_note = words[0] in REQUESTS or not NOTES.isdisjoint(words)
        if is_note or not COMPANIES.isdisjoint(words):
            return ""
    return bare(" ".join(words))


KNOWN_AT_ONCE = 4096
_ASIDE = re.compile(r"\([^()]*\)|\"[^\"]*\"|“[^“”]*”")
_OR_RESIDENT = re.compile(
    r"\s+or\s+(?:the\s+)?(?:current\s+)?(?:resident|occupant|neighbou?r)s?$", re.IGNORECASE
)
_IN_CARE = re.compile(r",?\s+(?:c\s?/\s?o|℅|(?:in\s+)?care\s+of)\s.*", re.IGNORECASE | re.DOTALL)
_FAMILY = frozenset({"family", "household"})
_BEFORE_FAMILIES = PARTICLES | {"st"}
"""`St. John` too; a word alone would be a street."""
_JOINERS = frozenset({"and", "&", "+"})
_FIRST_WORDS = frozenset({"the", "current"})
_NO_NAMES = TITLES | SUFFIXES | BUSINESS | HOUSEHOLD | PARTICLES | _FAMILY | _JOINERS | _FIRST_WORDS


@lru_cache(maxsize=KNOWN_AT_ONCE)
def surname_of(name: str | None) -> str | None:
    """DOE of `Dr. Jane Q. Doe Jr.`, of `Doe, Jane` and of `The Doe Family`; None of a firm, or of nobody."""
    text = (name or "").strip()
    if _is_plain(text):
        return text.split(" ")[1].upper()
    if not text.replace(" ", "").isalnum() or " care of " in text.lower():
        text = _IN_CARE.sub("", _ASIDE.sub(" ", text).strip())
    if "or" in text.lower():
        text = _OR_RESIDENT.sub("", text).strip()
    if not text or "@" in text or not any(map(str.isalpha, text)):
        return None
    words = _family_last(text)
    plain = [_small(word) for word in words]
    if plain and plain[-1] in _FAMILY:
        plain = _without_joiner(plain[:-1])
    if not plain or plain[-1] in BUSINESS or plain[-1] in HOUSEHOLD or " ".join(plain) in PLACEHOLDERS:
        return None
    if all(map(FAMILY_FIRST.fullmatch, plain)):
        return plain[0]
    start, end = _without_titles(plain)
    first = end - 1
    # `van der Berg` and `de Gaulle`, but not `Van Morrison`.
    while (
        first > start
        and plain[first - 1] in _BEFORE_FAMILIES
        and (first - 1 > start or words[first - 1].islower())
    ):
        first -= 1
    return (bare(" ".join(plain[first:end])) or None) if start < end else None


def _is_plain(text: str) -> bool:
    """Whether it is a first name and a last name and nothing else, as most are."""
    first, _, last = text.partition(" ")
    return (
        text.isascii()
        and first.isalpha()
        and last.isalnum()
        and first.lower() not in _NO_NAMES
        and last.lower() not in _NO_NAMES
    )


def _without_joiner(words: list[str]) -> list[str]:
    return words[:-1] if words and words[-1] in _JOINERS else words


def _small(word: str) -> str:
    return word.replace(".", "").strip(",;:").lower()


def _without_titles(words: list[str]) -> tuple[int, int]:
    start, end = 0, len(words)
    while start < end and (words[start] in TITLES or words[start] in _FIRST_WORDS):
        start += 1
    while end - 1 > start and words[end - 1] in SUFFIXES:
        end -= 1
    while end > start and (words[end - 1] in TITLES or words[end - 1] in _JOINERS):
        end -= 1
    return start, end


def _family_last(text: str) -> list[str]:
    """`Doe, Jane` turned round; the comma before a suffix (`Doe, Jr.`) is no turn."""
    if "," not in text:
        return text.split()
    parts = [part.split() for part in text.split(",") if part.strip()]
    while len(parts) > 1 and all(_small(word) in SUFFIXES | BUSINESS for word in parts[-1]):
        if any(_small(word) in BUSINESS for word in parts[-1]):
            return parts[0] + parts[-1]
        parts.pop()
    if not parts:
        return []
    return parts[1] + parts[0] if len(parts) == 2 else parts[0]
