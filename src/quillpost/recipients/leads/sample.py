"""Made-up addresses in and around larger cities, the same on every machine: for testing mode alone.

Nobody is called Sample Resident, and no street Sample Oak: whoever sees one knows what it is.
"""

import math
import random
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime

import sqlalchemy as sa

from quillpost.core.database import Database
from quillpost.core.database.tables.leads import lead_sources
from quillpost.recipients.addresses.cities import zip_place
from quillpost.recipients.addresses.service import HOME
from quillpost.recipients.leads import rules
from quillpost.recipients.leads.files import Row
from quillpost.recipients.leads.imports import SAMPLE_SOURCE, load_rows

SEED = 7
FIRST_CITY = ("78701", "78702", "78703", "78704", "78705", "78723", "78741", "78745", "78751", "78757")
"""Austin, where the line to paste searches: more of it than elsewhere."""
IN_FIRST, ELSEWHERE = 200, 40

CITIES = (
    "02108", "04101", "05401", "06103", "10001", "11201", "12207", "14202", "15222", "19103", "20001",
    "21201", "23219", "25301", "27601", "28202", "29201", "30303", "32202", "32801", "33130", "33602",
    "35203", "37203", "38103", "39201", "40202", "43215", "44113", "45202", "46204", "48226", "50309",
    "53202", "55401", "57104", "58102", "59101", "60601", "63101", "64105", "66603", "68102", "70112",
    "72201", "73102", "74103", "75201", "77002", "78205", "79901", "80202", "82001", "83702", "84101",
    "85004", "87102", "89101", "90012", "92101", "94103", "95814", "96813", "97204", "98101", "99201",
    "99501",
)  # fmt: skip

STREETS = (
    "Oak", "Elm", "Maple", "Cedar", "Birch", "Willow", "Juniper", "Hickory", "Laurel", "Magnolia", "Poplar",
)  # fmt: skip
SUFFIXES = ("St", "Ave", "Ln", "Dr")

METRES_A_DEGREE = 111_195.0
SPREAD = 2_500.0
"""Metres: how far from the middle of its ZIP code an address lies, mostly."""

_HOMES = tuple(name for name in rules.HOMES if name != "absenteeowner")
"""Who lives elsewhere is said by the owner's address."""


_one_at_a_time = threading.Lock()


def load_sample(db: Database, *, now: datetime) -> int:
    """Put the sample into the table, in place of an older one; how many there are."""
    return load_rows(db, sample_rows(), source=SAMPLE_SOURCE, country=HOME, is_sample=True, now=now)


def ensure_sample(db: Database, *, now: datetime) -> None:
    """Put it in where there is none: whoever searches first in testing mode waits a second for it."""
    with _one_at_a_time:
        with db.work() as tx:
            found = tx.execute(sa.select(lead_sources.c.id).where(lead_sources.c.is_sample)).first()
        if found is None:
            load_sample(db, now=now)


def sample_rows() -> Iterator[Row]:
    """Every kind of record is among them, in every city."""
    chance = random.Random(SEED)  # noqa: S311 (the same for everyone, and for nobody's secrets)
    number = 0
    for zip5, count in (*((zip5, IN_FIRST) for zip5 in FIRST_CITY), *((zip5, ELSEWHERE) for zip5 in CITIES)):
        for fields in _around(chance, zip5, count):
            number += 1
            yield Row(number, fields)


def _around(chance: random.Random, zip5: str, count: int) -> Iterator[dict[str, str]]:
    place = zip_place(zip5)
    assert place is not None
    assert place.latitude is not None
    assert place.longitude is not None
    across = METRES_A_DEGREE * math.cos(math.radians(place.latitude))
    for each, (street, house) in enumerate(_doors(chance, count)):
        fields = {
            "lat": f"{place.latitude + chance.gauss(0, SPREAD) / METRES_A_DEGREE:.6f}",
            "lon": f"{place.longitude + chance.gauss(0, SPREAD) / across:.6f}",
            "number": str(house),
            "street": street,
            "city": place.city,
            "region": place.state,
            "postcode": zip5,
        }
        yield fields | _kind(chance, each, zip5)


def _doors(chance: random.Random, count: int) -> Sequence[tuple[str, int]]:
    """Different ones of the same ZIP code."""
    streets = [f"Sample {name} {suffix}" for name in STREETS for suffix in SUFFIXES]
    doors = [(street, house) for street in streets for house in range(100, 1_300, 50)]
    return chance.sample(doors, count)


def _kind(chance: random.Random, each: int, zip5: str) -> dict[str, str]:
    if each % 10 == 9:
        new = {"newbusiness": "yes"} if each % 20 == 9 else {}
        return {"company": "Sample Business", "business": "yes", **new}
    kinds = {_HOMES[each % len(_HOMES)], *chance.sample(_HOMES, 2)}
    known = {"name": "Sample Resident", "record_types": ",".join(sorted(kinds))}
    if each % 7 == 3:
        known |= {"unit": f"Apt {each}", "condo": "yes"}
    if each % 12 == 5:
        known |= {
            "owner_name": "Sample Owner",
            "owner_address": f"{each + 100} Sample Harbor Rd",
            "owner_postcode": "98101" if zip5 != "98101" else "97204",
        }
    return known
