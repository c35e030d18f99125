"""Addresses at home as Publication 28 writes them, however they were given."""

import pytest

from quillpost.recipients.addresses.rules import StandardizedAddress, standardize


def standardized(address: str, address2: str | None = None, **other: str) -> StandardizedAddress:
    place = {"city": "Austin", "province": "TX", "postal_code": "78701"} | other
    return standardize({"address": address, "address2": address2, **place}, "US")


def lines(address: str, address2: str | None = None, **other: str) -> tuple[str | None, str | None]:
    standard = standardized(address, address2, **other).standard
    assert standard is not None
    return standard[:2]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("12 Main Street", "12 MAIN ST"),
        ("12 main st.", "12 MAIN ST"),
        ("12 North Main Street", "12 N MAIN ST"),
        ("12 N.W. 5th Avenue", "12 NW 5TH AVE"),
        ("12 N W 5th Ave", "12 NW 5TH AVE"),
        ("12 So. Lamar Boulevard", "12 S LAMAR BLVD"),
        ("12 North St", "12 NORTH ST"),
        ("12 S West St", "12 S WEST ST"),
        ("12 E St NW", "12 E ST NW"),
        ("12 Park Avenue South", "12 PARK AVE S"),
        ("12 Bay West Drive", "12 BAY WEST DR"),
        ("12 Court Crt", "12 COURT CT"),
        ("12 Main St Extension", "12 MAIN ST EXT"),
        ("12 O'Brien St", "12 OBRIEN ST"),
        ("12 Café Way", "12 CAFE WAY"),
        ("12 Winston-Salem Rd", "12 WINSTON-SALEM RD"),
        ("12 5 St", "12 5TH ST"),
        ("12 22 Avenue", "12 22ND AVE"),
        ("12 111 St", "12 111TH ST"),
        ("12 Fifth Avenue", "12 FIFTH AVE"),
        ("842 E 1700 South", "842 E 1700 S"),
        ("12 39.2 Road", "12 39.2 RD"),
        ("12 1/2 Main St", "12 1/2 MAIN ST"),
        ("12½ Main St", "12 1/2 MAIN ST"),
        ("112-10 Bronx Road", "112-10 BRONX RD"),
        ("112 - 10 Bronx Road", "112-10 BRONX RD"),
        ("N6W23001 Bluemound Rd", "N6W23001 BLUEMOUND RD"),
        ("One Microsoft Way", "1 MICROSOFT WAY"),
        ("Two Rivers Road", "TWO RIVERS RD"),
        ("12 Broadway", "12 BROADWAY"),
        ("12 Avenue of the Americas", "12 AVENUE OF THE AMERICAS"),
        ("12 Ave A", "12 AVENUE A"),
        ("12 Avenue N", "12 AVENUE N"),
        ("12 Via Del Mar", "12 VIA DEL MAR"),
        ("12 Old St Augustine Rd", "12 OLD ST AUGUSTINE RD"),
        ("12 Martin Luther King Jr Blvd", "12 MARTIN LUTHER KING JR BLVD"),
        ("12 Main St, NW", "12 MAIN ST NW"),
    ],
)
def test_a_street_has_its_standard_abbreviations(given: str, written: str) -> None:
    assert lines(given) == (written, None)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("12 Co Rd 5", "12 COUNTY ROAD 5"),
        ("12 CR 5", "12 COUNTY ROAD 5"),
        ("12 County Rd No. 5", "12 COUNTY ROAD 5"),
        ("12 Hwy 101 N", "12 HIGHWAY 101 N"),
        ("12 US-44", "12 US HIGHWAY 44"),
        ("12 U.S. Hwy 44 Lot 3", "12 US HIGHWAY 44 LOT 3"),
        ("12 I10 Frontage Road", "12 INTERSTATE 10 FRONTAGE RD"),
        ("12 State Rte 9", "12 STATE ROUTE 9"),
        ("12 Farm to Market Road 1960", "12 FM 1960"),
        ("12 Highway 11 Bypass", "12 HIGHWAY 11 BYP"),
    ],
)
def test_a_highway_is_written_out(given: str, written: str) -> None:
    assert lines(given) == (written, None)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("P.O. Box 12", "PO BOX 12"),
        ("Post Office Box 12", "PO BOX 12"),
        ("POB 12", "PO BOX 12"),
        ("Box G", "PO BOX G"),
        ("PO Box #12", "PO BOX 12"),
        ("PO Drawer 12", "PO BOX 12"),
        ("Rural Route 03, Box 98D", "RR 3 BOX 98D"),
        ("RFD 2 Box 18", "RR 2 BOX 18"),
        ("RR2 #18", "RR 2 BOX 18"),
        ("Star Route 68 Box 98", "HC 68 BOX 98"),
        ("HC 68 Box 98", "HC 68 BOX 98"),
        ("General Delivery", "GENERAL DELIVERY"),
        ("psc 3 box 4120", "PSC 3 BOX 4120"),
        ("CMR 830 Box 2", "CMR 830 BOX 2"),
        ("Unit 2050 Box 4190", "UNIT 2050 BOX 4190"),
    ],
)
def test_a_box_is_an_address(given: str, written: str) -> None:
    assert lines(given) == (written, None)


