"""A seeded maker of US addresses as lists have them: every suffix in every spelling, units, boxes, highways.

City, state and ZIP code are those of the table of ZIP codes, so they agree. The shares are about those of a
bought list; what is rare is there often enough to be counted.
"""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from quillpost.recipients.addresses.cities import ZipArea, find_zip_area, list_zip_codes
from quillpost.recipients.addresses.text import NUMBERED_UNITS, STREET_SUFFIXES, UNNUMBERED_UNITS


class Row(NamedTuple):
    """One address in its parts, and of what kind it is."""

    kind: str
    address: str
    address2: str | None
    city: str
    province: str
    postal_code: str

    def parts(self) -> dict[str, str | None]:
        """As the standardiser is given it."""
        return {name: getattr(self, name) for name in PARTS}

    def line(self) -> str:
        """The whole on one line."""
        units = f" {self.address2}" if self.address2 else ""
        return f"{self.address}{units}, {self.city}, {self.province} {self.postal_code}"


PARTS = ("address", "address2", "city", "province", "postal_code")

NAMES = (
    "Main", "Oak", "Maple", "Washington", "Elm", "Cedar", "Lincoln", "Jackson", "Pine Tree", "Lakeview",
    "Martin Luther King Jr", "Sunset", "Chestnut", "Magnolia", "Jefferson", "Walnut", "Willow Creek",
    "Madison", "Old Mill", "Highland", "Church", "Franklin", "Adams", "Cherry", "Dogwood", "Hickory",
    "Laurel", "Locust", "Poplar", "Sycamore", "Monroe", "Van Buren", "O'Brien", "Peachtree", "Rosewood",
    "Bluebonnet", "Ashford", "Kensington", "Sherwood", "Wilson", "Harrison", "Delaware", "Birchwood",
    "Canterbury", "Stonegate",
)  # fmt: skip
NUMBERED = ["1st", "2nd", "3rd", "5th", "11th", "22nd", "42nd", "103rd"]
DIRECTIONS = [
    "N",
    "S",
    "E",
    "W",
    "NE",
    "NW",
    "SE",
    "SW",
    "North",
    "South",
    "East",
    "West",
    "Northeast",
    "Southwest",
    "N.",
    "W.",
]
POPULAR = [
    "St",
    "Street",
    "Ave",
    "Avenue",
    "Rd",
    "Road",
    "Dr",
    "Drive",
    "Ln",
    "Lane",
    "Ct",
    "Court",
    "Blvd",
    "Way",
    "Cir",
    "Pl",
    "St.",
    "Ave.",
    "Dr.",
]
RARE = sorted(word.capitalize() for word in STREET_SUFFIXES)
UNITS = ("Apt", "Apartment", "Apt.", "Unit", "Ste", "Suite", "#", "Bldg", "Lot", "Rm", "Trlr", "Fl")
HIGHWAYS = ("County Road", "Co Rd", "State Highway", "US Highway", "US Hwy", "Highway", "Hwy", "State Route", "FM")

KINDS = {
    "street": 62, "unit": 20, "numbered": 6, "box": 5, "highway": 2, "fraction": 0.5, "hyphenated": 1,
    "rural": 1, "lone unit": 0.5, "spelled number": 0.3, "type first": 0.3, "grid": 0.4, "military": 0.5,
    "Puerto Rico": 0.5,
}  # fmt: skip


def sample(count: int, seed: int = 7) -> list[Row]:
    """The same rows for the same seed."""
    return list(rows(count, seed))


def rows(count: int, seed: int = 7) -> Iterator[Row]:
    """The same, one after another, for counts that do not fit into memory."""
    dice = random.Random(seed)
    places = _Places()
    kinds, weights = list(KINDS), list(KINDS.values())
    for kind in dice.choices(kinds, weights, k=count):
        yield _row(kind, dice, places)


class _Places:
    def __init__(self) -> None:
        by_state: dict[str, list[str]] = {}
        for code in list_zip_codes():
            place = find_zip_area(code)
            if place is not None:
                by_state.setdefault(place.state, []).append(code)
        self.military = [code for state in ("AA", "AE", "AP") for code in by_state.pop(state)]
        self.puerto_rico = by_state.pop("PR")
        self.others = [code for codes in by_state.values() for code in codes]

    def of(self, kind: str, dice: random.Random) -> tuple[str, ZipArea]:
        codes = {"military": self.military, "Puerto Rico": self.puerto_rico}.get(kind, self.others)
        code = dice.choice(codes)
        place = find_zip_area(code)
        assert place is not None
        return code, place


