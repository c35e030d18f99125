"""What the address block says: the standardised address, typed in capitals or written without shouting."""

from dataclasses import replace

import pytest
from test_plain_text import BACK, COVER, FACE, box_of, text_of

from quillpost.orders import designs
from quillpost.recipients.addresses.rules import standardize_foreign
from quillpost.recipients.models import Person
from quillpost.recipients.rules import validate_recipient
from quillpost.rendering.layout import text
from quillpost.rendering.models import Addressee, SenderName
from quillpost.rendering.text.addresses import to_mixed_case
from quillpost.rendering.text.variables import compile_template
from support.designs import compose_item, copy, design, page_text
from support.page_reader import Pages

GIVEN = Addressee(
    name="Jane van Doe",
    address="12 Main Street",
    address2="Apartment 4b",
    city="O'Fallon",
    province="IL",
    postal_code="62269",
    country="US",
)
JANE = replace(GIVEN, standard=("12 MAIN ST APT 4B", None, "OFALLON", "IL", "62269-1234"))


def test_a_typed_block_says_the_standardised_address() -> None:
    assert text.printed_address_lines(JANE, FACE) == [
        "JANE VAN DOE", "12 MAIN ST APT 4B", "OFALLON IL 62269-1234",
    ]  # fmt: skip


def test_a_hand_writes_it_without_shouting() -> None:
    assert text.handwritten_address_lines(JANE) == ["Jane van Doe", "12 Main St Apt 4B", "O'Fallon IL 62269-1234"]


def test_without_a_standard_both_say_what_was_given() -> None:
    assert text.printed_address_lines(GIVEN, FACE)[1:] == ["12 MAIN STREET", "APARTMENT 4B", "O'FALLON IL 62269"]
    assert text.handwritten_address_lines(GIVEN)[1:] == ["12 Main Street", "Apartment 4b", "O'Fallon IL 62269"]


BESIDE = replace(JANE, company="Acme", standard=("12 MAIN ST APT 4B", "C/O JOE DOE", "OFALLON", "IL", "62269"))


def test_what_stands_beside_the_street_is_above_the_delivery_line() -> None:
    """Machines read the line next to the city as the street (Pub. 28, 211)."""
    assert text.printed_address_lines(BESIDE, FACE) == [
        "JANE VAN DOE", "ACME", "C/O JOE DOE", "12 MAIN ST APT 4B", "OFALLON IL 62269",
    ]  # fmt: skip
    assert text.printed_address_lines(BESIDE, FACE, address_format=text.AddressFormat.SHORT)[2:] == [
        "C/O JOE DOE 12 MAIN ST APT 4B", "OFALLON IL 62269",
    ]  # fmt: skip
    assert text.handwritten_address_lines(BESIDE)[2:4] == ["C/o Joe Doe", "12 Main St Apt 4B"]


def test_abroad_the_second_line_stays_the_second() -> None:
    abroad = replace(BESIDE, country="FR", standard=("12 Rue Foch", "Étage 4", "PARIS", None, "75001"))
    assert text.printed_address_lines(abroad, FACE)[2:4] == ["12 RUE FOCH", "ÉTAGE 4"]


def test_the_message_says_what_was_given() -> None:
    words = compile_template("%ADDRESS%, %ADDRESS2%, %CITY% %ZIP%").fill(JANE, SenderName())
    assert words == "12 Main Street, Apartment 4b, O'Fallon 62269"


@pytest.mark.parametrize(
    ("line", "given", "written"),
    [
        ("PO BOX 7", None, "PO Box 7"),
        ("RR 2 BOX 152", None, "RR 2 Box 152"),
        ("PSC 802 BOX 74", None, "PSC 802 Box 74"),
        ("1200 NW 42ND AVE # 3", None, "1200 NW 42nd Ave # 3"),
        ("1ST ST", None, "1st St"),
        ("12-34 BELL BLVD", None, "12-34 Bell Blvd"),
        ("500 MCKINNEY ST STE B", None, "500 McKinney St Ste B"),
        ("9 AVENUE OF THE AMERICAS", None, "9 Avenue of the Americas"),
        ("77 DIAZ-ORDAZ CT", None, "77 Diaz-Ordaz Ct"),
        ("12 MLK BLVD", "12 MLK Boulevard", "12 MLK Blvd"),
        ("12 DEWITT ST", "12 DeWitt Street", "12 DeWitt St"),
        ("12 DEWITT ST", "12 DEWITT STREET", "12 Dewitt St"),
        ("12 MAIN ST", "12 main St", "12 Main St"),
        ("12 Hauptstraße", "12 hauptstraße", "12 Hauptstraße"),
    ],
)
def test_every_word_has_its_own_letters(line: str, given: str | None, written: str) -> None:
    assert to_mixed_case((line, None, None, None, None), (given, None, None))[0] == written


@pytest.mark.parametrize(
    ("city", "given", "written"),
    [
        ("MCALLEN", "mcallen", "McAllen"),
        ("ST LOUIS", "St. Louis", "St. Louis"),
        ("WINSTON SALEM", "WINSTON-SALEM", "Winston Salem"),
        ("FORT WORTH", "Ft Worth", "Fort Worth"),
        ("COEUR D ALENE", "Coeur d'Alene", "Coeur d'Alene"),
    ],
)
def test_a_city_is_written_as_its_residents_write_it(city: str, given: str, written: str) -> None:
    calmed = to_mixed_case((None, None, city, None, None), (None, None, given))[2]
    assert calmed == written


