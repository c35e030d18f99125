"""Units of a building: apartment, suite, floor, as they follow a street."""

from quillpost.recipients.addresses.tables import (
    DIRECTIONS,
    LONE_UNITS,
    NUMBERED_UNITS,
    ONE_DOOR,
    SPELLED_ORDINALS,
    SUFFIXES,
    UNITS,
    WEAK_UNITS,
)

Unit = tuple[str, str]
"""A designator and its number; either may be empty where it was not given."""

UNNAMED = "#"
"""What the postal service writes where the designator is not known."""
ORDINALS = ("ST", "ND", "RD", "TH")
LONGEST_NUMBER = 6


def has_digit(word: str) -> bool:
    return not word.isalpha() and any(map(str.isdigit, word))


def is_ordinal(word: str) -> bool:
    return word.endswith(ORDINALS) and word[:-2].isdigit()


def split_units(words: list[str], first: int) -> tuple[int, list[Unit]]:
    """Where the units at the end of a line begin, at `first` at the earliest, and what they are."""
    for start in range(first, len(words)):
        word = words[start]
        if word in UNITS or (start + 1 < len(words) and is_floor(word, words[start + 1])):
            units = read_units(words[start:], after=words[start - 1] if start else None)
            if units is not None:
                return start, units
    return len(words), []


def is_floor(word: str, following: str) -> bool:
    """`2ND FLOOR` and `SECOND FLOOR`"""
    return NUMBERED_UNITS.get(following) == "FL" and (is_ordinal(word) or word in SPELLED_ORDINALS)


def read_units(words: list[str], *, after: str | None = None) -> list[Unit] | None:
    """These words as units and nothing else, or None. `after`: the word before them on their line."""
    found: list[Unit] = []
    place, count = 0, len(words)
    while place < count:
        word = words[place]
        following = words[place + 1] if place + 1 < count else None
        if following is not None and is_floor(word, following):
            found.append(("FL", SPELLED_ORDINALS.get(word, word)[:-2]))
            place += 2
            continue
        designator = UNITS.get(word)
        if designator is None:
            return None
        if following is not None and _is_number(
            following, word, is_over=bool(found) or _ends_a_street(after)
        ):
            end = place + 2
            while end < count and _goes_on(words[end], words[end + 1] if end + 1 < count else None):
                end += 1
            found.append((designator, " ".join(_number_of(designator, words[place + 1 : end]))))
            place = end
        elif (
            following is not None
            and NUMBERED_UNITS.get(following) == UNNAMED
            and word in NUMBERED_UNITS
            and designator != UNNAMED
            and place + 2 < count
        ):
            words = [*words[:place], word, *words[place + 2 :]]  # APT #4 and APT NO 4 are APT 4
            count -= 1
        elif designator in ONE_DOOR and following in LONE_UNITS:
            place += 1  # APT UPPER is UPPER
        elif word == UNNAMED and (following is None or following in UNITS):
            place += 1  # the sign alone says nothing
        elif word in LONE_UNITS or following is None or following in UNITS:
            if word in WEAK_UNITS and not found and not _ends_a_street(after):
                return None
            found.append((designator, ""))
            place += 1
        else:
            return None
    return found


def _number_of(designator: str, words: list[str]) -> list[str]:
    if designator == "FL" and is_ordinal(words[0]):
        return [words[0][:-2], *words[1:]]
    return words


def _is_number(word: str, designator: str, *, is_over: bool) -> bool:
    if has_digit(word):
        return True
    if word in UNITS or not word.isalpha():
        return False
    if len(word) == 1:
        return is_over or designator not in SUFFIXES or word not in DIRECTIONS  # 12 LOCUST KEY E
    is_weak = designator in WEAK_UNITS or designator in LONE_UNITS
    return not is_weak and word not in SUFFIXES and word not in DIRECTIONS


def _goes_on(word: str, following: str | None) -> bool:
    """`APT 4 B`: a further letter or number belongs to the number before it."""
    if following is not None and is_floor(word, following):
        return False
    return word not in UNITS and len(word) <= LONGEST_NUMBER and (has_digit(word) or len(word) == 1)


def _ends_a_street(word: str | None) -> bool:
    """Whether a street may be over after this word; where nothing came before, the line is the unit's own."""
    return word is None or word in SUFFIXES or word in DIRECTIONS


def unnamed_unit(words: list[str]) -> Unit | None:
    """A lone number, as people write it into the second line."""
    if len(words) != 1:
        return None
    [word] = words
    is_number = has_digit(word) or (len(word) == 1 and word.isalpha())
    return (UNNAMED, word) if is_number and len(word) <= LONGEST_NUMBER and not is_ordinal(word) else None


def unit_line(units: list[Unit]) -> str:
    return " ".join([f"{designator} {number}".strip() for designator, number in units])


def unit_key(units: list[Unit]) -> list[str]:
    """The units as a key has them: of designators that people use for one another, the number alone."""
    return [
        number if designator in ONE_DOOR and number else f"{designator} {number}"
        for designator, number in units
    ]
