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
from quillpost.core.database.tables.recipients import lead_sources
from quillpost.recipients.addresses.cities import find_zip_area
from quillpost.recipients.addresses.service import HOME_COUNTRY
from quillpost.recipients.leads import rules
from quillpost.recipients.leads.files import LeadRow
from quillpost.recipients.leads.imports import SAMPLE_SOURCE, replace_source_rows

RANDOM_SEED = 7
FIRST_CITY_ZIPS = ("78701", "78702", "78703", "78704", "78705", "78723", "78741", "78745", "78751", "78757")
"""Austin, where the line to paste searches: more of it than elsewhere."""
FIRST_CITY_COUNT, OTHER_CITY_COUNT = 200, 40

OTHER_CITY_ZIPS = (
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

METERS_PER_DEGREE = 111_195.0
SPREAD_METERS = 2_500.0
"""Metres: how far from the middle of its ZIP code an address lies, mostly."""

_HOME_RECORD_TYPES = tuple(name for name in rules.HOME_RECORD_TYPES if name != "absenteeowner")
"""Who lives elsewhere is said by the owner's address."""


_load_lock = threading.Lock()


def load_sample(db: Database, *, now: datetime) -> int:
    """Put the sample into the table, in place of an older one; how many there are."""
    return replace_source_rows(
        db, generate_sample_rows(), source=SAMPLE_SOURCE, country=HOME_COUNTRY, is_sample=True, now=now
    )


def ensure_sample(db: Database, *, now: datetime) -> None:
    """Put it in where there is none: whoever searches first in testing mode waits a second for it."""
    with _load_lock:
        with db.system_transaction() as tx:
            source = tx.execute(sa.select(lead_sources.c.id).where(lead_sources.c.is_sample)).first()
        if source is None:
            load_sample(db, now=now)


def generate_sample_rows() -> Iterator[LeadRow]:
    """Every kind of record is among them, in every city."""
    randomness = random.Random(RANDOM_SEED)  # noqa: S311 (the same for everyone, and for nobody's secrets)
    number = 0
    for zip5, count in (
        *((zip5, FIRST_CITY_COUNT) for zip5 in FIRST_CITY_ZIPS),
        *((zip5, OTHER_CITY_COUNT) for zip5 in OTHER_CITY_ZIPS),
    ):
        for fields in _generate_around_zip(randomness, zip5, count):
            number += 1
            yield LeadRow(number, fields)


def _generate_around_zip(randomness: random.Random, zip5: str, count: int) -> Iterator[dict[str, str]]:
    zip_area = find_zip_area(zip5)
    assert zip_area is not None
    assert zip_area.latitude is not None
    assert zip_area.longitude is not None
    meters_per_longitude = METERS_PER_DEGREE * math.cos(math.radians(zip_area.latitude))
    for index, (street, house) in enumerate(_choose_addresses(randomness, count)):
        fields = {
            "lat": f"{zip_area.latitude + randomness.gauss(0, SPREAD_METERS) / METERS_PER_DEGREE:.6f}",
            "lon": f"{zip_area.longitude + randomness.gauss(0, SPREAD_METERS) / meters_per_longitude:.6f}",
            "number": str(house),
            "street": street,
            "city": zip_area.city,
            "region": zip_area.state,
            "postcode": zip5,
        }
        yield fields | _build_kind_fields(randomness, index, zip5)


def _choose_addresses(randomness: random.Random, count: int) -> Sequence[tuple[str, int]]:
    """Different ones of the same ZIP code."""
    streets = [f"Sample {name} {suffix}" for name in STREETS for suffix in SUFFIXES]
    addresses = [(street, house) for street in streets for house in range(100, 1_300, 50)]
    return randomness.sample(addresses, count)


def _build_kind_fields(randomness: random.Random, index: int, zip5: str) -> dict[str, str]:
    if index % 10 == 9:
        new_business = {"newbusiness": "yes"} if index % 20 == 9 else {}
        return {"company": "Sample Business", "business": "yes", **new_business}
    record_types = {_HOME_RECORD_TYPES[index % len(_HOME_RECORD_TYPES)], *randomness.sample(_HOME_RECORD_TYPES, 2)}
    fields = {"name": "Sample Resident", "record_types": ",".join(sorted(record_types))}
    if index % 7 == 3:
        fields |= {"unit": f"Apt {index}", "condo": "yes"}
    if index % 12 == 5:
        fields |= {
            "owner_name": "Sample Owner",
            "owner_address": f"{index + 100} Sample Harbor Rd",
            "owner_postcode": "98101" if zip5 != "98101" else "97204",
        }
    return fields
