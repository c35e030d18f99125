"""The key of an address: one for every way to write a door, another for another door."""

import hashlib
import re
import unicodedata

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
