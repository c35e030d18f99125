"""A delivery address at home as Publication 28 writes it, out of the two lines that people give."""

from typing import NamedTuple

from quillpost.recipients.addresses.keys import bare, beside_key, street_key
from quillpost.recipients.addresses.parser import door_by_library
from quillpost.recipients.addresses.segments import segments
from quillpost.recipients.addresses.streets import (
    GENERAL_DELIVERY,
    Door,
    may_begin_a_box,
    read_box,
    read_door,
)
from quillpost.recipients.addresses.tables import (
    DIRECTIONS,
    LONE_UNITS,
    NEIGHBOURHOODS,
    PUERTO_RICO,
    SAYS_NOTHING,
    STREETS_OF_PUERTO_RICO,
    SUFFIXES,
    UNITS,
)
from quillpost.recipients.addresses.units import (
    UNNAMED,
    Unit,
    has_digit,
    is_ordinal,
    read_units,
    split_units,
    unit_key,
    unit_line,
    unnamed_unit,
)

MOST_READINGS = 4
"""What was written anew is read again until it stays: what is left of a line may be a line itself."""
GENERAL = GENERAL_DELIVERY.split()


class Delivery(NamedTuple):
    line: str
    beside: str | None
    """What goes on a line of its own: a building, an urbanization, in whose care."""
    street: str
    units: list[Unit]
    has_number: bool
    is_military: bool
    is_unnamed: bool
    lacks_box: bool = False

    @property
    def is_door(self) -> bool:
        """Not where many people have one and the same: a street without a number, a route without its box."""
        return self.has_number and not self.lacks_box and self.street != GENERAL_DELIVERY

    @property
    def key(self) -> tuple[str, str]:
        """The street and the unit as a key has them."""
        inside = [bare(text) for text in unit_key(self.units)]
        if self.beside and (more := beside_key(self.beside)):
            inside.append(more)
        return street_key(self.street), ",".join(inside)


def delivery(address: str, address2: str | None, state: str | None) -> Delivery:
    """The two lines of an address as they are written; the first is not empty."""
    first = _segments(address, state)
    second = _segments(address2, state) if address2 else []
    simple = _simple(first, second)
    if simple is not None:
        return simple
    found = _any(first, second)
    for _ in range(MOST_READINGS):
        again = _any(_segments(found.line, state), _segments(found.beside or "", state))
        again = again._replace(is_unnamed=found.is_unnamed)
        if again == found:
            break
        found = again
    return found


def _segments(text: str, state: str | None) -> list[list[str]]:
    found = segments(text)
    if len(found) > 1:
        found = [words for words in found if " ".join(words) not in SAYS_NOTHING] or found[:1]
    if state == "PR":
        return [part for words in found for part in _in_puerto_rico(words)]
    return found


def _in_puerto_rico(words: list[str]) -> list[list[str]]:
    """In the words of the post there; an urbanization has a line of its own."""
    found: list[list[str]] = [[]]
    words = " ".join([PUERTO_RICO.get(word, word) for word in words]).split()
    for place, word in enumerate(words):
        if found[-1] and (word == "URB" or _begins_a_street(words, place, found[-1])):
            found.append([])
        found[-1].append(word)
    return found


def _begins_a_street(words: list[str], place: int, before: list[str]) -> bool:
    """`URB LAS GLADIOLAS 150 CALLE A`: the number of the house comes after where it is."""
    if len(before) < 2 or before[0] not in NEIGHBOURHOODS or not has_digit(words[place]):
        return False
    after = words[place + 1 :]
    return bool(after) and (after[0] in STREETS_OF_PUERTO_RICO or (len(after) > 1 and after[-1] in SUFFIXES))


def _simple(first: list[list[str]], second: list[list[str]]) -> Delivery | None:
    """What most addresses are: a street that the tables know, and units."""
    if len(first) == 2 and not second:
        first, second = first[:1], first[1:]  # the comma stands where a second line would begin
    if len(first) != 1 or len(second) > 1 or not _is_street(first[0]):
        return None
    door = read_door(first[0])
    if door is None or door.is_unnamed:
        return None
    if not second:
        return _written(door, door.units, "")
    units = read_units(second[0], after=first[0][-1])
    return None if units is None or door.units else _written(door, units, "")


def _is_street(words: list[str]) -> bool:
    """Whether the line begins with a house number or a box."""
    first = words[0]
    if may_begin_a_box(first) and read_box(words):
        return True
    return (has_digit(first) and not is_ordinal(first) and len(words) > 1) or words == GENERAL


