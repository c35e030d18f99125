"""What is searched for around an address, and the address itself as far as it can be read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from quillpost.audience.rules import HOME_NAMES
from quillpost.leads.tags import ALL, RECORD_TYPES
from quillpost.postal.judging import HOME, judge
from quillpost.postal.lines import taken_apart
from quillpost.postal.zips import ZIP, ZipPlace, zip_place

FEWEST, MOST = 1, 10_000
UNLESS_SAID = 100
"""Records that are looked for where nobody says how many."""
FARTHEST_MILES = 100
METRES_A_MILE = 1_609.344

RESIDENT = "Current Resident"
"""Who is written to where nobody's name is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The nearest records to an address. `mailed_within_days` bounds `exclude_already_mailed`. Faults go by
    the `field` that the caller gave."""

    address: str
    record_count: int = UNLESS_SAID
    within_miles: float | None = None
    field: str = "radius_search"
    postal_code: str | None = None
    record_types: Sequence[str] = (ALL,)
    include_condos: bool = True
    include_businesses: bool = True
    use_property_owner: bool = False
    include_search_address: bool = False
    exclude_already_mailed: bool = False
    mailed_within_days: int | None = None


@dataclass(frozen=True, slots=True)
class Middle:
    """The address that a search is around: its key, its ZIP code, and where that is, as far as is known."""

    key: str | None
    zip5: str | None
    place: ZipPlace | None


def read_record_types(text: str) -> tuple[str, ...]:
    """The kinds that are named with commas between them; `ValueError` where there is no such."""
    named = tuple(dict.fromkeys(part for part in (p.strip().lower() for p in text.split(",")) if part))
    unknown = [name for name in named if name not in RECORD_TYPES]
    if unknown:
        raise ValueError(
            f"There is no record type {', '.join(unknown)[:100]}. Known: {', '.join(RECORD_TYPES)}."
        )
    return named or (ALL,)


def middle_of(address: str, postal_code: str | None) -> Middle:
    """The address, whole on one line, or its street with the ZIP code beside it."""
    line = " ".join(address.split())
    beside = (postal_code or "").strip() or None
    parts = taken_apart(line) or (beside and taken_apart(f"{line} {beside}")) or {"address": line}
    code = ZIP.fullmatch(beside or parts.get("postal_code") or "") or _last_zip(line)
    zip5 = code[1] if code else None
    place = zip_place(zip5) if zip5 else None
    if zip5 is None or place is None:
        return Middle(None, zip5, None)
    known = {"address2": None, "city": place.city, "province": place.state, **parts, "postal_code": zip5}
    return Middle(judge(known, HOME).key, zip5, place)


def _last_zip(line: str) -> re.Match[str] | None:
    words = [word for word in line.replace(",", " ").split() if word.upper() not in HOME_NAMES]
    return ZIP.fullmatch(words[-1]) if words else None
