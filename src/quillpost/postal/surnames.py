"""The family name of whoever lives at a door, as households are compared by it."""

import re
from functools import lru_cache

from quillpost.kit.name_words import BUSINESS, FAMILY_FIRST, HOUSEHOLD, NOBODY, PARTICLES, SUFFIXES, TITLES
from quillpost.postal.keys import bare

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
    if not plain or plain[-1] in BUSINESS or plain[-1] in HOUSEHOLD or " ".join(plain) in NOBODY:
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