def _any(first: list[list[str]], second: list[list[str]]) -> Delivery:
    lines = [_units_last(words) for words in _with_its_box(_joined(first), _joined(second))]
    if not lines:
        return Delivery("", None, "", [], has_number=False, is_military=False, is_unnamed=False)
    place = next((place for place, words in enumerate(lines) if _is_street(words)), 0)
    street, boxed = _apart_from_a_box(lines[place])
    door = read_door(street) or door_by_library(street) or _loose(street)
    units, beside = list(door.units), [*boxed]
    is_unnamed = door.is_unnamed
    for index, words in enumerate(lines):
        if index == place:
            beside += [door.rest] if door.rest else []
            continue
        again = read_door(words) if _is_street(words) else None
        if again is not None and again.street == door.street:
            units += again.units  # the street, said twice
            continue
        unit = unnamed_unit(words) if index > place else None
        if unit is not None:
            is_unnamed = is_unnamed or unit not in units
            units.append(unit)
        else:
            more, text = _beside(words, door.street.split()[-1])
            units += more
            beside += [text] if text else []
    return _written(door._replace(is_unnamed=is_unnamed), _merged(units), " ".join(beside))


def _with_its_box(first: list[list[str]], second: list[list[str]]) -> list[list[str]]:
    """`RR 2`, and on the next line `Box 18`."""
    if first and second and second[0][0] == "BOX" and read_box([*first[-1], *second[0]]):
        return [*first[:-1], [*first[-1], *second[0]], *second[1:]]
    return [*first, *second]


def _joined(lines: list[list[str]]) -> list[list[str]]:
    """`12, 2nd St`, `12 Main St, NW` and `RR 2, Box 18`: a comma too many."""
    found: list[list[str]] = []
    for words in lines:
        is_number_alone = found and len(found[-1]) == 1 and has_digit(found[-1][0])
        is_direction = found and len(words) == 1 and words[0] in DIRECTIONS and len(words[0]) > 1
        is_box_of_a_route = found and words[0] == "BOX" and read_box([*found[-1], *words])
        if is_number_alone or is_direction or is_box_of_a_route:
            found[-1] = [*found[-1], *words]
        else:
            found.append(words)
    return found


def _units_last(words: list[str]) -> list[str]:
    """`Apt 4 12 Main St`"""
    if len(words) < 4 or words[0] not in UNITS or not has_digit(words[2]) or is_ordinal(words[2]):
        return words
    is_unit = read_units(words[:2], after=None) and not read_box(words)
    return [*words[2:], *words[:2]] if is_unit else words


def _apart_from_a_box(words: list[str]) -> tuple[list[str], list[str]]:
    """`12 MAIN ST PO BOX 5` is two addresses: the mail goes to the first, the other stands beside it."""
    if "BOX" not in words or not has_digit(words[0]):
        return words, []
    start = words.index("BOX")
    while start > 0 and words[start - 1] in ("PO", "P", "O", "POST", "OFFICE"):
        start -= 1
    box = read_box(words[start:]) if start > 1 else None
    return (words[:start], [box.line]) if box and not box.units else (words, [])


def _beside(words: list[str], after: str) -> tuple[list[Unit], str]:
    """Units that stand alone or at the end of another line, and what is left of that."""
    units = read_units(words, after=after)
    if units is not None:
        return units, ""
    box = read_box(words) if may_begin_a_box(words[0]) else None
    if box is not None and not box.units:
        return [], box.line
    start, units = split_units(words, 1)
    if any(not number and designator not in LONE_UNITS for designator, number in units):
        return [], " ".join(words)  # FOO BUILDING is its name
    return units, " ".join(words[:start])


def _loose(words: list[str]) -> Door:
    """What neither tables nor library tell apart stays as it is."""
    start, units = split_units(words, 2)
    return Door(" ".join(words[:start]), units, has_digit(words[0]) and not is_ordinal(words[0]))


def _merged(units: list[Unit]) -> list[Unit]:
    """Each once; a designator whose number came by itself has it."""
    found: list[Unit] = []
    for designator, number in units:
        is_rest_of_the_last = found and not found[-1][1] and designator == UNNAMED and number
        if is_rest_of_the_last and found[-1][0] != UNNAMED:
            found[-1] = (found[-1][0], number)
        elif (designator, number) not in found:
            found.append((designator, number))
    return found


def _written(door: Door, units: list[Unit], beside: str) -> Delivery:
    line = f"{door.street} {unit_line(units)}" if units else door.street
    return Delivery(
        line,
        beside or None,
        door.street,
        units,
        door.has_number,
        door.is_military,
        door.is_unnamed,
        door.lacks_box,
    )