@pytest.mark.parametrize(
    ("address", "address2", "written"),
    [
        ("12 Main St", "Apt 4", "12 MAIN ST APT 4"),
        ("12 Main St, Apartment 4", None, "12 MAIN ST APT 4"),
        ("12 Main St Apt. #4", None, "12 MAIN ST APT 4"),
        ("Apt 4, 12 Main St", None, "12 MAIN ST APT 4"),
        ("Apt 4 12 Main St", None, "12 MAIN ST APT 4"),
        ("12 Main St Apt 4", "Apt 4", "12 MAIN ST APT 4"),
        ("12 Main St", "#4", "12 MAIN ST # 4"),
        ("12 Main St #4", None, "12 MAIN ST # 4"),
        ("12 Main St", "4B", "12 MAIN ST # 4B"),
        ("12 Main St 4B", None, "12 MAIN ST # 4B"),
        ("12 Main St", "Suite 300", "12 MAIN ST STE 300"),
        ("12 Main St", "Ste.300", "12 MAIN ST STE 300"),
        ("12 Main St", "2nd Floor", "12 MAIN ST FL 2"),
        ("12 Main St Building 4 Apartment 5", None, "12 MAIN ST BLDG 4 APT 5"),
        ("12 Main St Bldg 4", "Room 5", "12 MAIN ST BLDG 4 RM 5"),
        ("12 Main St", "Penthouse", "12 MAIN ST PH"),
        ("12 Main St Upper", None, "12 MAIN ST UPPR"),
        ("12 Main St", "Hangar B", "12 MAIN ST HNGR B"),
        ("12 Main St", "PMB 234", "12 MAIN ST PMB 234"),
        ("12 Main St", "Unit 4 B", "12 MAIN ST UNIT 4 B"),
    ],
)
def test_a_unit_stands_at_the_end_of_the_delivery_line(address: str, address2: str | None, written: str) -> None:
    assert lines(address, address2) == (written, None)


@pytest.mark.parametrize(
    "street", ["12 OCEAN FRONT", "12 LAKE SIDE", "12 OLD PIER RD", "12 FRONT ST", "12 KEY ST", "12 OFFICE PARK DR"]
)
def test_a_street_named_like_a_unit_is_none(street: str) -> None:
    assert lines(street) == (street, None)


@pytest.mark.parametrize(
    ("address", "address2", "written"),
    [
        ("12 Main St", "c/o Jane Doe", ("12 MAIN ST", "C/O JANE DOE")),
        ("c/o Jane Doe", "12 Main Street", ("12 MAIN ST", "C/O JANE DOE")),
        ("12 Main St", "Oak Tower", ("12 MAIN ST", "OAK TOWER")),
        ("Oak Tower", "12 Main St Suite 4", ("12 MAIN ST STE 4", "OAK TOWER")),
        ("12 Main St", "Oak Tower, Suite 4", ("12 MAIN ST STE 4", "OAK TOWER")),
        ("12 Main St, Oak Tower", "Suite 4", ("12 MAIN ST STE 4", "OAK TOWER")),
        ("12 Main St", "P.O. Box 5", ("12 MAIN ST", "PO BOX 5")),
        ("12 Main St PO Box 5", None, ("12 MAIN ST", "PO BOX 5")),
        ("12 Main St Oak Village", None, ("12 MAIN ST", "OAK VILLAGE")),
    ],
)
def test_what_is_no_unit_has_a_line_of_its_own(address: str, address2: str | None, written: tuple[str, str]) -> None:
    assert lines(address, address2) == written


