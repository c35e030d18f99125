"""What holds of every address, whatever was written."""

from unicodedata import normalize

from benchmarks.audience.addresses import NAMES, sample
from hypothesis import given, settings
from hypothesis import strategies as st

from quillpost.recipients.addresses.parser import parse_with_library, split_address_line
from quillpost.recipients.addresses.rules import ADDRESS_PARTS, DELIVERABILITIES, StandardizedAddress, standardize
from quillpost.recipients.addresses.streets import read_delivery_point
from quillpost.recipients.addresses.text import (
    BOX_KINDS,
    DIRECTIONS,
    HIGHWAY_KINDS,
    MILITARY_KINDS,
    ROUTE_KINDS,
    STREET_SUFFIXES,
    UNITS,
    extract_surname,
    split_segments,
)

WORDS = sorted(
    {word for phrase in (*BOX_KINDS, *HIGHWAY_KINDS, *ROUTE_KINDS, *MILITARY_KINDS) for word in phrase.split()}
    | {*STREET_SUFFIXES, *DIRECTIONS, *UNITS, *(name.upper() for name in NAMES)}
    | {"1", "12", "4B", "5TH", "22", "1/2", "112-10", "A", "N6W2", ",", "-", "&", "C/O", "CALLE", "ONE", "URB"}
)
line = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)
country = st.sampled_from(["US", "US", "CA", "DE", "TH", "XX"])
state = st.sampled_from(["TX", "PR", "AE", "NY"])


def standardized(
    address: str, address2: str | None = None, province: str = "TX", country: str = "US"
) -> StandardizedAddress:
    place = {"city": "Austin", "province": province, "postal_code": "78701"}
    return standardize({"address": address, "address2": address2 or None, **place}, country)


@settings(max_examples=300)
@given(line, line, state)
def test_what_was_standardised_stays_as_it_is(address: str, address2: str, province: str) -> None:
    once = standardized(address or "12", address2, province)
    assert once.standard is not None
    if not once.standard[0]:
        return
    again = standardize(dict(zip(ADDRESS_PARTS, once.standard, strict=True)), "US")
    assert (again.standard, again.key) == (once.standard, once.key)


@settings(max_examples=300)
@given(st.text(max_size=60), st.text(max_size=30), st.text(max_size=20), st.text(max_size=12), country)
def test_no_text_is_too_odd(address: str, address2: str, city: str, code: str, where: str) -> None:
    parts = {"address": address, "address2": address2, "city": city, "province": city, "postal_code": code}
    found = standardize({name: text.strip() or None for name, text in parts.items()}, where)
    assert found.deliverability in DELIVERABILITIES
    assert bool(found.reasons) == (found.deliverability != "deliverable")
    split_address_line(f"{address} {city} {code}")
    split_address_line(f"{address}, TX 78701")
    extract_surname(address)


@given(st.text(max_size=60), st.text(max_size=30))
def test_an_address_is_one_in_both_normal_forms(address: str, address2: str) -> None:
    forms = {standardized(normalize(form, address), normalize(form, address2)) for form in ("NFC", "NFD")}
    assert len({(form.key, form.standard) for form in forms}) == 1


letters = st.text(st.characters(max_codepoint=0x24F, categories=["L", "N", "P", "Zs"]), max_size=60)


@given(letters, line)
def test_capitals_make_no_difference(address: str, address2: str) -> None:
    small, large = (standardized(write(address), write(address2)) for write in (str.lower, str.upper))
    assert (small.key, small.standard) == (large.key, large.standard)


def test_tables_and_library_agree_where_both_read_a_street() -> None:
    """They are two readings of one line: what one takes for the street, the other may not take for a unit."""
    compared = 0
    for row in sample(400, seed=5):
        if row.kind not in ("street", "unit", "numbered", "fraction", "hyphenated", "grid"):
            continue
        [words, *_] = split_segments(row.address)
        by_tables, by_library = read_delivery_point(words), parse_with_library(words)
        if by_tables and by_library and not by_library.second_line:
            compared += by_tables.street == by_library.street
            assert by_tables.street == by_library.street, row
    assert compared > 200
