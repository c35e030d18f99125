"""Units of a building: apartment, suite, floor, as they follow a street."""

from quillpost.recipients.addresses.text import (
    AMBIGUOUS_UNITS,
    DIRECTIONS,
    INTERCHANGEABLE_UNITS,
    NUMBERED_UNITS,
    SPELLED_ORDINALS,
    STREET_SUFFIXES,
    UNITS,
    UNNUMBERED_UNITS,
)

AddressUnit = tuple[str, str]
"""A designator and its number; either may be empty."""

UNKNOWN_DESIGNATOR = "#"
"""As the USPS writes an unknown designator."""
ORDINAL_ENDINGS = ("ST", "ND", "RD", "TH")
MAX_UNIT_NUMBER_LENGTH = 6


def has_digit(word: str) -> bool:
    return not word.isalpha() and any(map(str.isdigit, word))


def is_ordinal(word: str) -> bool:
    return word.endswith(ORDINAL_ENDINGS) and word[:-2].isdigit()


def split_units(words: list[str], first_index: int) -> tuple[int, list[AddressUnit]]:
    """The index where the units at the end of a line begin, at `first_index` or later, and the units."""
    for start in range(first_index, len(words)):
        word = words[start]
        if word in UNITS or (start + 1 < len(words) and is_floor(word, words[start + 1])):
            units = read_units(words[start:], previous_word=words[start - 1] if start else None)
            if units is not None:
                return start, units
    return len(words), []


def is_floor(word: str, next_word: str) -> bool:
    """`2ND FLOOR` and `SECOND FLOOR`"""
    return NUMBERED_UNITS.get(next_word) == "FL" and (is_ordinal(word) or word in SPELLED_ORDINALS)


def read_units(words: list[str], *, previous_word: str | None = None) -> list[AddressUnit] | None:
    """These words if they are only units, else None. `previous_word` is before them on their line."""
    units: list[AddressUnit] = []
    index, count = 0, len(words)
    while index < count:
        word = words[index]
        next_word = words[index + 1] if index + 1 < count else None
        if next_word is not None and is_floor(word, next_word):
            units.append(("FL", SPELLED_ORDINALS.get(word, word)[:-2]))
            index += 2
            continue
        designator = UNITS.get(word)
        if designator is None:
            return None
        if next_word is not None and _is_unit_number(
            next_word, word, is_after_street=bool(units) or _ends_street(previous_word)
        ):
            end = index + 2
            while end < count and _continues_number(words[end], words[end + 1] if end + 1 < count else None):
                end += 1
            units.append((designator, " ".join(_clean_unit_number(designator, words[index + 1 : end]))))
            index = end
        elif (
            next_word is not None
            and NUMBERED_UNITS.get(next_word) == UNKNOWN_DESIGNATOR
            and word in NUMBERED_UNITS
            and designator != UNKNOWN_DESIGNATOR
            and index + 2 < count
        ):
            words = [*words[:index], word, *words[index + 2 :]]  # APT #4 and APT NO 4 are APT 4
            count -= 1
        elif designator in INTERCHANGEABLE_UNITS and next_word in UNNUMBERED_UNITS:
            index += 1  # APT UPPER is UPPER
        elif word == UNKNOWN_DESIGNATOR and (next_word is None or next_word in UNITS):
            index += 1  # the sign alone says nothing
        elif word in UNNUMBERED_UNITS or next_word is None or next_word in UNITS:
            if word in AMBIGUOUS_UNITS and not units and not _ends_street(previous_word):
                return None
            units.append((designator, ""))
            index += 1
        else:
            return None
    return units


def _clean_unit_number(designator: str, words: list[str]) -> list[str]:
    if designator == "FL" and is_ordinal(words[0]):
        return [words[0][:-2], *words[1:]]
    return words


def _is_unit_number(word: str, designator: str, *, is_after_street: bool) -> bool:
    if has_digit(word):
        return True
    if word in UNITS or not word.isalpha():
        return False
    if len(word) == 1:
        return is_after_street or designator not in STREET_SUFFIXES or word not in DIRECTIONS  # 12 LOCUST KEY E
    is_weak = designator in AMBIGUOUS_UNITS or designator in UNNUMBERED_UNITS
    return not is_weak and word not in STREET_SUFFIXES and word not in DIRECTIONS


def _continues_number(word: str, next_word: str | None) -> bool:
    """`APT 4 B`: a further letter or number belongs to the number before it."""
    if next_word is not None and is_floor(word, next_word):
        return False
    return word not in UNITS and len(word) <= MAX_UNIT_NUMBER_LENGTH and (has_digit(word) or len(word) == 1)


def _ends_street(word: str | None) -> bool:
    """Whether a street may end with this word; None: the line is the unit's own."""
    return word is None or word in STREET_SUFFIXES or word in DIRECTIONS


def read_unlabeled_unit(words: list[str]) -> AddressUnit | None:
    """A lone number, as people write it into the second line."""
    if len(words) != 1:
        return None
    [word] = words
    is_number = has_digit(word) or (len(word) == 1 and word.isalpha())
    return (
        (UNKNOWN_DESIGNATOR, word)
        if is_number and len(word) <= MAX_UNIT_NUMBER_LENGTH and not is_ordinal(word)
        else None
    )


def format_units(units: list[AddressUnit]) -> str:
    return " ".join([f"{designator} {number}".strip() for designator, number in units])


def build_unit_keys(units: list[AddressUnit]) -> list[str]:
    """Only the number for designators that people interchange."""
    return [
        number if designator in INTERCHANGEABLE_UNITS and number else f"{designator} {number}"
        for designator, number in units
    ]