@pytest.mark.parametrize(
    ("address", "address2", "written"),
    [
        ("12 Calle 5", None, ("12 CALLE 5", None)),
        ("12 Calle A", "Urbanización Las Gladiolas", ("12 CALLE A", "URB LAS GLADIOLAS")),
        ("Urb. Las Gladiolas", "12 Calle A", ("12 CALLE A", "URB LAS GLADIOLAS")),
        ("1234 Avenida Ashford", "Apto 4", ("1234 AVE ASHFORD APT 4", None)),
        ("1234 Ave Muñoz Rivera", None, ("1234 AVE MUNOZ RIVERA", None)),
    ],
)
def test_puerto_rico_has_words_of_its_own(address: str, address2: str | None, written: tuple[str, str | None]) -> None:
    assert lines(address, address2, city="San Juan", province="PR", postal_code="00926") == written


@pytest.mark.parametrize(
    ("city", "state", "code", "written"),
    [
        ("St. Louis", "MO", "63101", "SAINT LOUIS"),
        ("Ft Worth", "TX", "76102", "FORT WORTH"),
        ("mt. vernon", "NY", "10550", "MOUNT VERNON"),
        ("De Soto", "TX", "75115", "DESOTO"),
        ("Boston", "MA", "02134", "BOSTON"),
        ("NYC", "NY", "10001", "NYC"),
        ("Elsewhere", "TX", "78701", "ELSEWHERE"),
    ],
)
def test_a_city_changes_only_its_form(city: str, state: str, code: str, written: str) -> None:
    standard = standardized("12 Main St", city=city, province=state, postal_code=code).standard
    assert standard is not None
    assert standard[2:] == (written, state, code)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (("12 Main Street, Apt. 4", None), ("12 MAIN ST", "Apt 4")),
        (("12 Main Street, Apt. 4", None), ("12 MAIN ST #4", None)),
        (("12 Main Street", "4"), ("12 MAIN ST", "Unit 4")),
        (("12 First Street", None), ("12 1st St", None)),
        (("12 Saint Marys Ave", None), ("12 St. Mary's Avenue", None)),
        (("12 Main St", "c/o Jane Doe"), ("12 Main St", None)),
        (("Oak Tower", "12 Main St"), ("12 Main St", "Oak Tower")),
        (("PO Box 12", None), ("P.O. Box #12", None)),
        (("12 Hwy 5", None), ("12 Highway 5", None)),
    ],
)
def test_spellings_of_one_address_have_one_key(here: tuple[str, str | None], there: tuple[str, str | None]) -> None:
    assert standardized(*here).key == standardized(*there).key


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (("12 Main St", "Apt 4"), ("12 Main St", "Apt 5")),
        (("12 Main St", "Apt 4"), ("12 Main St", "Bldg 4")),
        (("12 Main St", "Apt 4"), ("12 Main St", "Fl 4")),
        (("12 Main St", "Bldg 1 Apt 12"), ("12 Main St", "Bldg 11 Apt 2")),
        (("12 Main St", None), ("12 Main Ave", None)),
        (("12 N Main St", None), ("12 S Main St", None)),
        (("12 Main St N", None), ("12 N Main St", None)),
        (("12 Main St", "Oak Tower"), ("12 Main St", "Elm Tower")),
        (("12 1/2 Main St", None), ("12 Main St", None)),
    ],
)
def test_another_address_has_another_key(here: tuple[str, str | None], there: tuple[str, str | None]) -> None:
    assert standardized(*here).key != standardized(*there).key


def test_a_key_says_street_unit_zip_and_country() -> None:
    assert standardized("12 North Main Street, Apt. 4", postal_code="78701-1234").key == "12 N MAIN ST|4|78701|US"
