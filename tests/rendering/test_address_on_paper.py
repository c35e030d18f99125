"""What the address block says: the standardized address in its country's lines, in capitals or without shouting."""

from dataclasses import replace

import pytest
from test_plain_text import BACK, COVER, FACE, box_of, text_of

from quillpost.orders import designs
from quillpost.recipients.addresses.rules import standardize_foreign
from quillpost.recipients.models import Person
from quillpost.recipients.rules import validate_recipient
from quillpost.rendering.layout import text
from quillpost.rendering.models import Addressee, SenderName
from quillpost.rendering.text.addresses import (
    COUNTRY_CODES,
    format_address_lines,
    normalize_country_code,
    to_mixed_case,
)
from quillpost.rendering.text.variables import compile_template
from quillpost.web.dashboard.orders import labels as order_labels
from quillpost.web.rendering import format_town
from support.designs import compose_item, copy, design, page_text
from support.page_reader import Pages

GIVEN = Addressee(
    name="Jane van Doe", address="12 Main Street", address2="Apartment 4b", city="O'Fallon", province="IL",
    postal_code="62269", country="US",
)  # fmt: skip
JANE = replace(GIVEN, standard=("12 MAIN ST APT 4B", None, "OFALLON", "IL", "62269-1234"))
BESIDE = replace(JANE, company="Acme", standard=("12 MAIN ST APT 4B", "C/O JOE DOE", "OFALLON", "IL", "62269"))


def test_a_block_says_the_standardized_address_where_there_is_one() -> None:
    typed = text.printed_address_lines(JANE, FACE)
    assert typed == ["JANE VAN DOE", "12 MAIN ST APT 4B", "OFALLON IL 62269-1234"]
    assert text.handwritten_address_lines(JANE) == ["Jane van Doe", "12 Main St Apt 4B", "O'Fallon IL 62269-1234"]
    assert text.printed_address_lines(GIVEN, FACE)[1:] == ["12 MAIN STREET", "APARTMENT 4B", "O'FALLON IL 62269"]
    assert text.handwritten_address_lines(GIVEN)[1:] == ["12 Main Street", "Apartment 4b", "O'Fallon IL 62269"]
    words = compile_template("%ADDRESS%, %ADDRESS2%, %CITY% %ZIP%").fill(JANE, SenderName())
    assert words == "12 Main Street, Apartment 4b, O'Fallon 62269", "the message says what was given"


def test_what_stands_beside_the_street_is_above_the_delivery_line() -> None:
    """Machines read the line next to the city as the street (Pub. 28, 211)."""
    typed = text.printed_address_lines(BESIDE, FACE)
    assert typed == ["JANE VAN DOE", "ACME", "C/O JOE DOE", "12 MAIN ST APT 4B", "OFALLON IL 62269"]
    short = text.printed_address_lines(BESIDE, FACE, address_format=text.AddressFormat.SHORT)
    assert short[2:] == ["C/O JOE DOE 12 MAIN ST APT 4B", "OFALLON IL 62269"]
    assert text.handwritten_address_lines(BESIDE)[2:4] == ["C/o Joe Doe", "12 Main St Apt 4B"]
    abroad = replace(BESIDE, country="FR", standard=("12 Rue Foch", "Étage 4", "PARIS", None, "75001"))
    assert text.printed_address_lines(abroad, FACE)[2:4] == ["12 RUE FOCH", "ÉTAGE 4"], "the second stays the second"


def test_a_unit_that_has_no_room_beside_its_street_is_above_it() -> None:
    street = "12345 NORTHWEST MARTIN LUTHER KING JUNIOR MEMORIAL BOULEVARD EXTENSION"
    long = replace(JANE, standard=(f"{street} APT 1234", None, "SACRAMENTO", "CA", "95814"))
    lines = text_of(text.draw_address(long, box_of(COVER, "address"), FACE), COVER)
    assert lines[:2] == ["JANE VAN DOE", "APT 1234"]
    assert " ".join(lines[2:-1]) == street
    assert text_of(text.draw_address(JANE, box_of(BACK, "address"), FACE), BACK)[1] == "12 MAIN ST APT 4B"


