"""Addresses that came whole on one line, taken apart."""

import re

from quillpost.postal.states import state_code

ONE_LINE = re.compile(
    r"(?P<place>.+?),?\s+(?P<zip>[0-9]{5}(?:-?[0-9]{4})?)(?:,?\s+(?:USA?|United States))?\.?"
)
LONGEST_STATE = 4
"""Words in the name of a state."""


def taken_apart(line: str) -> dict[str, str] | None:
    """Street, city, state and ZIP code of an address at home that came on one line; None: it is no such."""
    whole = ONE_LINE.fullmatch(" ".join(line.split()))
    if whole and (place := _street_city_state(whole["place"])):
        street, city, state = place
        return {"address": street, "city": city, "province": state, "postal_code": whole["zip"]}
    return None


def _street_city_state(text: str) -> tuple[str, str, str] | None:
    """Read from the end, the longest state first: a city may be named New York, a state West Virginia."""
    words = text.split()
    for count in range(LONGEST_STATE, 0, -1):
        if state := state_code(" ".join(words[-count:])):
            street, _, city = (part.strip() for part in " ".join(words[:-count]).rstrip(", ").rpartition(","))
            is_whole = street and city and not re.search(r"\d", city)
            return (street, city, state) if is_whole else None
    return None