def _city(place: ZipArea, dice: random.Random) -> str:
    """Now and then as people shorten it."""
    if place.city.startswith("Saint ") and dice.random() < 0.5:
        return place.city.replace("Saint ", "St. ")
    return place.city


def _row(kind: str, dice: random.Random, places: _Places) -> Row:
    code, place = places.of(kind, dice)
    if dice.random() < 0.2:
        code = f"{code}-{dice.randint(1, 9999):04}"
    address, address2 = _lines(kind, dice)
    letters = dice.choices((str, str.upper, str.lower), (6, 3, 1))[0]
    return Row(kind, letters(address), address2 and letters(address2), letters(_city(place, dice)), place.state, code)


def _lines(kind: str, dice: random.Random) -> tuple[str, str | None]:
    number = dice.randint(1, 19_999)
    street = _street(dice)
    match kind:
        case "unit":
            unit = _unit(dice)
            return dice.choice(
                (
                    (f"{number} {street}", unit),
                    (f"{number} {street} {unit}", None),
                    (f"{number} {street}, {unit}", None),
                )
            )
        case "lone unit":
            return f"{number} {street}", dice.choice([word.capitalize() for word in UNNUMBERED_UNITS])
        case "numbered":
            name = dice.choice(NUMBERED)
            return f"{number} {dice.choice(('', *DIRECTIONS[:4]))} {name} {dice.choice(POPULAR)}".replace(
                "  ", " "
            ), None
        case "box":
            return (f"{dice.choice(('PO Box', 'P.O. Box', 'P O Box', 'Post Office Box', 'POB'))} {number}", None)
        case "highway":
            return f"{number} {dice.choice(HIGHWAYS)} {dice.randint(1, 999)}", None
        case "fraction":
            return f"{number} {dice.choice(('1/2', '1/4', '3/4'))} {street}", None
        case "hyphenated":
            return f"{dice.randint(10, 199)}-{dice.randint(10, 99)} {street}", None
        case "rural":
            return (f"{dice.choice(('RR', 'Rural Route', 'HC', 'R.R.'))} {dice.randint(1, 90)} Box {number}", None)
        case "spelled number":
            return f"{dice.choice(('One', 'Two', 'Three'))} {street}", None
        case "type first":
            return f"{number} {dice.choice(('Avenue', 'Ave'))} {dice.choice('ABCDEFGHJ')}", None
        case "grid":
            return f"{number} {dice.choice('NSEW')} {dice.randint(10, 99)}00 {dice.choice('NSEW')}", None
        case "military":
            return f"{dice.choice(('PSC', 'CMR', 'Unit'))} {dice.randint(1, 9999)} Box {number}", None
        case "Puerto Rico":
            return f"{number} Calle {dice.choice((*NAMES[:9], 'A', '5'))}", dice.choice((None, "Urb Las Gladiolas"))
    return f"{number} {street}", None


def _street(dice: random.Random) -> str:
    suffix = dice.choice(POPULAR if dice.random() < 0.85 else RARE)
    parts = [dice.choice(NAMES), suffix]
    where = dice.random()
    if where < 0.2:
        parts.insert(0, dice.choice(DIRECTIONS))
    elif where < 0.27:
        parts.append(dice.choice(DIRECTIONS[:12]))
    return " ".join(parts)


def _unit(dice: random.Random) -> str:
    number = dice.choice(
        (str(dice.randint(1, 999)), f"{dice.randint(1, 99)}{dice.choice('ABC')}", dice.choice("ABCDEF"))
    )
    word = dice.choice(UNITS)
    return f"{word}{number}" if word == "#" and dice.random() < 0.5 else f"{word} {number}"


SPELLINGS: Sequence[str] = sorted({*STREET_SUFFIXES, *NUMBERED_UNITS})
"""Every word that the tables know for a suffix or a unit: a sample large enough has most of them."""
