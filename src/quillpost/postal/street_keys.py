"""The parts of a key at home: the street, and what stands beside it, of standardised words."""

from quillpost.postal.keys import bare
from quillpost.postal.tables import (
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
