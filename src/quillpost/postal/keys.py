"""The key of an address: one for every way to write a door, another for another door."""

import hashlib
import re
import unicodedata
from collections.abc import Mapping

LONGEST_KEY = 500
"""Characters of an address's key, so that it fits into an index in any script."""
KEPT_OF_A_LONG_ONE = 300
NO_PLACE = "|?"
"""How the key of an address ends that may be in many places; no letter or digit of an address is like it."""

NOT_A_LETTER = re.compile(r"[\W_]")
BESIDE_A_LETTER = re.compile(r"(?<!\d) | (?!\d)")
OPTIONAL_POINTS = range(10, 37)
"""The combining classes of Hebrew and Arabic vowel points: most people leave them out."""
SELECTORS = re.compile("[\u034f\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Marks that nobody sees, or that only choose another form of the letter before them."""


def address_key(parts: Mapping[str, str | None], country: str, *, email: str | None, home: str) -> str | None:
    """The same for two spellings of one address that differ in case, spacing and punctuation.

    A street whose place is not known is no door: there its key tells people apart by all that is known.
    """
    if parts["address"] is None:
        return None
    code = bare(parts["postal_code"]).replace(" ", "")  # 110 00 is 11000
    # At home with or without the four digits of a ZIP+4; abroad not everyone has codes.
    place = code[:5] if country == home else code or bare(parts["city"])
    named = [bare(parts["address"]), bare(parts["address2"]), place, country]
    if place:
        return _short("|".join(named))
    known = [bare(parts["city"]), bare(parts["province"]), (email or "").lower()]
    return _short("|".join(named + known)) + NO_PLACE


def street_of(key: str) -> str:
    """The part of an address's key that says the street and the house."""
    return key.split("|", 1)[0]


def bare(text: str | None) -> str:
    """Letters with their marks and digits, in capitals; where two numbers would run together, a space."""
    composed = unicodedata.normalize("NFC", SELECTORS.sub("", text or ""))
    capitals = unicodedata.normalize("NFC", composed.upper())
    words = NOT_A_LETTER.sub(lambda found: found[0] if _is_mark(found[0]) else " ", capitals)
    return BESIDE_A_LETTER.sub("", " ".join(words.split()))


def _short(key: str) -> str:
    if len(key) <= LONGEST_KEY:
        return key
    return f"{key[:KEPT_OF_A_LONG_ONE]}|{hashlib.sha256(key.encode()).hexdigest()}"


def _is_mark(sign: str) -> bool:
    """Whether it is spoken with the letter before it: without their vowels two Thai streets are one."""
    return unicodedata.category(sign) in ("Mn", "Mc") and unicodedata.combining(sign) not in OPTIONAL_POINTS
