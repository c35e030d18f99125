"""Whether the parts of an address at home agree with one another: each doubt is a sentence for the sender."""

from quillpost.postal.home import Delivery
from quillpost.postal.tables import LONE_UNITS
from quillpost.postal.units import UNNAMED
from quillpost.postal.wording import plain
from quillpost.postal.zips import MILITARY_TOWNS, state_and_city

MILITARY_STATES = frozenset({"AA", "AE", "AP"})

LONGEST_MILITARY = len("A. P. O.")

NO_NUMBER = "The address has neither a house number nor a box."
NO_BOX = "{} has no BOX after it."
NOT_A_MILITARY_LINE = "Mail to the armed forces goes to a PSC, a CMR or a UNIT, and its BOX."


def doubts_at_home(
    written: Delivery, city: str, state: str, zip5: str, *, is_town_known: bool
) -> tuple[str, ...]:
    """What does not agree, the gravest first."""
    doubts = _doubts_of_the_place(city, state, zip5, is_town_known=is_town_known)
    if state in MILITARY_STATES or (len(city) <= LONGEST_MILITARY and _is_military(city)):
        doubts += _doubts_of_the_military(written, city, state)
    if not written.has_number:
        doubts.append(NO_NUMBER)
    if written.lacks_box:
        doubts.append(NO_BOX.format(written.street))
    for designator, number in written.units:
        if not number and designator not in LONE_UNITS:
            doubts.append(f"{designator} has no number after it.")
    if written.is_unnamed:
        number = next((number for designator, number in written.units if designator == UNNAMED), "")
        doubts.append(f"The number {number} after the street does not say what it is, such as APT or STE.")
    return tuple(doubts)


def _doubts_of_the_place(city: str, state: str, zip5: str, *, is_town_known: bool) -> list[str]:
    place = state_and_city(zip5)
    if place is None:
        return [f"The ZIP code {zip5} is not known."]
    if place[0] != state:
        return [f"The ZIP code {zip5} is in {place[0]}, not in {state}."]
    if not is_town_known:
        return [f"The ZIP code {zip5} belongs to {place[1].title()}, not to {city}."]
    return []


def _doubts_of_the_military(written: Delivery, city: str, state: str) -> list[str]:
    if not _is_military(city):
        return [f"In {state} the city is APO, FPO or DPO, not {city}."]
    if state not in MILITARY_STATES:
        return [f"The state of {city.upper()} is AA, AE or AP, not {state}."]
    return [] if written.is_military else [NOT_A_MILITARY_LINE]


def _is_military(city: str) -> bool:
    """APO, also as A.P.O."""
    return plain(city).replace(" ", "") in MILITARY_TOWNS