def test_every_word_and_city_is_written_as_its_residents_write_it(subtests: pytest.Subtests) -> None:
    streets = [
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
    ]
    for line, given, written in streets:
        with subtests.test(line, given=given):
            assert to_mixed_case((line, None, None, None, None), (given, None, None))[0] == written
    cities = [
        ("MCALLEN", "mcallen", "McAllen"),
        ("ST LOUIS", "St. Louis", "St. Louis"),
        ("WINSTON SALEM", "WINSTON-SALEM", "Winston Salem"),
        ("FORT WORTH", "Ft Worth", "Fort Worth"),
        ("COEUR D ALENE", "Coeur d'Alene", "Coeur d'Alene"),
    ]
    for city, given, written in cities:
        with subtests.test(city):
            assert to_mixed_case((None, None, city, None, None), (None, None, given))[2] == written


def test_the_barcode_carries_the_printed_zip_code() -> None:
    standard = ("12 MAIN ST", None, "AUSTIN", "TX", "78701-1234")
    person = Person(name="Jane", address="12 Main Street", city="Austin", province="TX", postal_code="78702")
    people = (replace(person, standard=standard), person, replace(person, standard=standard, country="CA"))
    specimens = [designs.build_specimen(each, qr_url=None, opt_out=None) for each in people]
    assert [specimen.routing for specimen in specimens] == ["787011234", "78702", ""]
    assert specimens[2].tracking is None


def test_what_a_caller_writes_is_printed_as_the_post_wants_it() -> None:
    given = {"name": "Jane", "address": "12 Main Street", "address2": "apartment 4b", "city": "austin"}
    whom = designs.build_addressee(validate_recipient(given | {"province": "texas", "postal_code": "78701"}))
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


def test_the_lines_of_an_address_abroad_are_its_countrys(subtests: pytest.Subtests) -> None:
    for country, (street, city, province, code, lines) in ABROAD.items():
        given = Addressee("Ann", None, street, None, city, province, code, country)
        place = standardize_foreign(country, city, province, code)
        standard = replace(given, standard=(street, None, place.city, place.province, place.postal_code))
        for whom in (given, standard):
            with subtests.test(country, standard=whom.standard):
                assert text.printed_address_lines(whom, FACE)[-len(lines) :] == lines
                written = text.handwritten_address_lines(whom)[-len(lines) :]
                assert [line.upper() for line in written] == [line.upper() for line in lines]


def test_an_address_abroad_is_printed_and_written_in_the_same_order() -> None:
    berlin = Addressee("Ann Lee", None, "Invalidenstr. 116", None, "Berlin", None, "10115", "Germany")
    printed = compose_item(design(), [copy(addressee=berlin, tracking=None)])
    assert "10115 BERLIN\nGERMANY" in page_text(printed.sheets, 1)
    envelopes = compose_item(design("notecard"), [copy(addressee=berlin, tracking=None)]).envelopes
    assert envelopes
    assert "Invalidenstr. 116 10115 Berlin GERMANY" in Pages(envelopes).text(0, design().ink)
    # Name, firm, street, house, city, province, code and country: two lines more than a window takes.
    moscow = Addressee("Ann", "Lee & Co", "Tverskaya 1", "kv. 2", "Khimki", "Moscow Oblast", "141400", "RU")
    assert len(text.printed_address_lines(moscow, FACE)) == 8
    sheet = compose_item(design("letter"), [copy(addressee=moscow, tracking=None)]).sheets
    assert "\nTVERSKAYA 1 KV. 2\nKHIMKI, MOSCOW OBLAST, 141400\nRUSSIA" in page_text(sheet, 0)


