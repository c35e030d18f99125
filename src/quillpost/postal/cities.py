"""Towns by their names: one town for every way to shorten it."""

from functools import lru_cache

from quillpost.postal.tables import DIRECTIONS, SAME, SUFFIXES
from quillpost.postal.wording import plain
from quillpost.postal.zips import state_and_city, zip_place

KNOWN_AT_ONCE = 16_384


@lru_cache(maxsize=KNOWN_AT_ONCE)
def town_key(name: str) -> str:
    """The same for Saint Louis and St. Louis, for Fort Worth and Ft Worth, for De Soto and Desoto."""
    words = [SAME.get(word, word) for word in plain(name).split()]
    return "".join([DIRECTIONS.get(word) or SUFFIXES.get(word, word) for word in words]).replace("-", "")


def town_of(zip5: str, name: str) -> str | None:
    """The town as the postal service writes it, where it is one that this ZIP code serves."""
    preferred = state_and_city(zip5)
    if preferred is not None and preferred[1] == name.upper() and preferred[1].replace(" ", "").isalpha():
        return preferred[1]
    return _any_town_of(zip5, name)


@lru_cache(maxsize=KNOWN_AT_ONCE)
def _any_town_of(zip5: str, name: str) -> str | None:
    place = zip_place(zip5)
    if place is None:
        return None
    key = town_key(name)
    for known in place.cities:
        if town_key(known) == key:
            return plain(known)
    return plain(name) if any(town_key(known) == key for known in place.nicknames) else None


def restored_zip(code: str, state: str, city: str) -> str | None:
    """A ZIP code whose leading zeros a spreadsheet ate, where state and city both say that it is meant."""
    digits, hyphen, more = code.partition("-")
    if not (digits.isascii() and digits.isdigit() and 3 <= len(digits) <= 4) or (hyphen and len(more) != 4):
        return None
    zip5 = digits.zfill(5)
    place = zip_place(zip5)
    if place is None or place.state != state or town_of(zip5, city) is None:
        return None
    return f"{zip5}{hyphen}{more}"