def test_a_unit_that_has_no_room_beside_its_street_is_above_it() -> None:
    street = "12345 NORTHWEST MARTIN LUTHER KING JUNIOR MEMORIAL BOULEVARD EXTENSION"
    long = replace(JANE, standard=(f"{street} APT 1234", None, "SACRAMENTO", "CA", "95814"))
    lines = text_of(text.draw_address(long, box_of(COVER, "address"), FACE), COVER)
    assert lines[:2] == ["JANE VAN DOE", "APT 1234"]
    assert " ".join(lines[2:-1]) == street
    short = text_of(text.draw_address(JANE, box_of(BACK, "address"), FACE), BACK)
    assert short[1] == "12 MAIN ST APT 4B"


def test_the_barcode_carries_the_printed_zip_code() -> None:
    person = Person(
        name="Jane",
        address="12 Main Street",
        city="Austin",
        province="TX",
        postal_code="78702",
        standard=("12 MAIN ST", None, "AUSTIN", "TX", "78701-1234"),
    )
    copy = designs.build_specimen(person, qr_url=None, opt_out=None)
    assert copy.routing == "787011234"
    plain = designs.build_specimen(replace(person, standard=None), qr_url=None, opt_out=None)
    assert plain.routing == "78702"
    abroad = designs.build_specimen(replace(person, country="CA"), qr_url=None, opt_out=None)
    assert (abroad.routing, abroad.tracking) == ("", None)


def test_what_a_caller_writes_is_printed_as_the_post_wants_it() -> None:
    someone = validate_recipient(
        {"name": "Jane", "address": "12 Main Street", "address2": "apartment 4b", "city": "austin",
         "province": "texas", "postal_code": "78701"}
    )  # fmt: skip
    whom = designs.build_addressee(someone)
    assert text.printed_address_lines(whom, FACE)[1:] == ["12 MAIN ST APT 4B", "AUSTIN TX 78701"]
    assert text.handwritten_address_lines(whom)[1:] == ["12 Main St Apt 4B", "Austin TX 78701"]


ABROAD = {
    "DE": ("Invalidenstraße 116", "Berlin", "BE", "10115", ["INVALIDENSTRASSE 116", "10115 BERLIN", "GERMANY"]),
    "GB": ("221B Baker Street", "London", None, "NW1 6XE", ["LONDON", "NW1 6XE", "UNITED KINGDOM"]),
    "NL": ("Damrak 1", "Amsterdam", "Noord-Holland", "1012 AB", ["1012 AB AMSTERDAM", "NETHERLANDS"]),
    "FR": ("8 rue Foch", "Paris Cedex 08", None, "75008", ["75008 PARIS CEDEX 08", "FRANCE"]),
    "CA": ("1 Front St W", "Toronto", "ON", "M5V 2T6", ["TORONTO ON M5V 2T6", "CANADA"]),
    "MX": ("Reforma 1", "Cuauhtémoc", "CDMX", "06000", ["06000 CUAUHTÉMOC, CDMX", "MEXICO"]),
    "AU": ("1 George St", "Sydney", "NSW", "2000", ["SYDNEY NSW 2000", "AUSTRALIA"]),
    "JP": ("1-2-3 Jingumae", "Shibuya-ku", "Tokyo", "150-0001", ["SHIBUYA-KU, TOKYO", "150-0001", "JAPAN"]),
    "CH": ("Bahnhofstrasse 1", "Zürich", None, "8001", ["CH-8001 ZÜRICH", "SWITZERLAND"]),
    "BR": ("Av. Paulista 1", "São Paulo", "SP", "01310-100", ["SÃO PAULO-SP", "01310-100", "BRAZIL"]),
    "IT": ("Via Appia 1", "Roma", "RM", "00184", ["00184 ROMA RM", "ITALY"]),
}


@pytest.mark.parametrize("country", ABROAD)
@pytest.mark.parametrize("is_standardized", [False, True], ids=["given", "standard"])
def test_the_lines_of_an_address_abroad_are_its_countrys(country: str, is_standardized: bool) -> None:
    street, city, province, code, lines = ABROAD[country]
    whom = Addressee("Ann", None, street, None, city, province, code, country)
    if is_standardized:
        place = standardize_foreign(country, city, province, code)
        whom = replace(whom, standard=(street, None, place.city, place.province, place.postal_code))
    assert text.printed_address_lines(whom, FACE)[-len(lines) :] == lines
    written = text.handwritten_address_lines(whom)
    assert [line.upper() for line in written[-len(lines) :]] == [line.upper() for line in lines]


def test_an_address_abroad_is_printed_and_written_in_the_same_order() -> None:
    berlin = Addressee("Ann Lee", None, "Invalidenstr. 116", None, "Berlin", None, "10115", "Germany")
    assert "10115 BERLIN\nGERMANY" in page_text(
        compose_item(design(), [copy(addressee=berlin, tracking=None)]).sheets, 1
    )
    envelopes = compose_item(design("notecard"), [copy(addressee=berlin, tracking=None)]).envelopes
    assert envelopes
    assert "Invalidenstr. 116 10115 Berlin GERMANY" in Pages(envelopes).text(0, design().ink)


def test_an_address_abroad_with_many_lines_still_shows_in_a_window() -> None:
    """Name, firm, street, house, city, province, code and country: two more than a window takes."""
    moscow = Addressee("Ann", "Lee & Co", "Tverskaya 1", "kv. 2", "Khimki", "Moscow Oblast", "141400", "RU")
    assert len(text.printed_address_lines(moscow, FACE)) == 8
    sheet = compose_item(design("letter"), [copy(addressee=moscow, tracking=None)]).sheets
    lines = page_text(sheet, 0).split("\n")
    start = lines.index("TVERSKAYA 1 KV. 2")
    assert lines[start + 1 : start + 3] == ["KHIMKI, MOSCOW OBLAST, 141400", "RUSSIA"]