PLACES: list[tuple[str | None, str | None, str | None, str | None, list[str]]] = [
    ("DE", "Berlin", "BE", "10115", ["10115 Berlin"]),
    ("Germany", "Berlin", None, "10115", ["10115 Berlin"]),
    ("ES", "Barcelona", "B", "08001", ["08001 Barcelona"]),
    ("ES", "Sitges", "B", "08870", ["08870 Sitges Barcelona"]),
    ("ES", "Sitges", "Cataluña", "08870", ["08870 Sitges Cataluña"]),
    ("GB", "London", "Middlesex", "NW1 6XE", ["London", "NW1 6XE"]),
    ("TR", "Kadikoy", "Istanbul", "34710", ["34710 Kadikoy/Istanbul"]),
    ("TR", "Kadikoy", None, "34710", ["34710 Kadikoy"]),
    ("MX", "Toluca", None, "50000", ["50000 Toluca"]),
    ("CH", "Bern", None, "3000", ["CH-3000 Bern"]),
    ("CH", "Bern", None, "CH-3000", ["CH-3000 Bern"]),
    ("FO", "Torshavn", None, "100", ["FO100 Torshavn"]),
    ("FO", "Torshavn", None, "FO 100", ["FO 100 Torshavn"]),
    ("SG", "Singapore", None, "049315", ["SINGAPORE 049315"]),
    ("SG", "Jurong", None, "049315", ["Jurong", "SINGAPORE 049315"]),
    ("AE", "Dubai", "Dubai", None, ["Dubai"]),
    ("HK", "Central", "Hong Kong Island", None, ["Central", "Hong Kong Island"]),
    ("KZ", "Almaty", "Almaty Region", "050000", ["Almaty", "Almaty Region", "050000"]),
    ("GH", "Accra", "Greater Accra", "GA-123", ["Accra Greater Accra GA-123"]),
    ("DE", None, "Bayern", "80331", ["80331 Bayern"]),
    ("US", "Austin", "TX", "78701", ["Austin TX 78701"]),
    (None, "Austin", "TX", "78701", ["Austin TX 78701"]),
    ("Atlantis", "Poseidonia", "P", "1", ["Poseidonia P 1"]),
    ("DE", " ", None, None, []),
]


def test_the_place_is_written_as_its_country_does(subtests: pytest.Subtests) -> None:
    street = ["1 Street", "Unit 2"]
    for country, city, province, code, lines in PLACES:
        with subtests.test(country, city=city, province=province, code=code):
            assert format_address_lines(country, street, city, province, code) == [*street, *lines]
    assert format_address_lines("HU", ["Fo utca 1"], "Budapest", None, "1051") == ["Budapest", "Fo utca 1", "1051"]
    for country in sorted(COUNTRY_CODES):
        with subtests.test("nothing is lost or repeated", country=country):
            found = format_address_lines(country, street, "Cityville", "Provinceland", "12345")
            written = "\n".join(found)
            assert [written.count(part) for part in (*street, "Cityville", "12345")] == [1] * 4
            assert written.count("Provinceland") <= 1
            assert "%" not in written
            assert all(line == line.strip(" ,/-") for line in found)


def test_countries_are_known_by_code_and_by_name_and_provinces_keep_their_letters() -> None:
    names = {" de ": "DE", "Deutschland": "DE", "Canada": "CA", None: "US", "Atlantis": "Atlantis"}
    assert {name: normalize_country_code(name) for name in names} == names
    assert standardize_foreign("JP", "Shibuya-ku", "Tokyo", "150-0001").province == "Tokyo"
    assert standardize_foreign("JP", "渋谷区", "東京都", "150-0001").province == "東京都"
    assert standardize_foreign("CA", "Toronto", "Ontario", "M5V 2T6").province == "ON"


def test_pages_name_a_place_on_one_line_and_show_an_address_in_its_countrys_lines() -> None:
    assert format_town("Austin", "TX", "78701") == "Austin, TX 78701"
    assert format_town("Berlin", None, "10115", "DE") == "10115 Berlin, Germany"
    assert format_town("London", None, "NW1 6XE", "GB") == "London, NW1 6XE, United Kingdom"
    assert format_town(None, None, None) == ""
    damrak = order_labels.address_lines("Damrak 1", None, "Amsterdam", None, "1012 AB", "NL")
    assert damrak == ["Damrak 1", "1012 AB Amsterdam", "Netherlands"]
    elm = order_labels.address_lines("1 Elm St", "Apt 2", "Austin", "TX", "78701")
    assert elm == ["1 Elm St", "Apt 2", "Austin, TX 78701"]
