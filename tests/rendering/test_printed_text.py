"""What is printed beside the message, read back as text, places and pixels: addresses in their country's lines."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pypdfium2 as pdfium
import pytest

from quillpost.orders import designs
from quillpost.recipients.addresses.rules import standardize_foreign
from quillpost.recipients.models import Person
from quillpost.recipients.rules import validate_recipient
from quillpost.rendering.codes import barcode
from quillpost.rendering.handwriting.text import CachedFace
from quillpost.rendering.layout import text
from quillpost.rendering.layout.fronts import draw_plain_front
from quillpost.rendering.layout.models import DoesNotFit, Side
from quillpost.rendering.layout.sides import draw_barcode, draw_divider, draw_opt_out, fit_opt_out
from quillpost.rendering.models import INCH, Addressee, Box, ReturnAddress, SenderName
from quillpost.rendering.text import addresses
from quillpost.rendering.text.variables import compile_template
from quillpost.web.dashboard.orders import labels as order_labels
from quillpost.web.rendering import format_town
from support.designs import JENNY, PIECES, compose_item, copy, design, page_text
from support.page_reader import Pages
from support.printed_sides import greeting, plain_face, render_side, sheet_pdf

FACE = CachedFace(plain_face())
BACK = PIECES["postcard-4x6"].find_side("back")
COVER = PIECES["letter"].find_side("cover")
SHEET = Side(name="sheet", trim=Box(0, 0, 432, 288))
DANA = ReturnAddress("Dana Whitfield", "PO Box 1180", None, "Austin", "TX", "78701")
BARS = barcode.encode_barcode("00270123456000000017", "98227587412").encode()


def box_of(side: Side, name: str) -> Box:
    box = getattr(side, name)
    assert isinstance(box, Box)
    return box


ADDRESS_BOX, RETURN_BOX = box_of(BACK, "address"), box_of(BACK, "return_address")


def text_of(content: bytes, side: Side = SHEET) -> list[str]:
    with pdfium.PdfDocument(sheet_pdf(side, content)) as document:
        return str(document[0].get_textpage().get_text_bounded()).splitlines()


def ink_of(content: bytes, side: Side = SHEET) -> Box:
    """The box around every letter, from the lower left of the trim."""
    with pdfium.PdfDocument(sheet_pdf(side, content)) as document:
        text = document[0].get_textpage()
        boxes = [text.get_charbox(place) for place in range(text.count_chars())]
    edges = np.array([box for box in boxes if box[2] > box[0]]) - side.bleed
    left, bottom = edges[:, :2].min(axis=0)
    right, top = edges[:, 2:].max(axis=0)
    return Box(left, bottom, right - left, top - bottom)


def pixels_of(content: bytes, side: Side = SHEET, dpi: int = 288) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.asarray(render_side(side, content, dpi))


def size_of(content: bytes) -> float:
    found = re.search(rb"/F2 ([0-9.]+) Tf", content)
    assert found
    return float(found[1])


def printed_lines(**changes: object) -> list[str]:
    return text.printed_address_lines(replace(JENNY, **changes), FACE)  # type: ignore[arg-type]


def test_an_address_is_in_capitals_inside_its_box_and_a_long_line_smaller_before_it_is_broken() -> None:
    drawn = text.draw_address(replace(JENNY, address2="Apt 4B"), ADDRESS_BOX, FACE)
    assert text_of(drawn, BACK) == [
        "JENNY SKINNER", "SKINNER & SÖHNE", "8380 HARMON UNDERPASS", "APT 4B", "PORT STEVENBURY SD 98227-5874",
    ]  # fmt: skip
    assert size_of(drawn) == 10.5
    again = text.draw_address(replace(JENNY), ADDRESS_BOX, FACE)
    assert text.draw_address(JENNY, ADDRESS_BOX, FACE) == again
    assert ADDRESS_BOX.contains(ink_of(again, BACK))
    drawn = text.draw_address(replace(JENNY, address="8380 Harmon Underpass Boulevard North"), ADDRESS_BOX, FACE)
    assert 8 <= size_of(drawn) < 10.5
    assert "8380 HARMON UNDERPASS BOULEVARD NORTH" in text_of(drawn, BACK)
    street = "8380 Harmon Underpass Boulevard North East Of The River"
    drawn = text.draw_address(replace(JENNY, address=street), ADDRESS_BOX, FACE)
    lines = text_of(drawn, BACK)
    assert len(lines) == 5
    assert " ".join(lines[2:4]) == street.upper()
    assert ADDRESS_BOX.contains(ink_of(drawn, BACK))


def test_blanks_and_control_characters_do_not_print_and_only_mail_abroad_names_its_country_and_names_it_whole() -> None:
    for blank in (None, "", "  ", "\t\n"):
        assert len(printed_lines(company=blank, address2=blank)) == 3
        assert text.draw_address(Addressee(name=blank), ADDRESS_BOX, FACE) == b""
    odd = Addressee(name="  Ann\u00a0\t Lee ", address="12\x00 Oak\r\nSt", city="Jose\u0301")
    assert text.printed_address_lines(odd, FACE) == ["ANN LEE", "12 OAK ST", "JOSÉ"]
    # A carrier reads DE as Delaware.
    for country in (None, "", "US", "usa", " United  States ", "United States of America"):
        assert printed_lines(country=country)[-1] == "PORT STEVENBURY SD 98227-5874", country
    abroad = {"Österreich": "ÖSTERREICH", "DE": "GERMANY", "ca": "CANADA", " gb ": "UNITED KINGDOM"}
    for country, name in (abroad | {"KR": "SOUTH KOREA"}).items():
        assert printed_lines(country=country)[-1] == name
    assert set(addresses.POSTAL_COUNTRY_NAMES) == set(addresses.COUNTRY_CODES)
    assert all(len(name) > 3 and name == name.upper() for name in addresses.POSTAL_COUNTRY_NAMES.values())


def test_a_word_of_three_hundred_letters_is_broken_or_refused() -> None:
    box = Box(50, 50, 200, 150)
    drawn = text.draw_address(Addressee(name="M" * 150), box, FACE)
    assert "".join(text_of(drawn)) == "M" * 150
    assert box.contains(ink_of(drawn))
    with pytest.raises(DoesNotFit) as refused:
        text.draw_address(Addressee(name="M" * 300), box_of(COVER, "address"), FACE)
    assert refused.value.message == "The address is too long for the piece; shorten its lines."
    assert refused.value.overflow_lines > 1


def test_six_lines_fit_the_window_of_a_letter_and_where_room_is_short_the_unit_joins_its_street() -> None:
    box, six_lines = box_of(COVER, "address"), replace(JENNY, address2="Apt 4B", country="Canada")
    drawn = text.draw_address(six_lines, box, FACE)
    assert (len(text_of(drawn, COVER)), size_of(drawn)) == (6, 8)
    assert box.expand(0, 1).contains(ink_of(drawn, COVER))
    lines = text_of(text.draw_address(six_lines, replace(box, height=0.6 * INCH), FACE), COVER)
    assert (len(lines), lines[2]) == (5, "8380 HARMON UNDERPASS APT 4B")
    assert len(text_of(text.draw_address(six_lines, ADDRESS_BOX, FACE), BACK)) == 6


def test_a_return_address_is_at_the_top_of_its_box_and_measured_as_large_as_its_ink() -> None:
    block = text.fit_return_address(DANA, RETURN_BOX, FACE)
    assert block
    drawn = text.draw_block(block, RETURN_BOX, FACE)
    assert text_of(drawn, BACK) == ["Dana Whitfield", "PO Box 1180", "Austin, TX 78701"]
    ink, width = ink_of(drawn, BACK), block.measure_width(FACE)
    assert RETURN_BOX.contains(ink)
    assert RETURN_BOX.top - ink.top < 3
    assert Box(RETURN_BOX.left, RETURN_BOX.top - block.height, width, block.height).contains(ink)
    assert width - ink.width < 3
    assert block.height - ink.height < 4
    assert text.fit_return_address(ReturnAddress(), RETURN_BOX, FACE) is None
    with pytest.raises(DoesNotFit, match="return address"):
        text.fit_return_address(replace(DANA, name="Whitfield " * 40), RETURN_BOX, FACE)


def test_an_indicia_stands_in_the_middle_of_its_frame() -> None:
    box, lines = box_of(BACK, "indicia"), ("FIRST-CLASS MAIL", "U.S. POSTAGE PAID", "QUILLPOST")
    drawn = text.draw_indicia(lines, box, FACE)
    assert text_of(drawn, BACK) == list(lines)
    ink = ink_of(drawn, BACK)
    assert box.expand(-3).contains(ink)
    assert ink.left - box.left == pytest.approx(box.right - ink.right, abs=1)
    assert ink.bottom - box.bottom == pytest.approx(box.top - ink.top, abs=2)
    assert text.draw_indicia(("", " "), box, FACE) == b""
    with pytest.raises(DoesNotFit, match="indicia"):
        text.draw_indicia(["POSTAGE PAID"] * 20, box, FACE)


def test_a_divider_is_one_thin_gray_line_and_bars_fill_the_box_that_they_are_given() -> None:
    pixels = pixels_of(draw_divider(Box(216, 36, 0, 216)))[:, :, 0]
    columns = np.flatnonzero((pixels < 250).any(axis=0)) / 4
    assert (columns.min(), columns.max()) == pytest.approx((216, 216), abs=0.5)
    assert pixels.min() > 180
    for width, height in ((2.9291, 0.145), (2.7, 0.125), (3.2, 0.165)):
        box = Box(72, 72, width * INCH, height * INCH)
        drawn = draw_barcode(BARS, box)
        assert text_of(drawn) == [BARS.decode()]
        dark = pixels_of(drawn)[:, :, 0] < 128
        across, down = np.flatnonzero(dark.any(axis=0)), np.flatnonzero(dark.any(axis=1))
        assert [across[0] / 4, (across[-1] + 1) / 4] == pytest.approx([box.left, box.right], abs=0.3)
        assert [288 - (down[-1] + 1) / 4, 288 - down[0] / 4] == pytest.approx([box.bottom, box.top], abs=0.3)
        assert sum(column > before + 1 for before, column in pairwise([-9, *across])) == 65


def test_the_opt_out_line_is_small_and_if_too_long_only_its_link() -> None:
    box, line = box_of(BACK, "opt_out"), "No more mail? Enter K7QX-24 at mail.example.com/stop"

    def drawn(text: str) -> bytes:
        opt_out = fit_opt_out(text, box, FACE)
        return draw_opt_out(opt_out, FACE) if opt_out else b""

    assert text_of(drawn(line), BACK) == [line]
    assert size_of(drawn(line)) <= 6
    assert box.contains(ink_of(drawn(line), BACK))
    assert drawn(" ") == b""
    long = f"Should you prefer no more mail of this kind at all, visit {'mail.' * 9}example.com/stop/7KX2MNPQ"
    assert text_of(drawn(long), BACK) == [long.split()[-1]]
    with pytest.raises(DoesNotFit, match="opt-out line"):
        fit_opt_out("No more mail? " + "mail." * 40, box, FACE)


def test_a_plain_front_keeps_to_its_panel(subtests: pytest.Subtests) -> None:
    companies = ("Maple & Main Realty", "A company whose name is long " * 6, None)
    for piece, name in {"postcard-4x6": "front", "postcard-6x11": "front", "notecard": "outside"}.items():
        front = PIECES[piece].find_side(name)
        for company in companies:
            with subtests.test(piece, company=company):
                named, area = SenderName(None, company), box_of(front, "art_area")
                drawn = draw_plain_front(front.preview_area, area, greeting(), named, FACE)
                assert front.preview_area.expand(-INCH / 4).contains(ink_of(drawn, front))
                if front.panel:
                    pixels = pixels_of(drawn, front, dpi=72)
                    assert (pixels[:, : int(front.panel.left)] == 255).all()
                    assert (pixels[:, int(front.panel.left) + 1 :, 2] < 255).all()


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
    lines = ["Dana Whitfield", "PO Box 1180", "Austin, TX 78701"]
    assert text.handwritten_return_lines(replace(DANA, address2=" ")) == lines
    words = compile_template("%ADDRESS%, %ADDRESS2%, %CITY% %ZIP%").fill(JANE, SenderName())
    assert words == "12 Main Street, Apartment 4b, O'Fallon 62269", "the message says what was given"


def test_what_has_no_room_beside_its_street_stands_above_the_delivery_line_as_what_is_given_beside_it() -> None:
    """Machines read the line next to the city as the street (Pub. 28, 211)."""
    typed = text.printed_address_lines(BESIDE, FACE)
    assert typed == ["JANE VAN DOE", "ACME", "C/O JOE DOE", "12 MAIN ST APT 4B", "OFALLON IL 62269"]
    short = text.printed_address_lines(BESIDE, FACE, address_format=text.AddressFormat.SHORT)
    assert short[2:] == ["C/O JOE DOE 12 MAIN ST APT 4B", "OFALLON IL 62269"]
    assert text.handwritten_address_lines(BESIDE)[1:4] == ["Acme", "C/o Joe Doe", "12 Main St Apt 4B"]
    abroad = replace(BESIDE, country="FR", standard=("12 Rue Foch", "Étage 4", "PARIS", None, "75001"))
    assert text.printed_address_lines(abroad, FACE)[2:4] == ["12 RUE FOCH", "ÉTAGE 4"], "the second stays the second"
    street = "12345 NORTHWEST MARTIN LUTHER KING JUNIOR MEMORIAL BOULEVARD EXTENSION"
    long = replace(JANE, standard=(f"{street} APT 1234", None, "SACRAMENTO", "CA", "95814"))
    lines = text_of(text.draw_address(long, box_of(COVER, "address"), FACE), COVER)
    assert lines[:2] == ["JANE VAN DOE", "APT 1234"]
    assert " ".join(lines[2:-1]) == street
    assert text_of(text.draw_address(JANE, box_of(BACK, "address"), FACE), BACK)[1] == "12 MAIN ST APT 4B"


def test_every_word_and_city_is_written_as_its_residents_write_it(subtests: pytest.Subtests) -> None:
    streets = [
        ("PO BOX 7", None, "PO Box 7"), ("RR 2 BOX 152", None, "RR 2 Box 152"),
        ("PSC 802 BOX 74", None, "PSC 802 Box 74"), ("1200 NW 42ND AVE # 3", None, "1200 NW 42nd Ave # 3"),
        ("1ST ST", None, "1st St"), ("12-34 BELL BLVD", None, "12-34 Bell Blvd"),
        ("500 MCKINNEY ST STE B", None, "500 McKinney St Ste B"),
        ("9 AVENUE OF THE AMERICAS", None, "9 Avenue of the Americas"),
        ("77 DIAZ-ORDAZ CT", None, "77 Diaz-Ordaz Ct"), ("12 MLK BLVD", "12 MLK Boulevard", "12 MLK Blvd"),
        ("12 DEWITT ST", "12 DeWitt Street", "12 DeWitt St"), ("12 DEWITT ST", "12 DEWITT STREET", "12 Dewitt St"),
        ("12 MAIN ST", "12 main St", "12 Main St"), ("12 Hauptstraße", "12 hauptstraße", "12 Hauptstraße"),
    ]  # fmt: skip
    for line, given, written in streets:
        with subtests.test(line, given=given):
            assert addresses.to_mixed_case((line, None, None, None, None), (given, None, None))[0] == written
    cities = [
        ("MCALLEN", "mcallen", "McAllen"),
        ("ST LOUIS", "St. Louis", "St. Louis"),
        ("WINSTON SALEM", "WINSTON-SALEM", "Winston Salem"),
        ("FORT WORTH", "Ft Worth", "Fort Worth"),
        ("COEUR D ALENE", "Coeur d'Alene", "Coeur d'Alene"),
    ]
    for city, given, written in cities:
        with subtests.test(city):
            assert addresses.to_mixed_case((None, None, city, None, None), (None, None, given))[2] == written


def test_what_a_caller_writes_is_printed_as_the_post_wants_it_with_its_zip_code_in_the_barcode() -> None:
    standard = ("12 MAIN ST", None, "AUSTIN", "TX", "78701-1234")
    person = Person(name="Jane", address="12 Main Street", city="Austin", province="TX", postal_code="78702")
    people = (replace(person, standard=standard), person, replace(person, standard=standard, country="CA"))
    specimens = [designs.build_specimen(each, qr_url=None, opt_out=None) for each in people]
    assert [specimen.routing for specimen in specimens] == ["787011234", "78702", ""]
    assert specimens[2].tracking is None
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
    assert Pages(printed.sheets).glyphs(1, "/F3") == [], "the barcode is of the United States"
    envelopes = compose_item(design("notecard"), [copy(addressee=berlin, tracking=None)]).envelopes
    assert envelopes
    assert "Invalidenstr. 116 10115 Berlin GERMANY" in Pages(envelopes).text(0, design().ink)
    # Name, firm, street, house, city, province, code and country: two lines more than a window takes.
    moscow = Addressee("Ann", "Lee & Co", "Tverskaya 1", "kv. 2", "Khimki", "Moscow Oblast", "141400", "RU")
    assert len(text.printed_address_lines(moscow, FACE)) == 8
    sheet = compose_item(design("letter"), [copy(addressee=moscow, tracking=None)]).sheets
    assert "\nTVERSKAYA 1 KV. 2\nKHIMKI, MOSCOW OBLAST, 141400\nRUSSIA" in page_text(sheet, 0)


PLACES: list[tuple[str | None, str | None, str | None, str | None, list[str]]] = [
    ("DE", "Berlin", "BE", "10115", ["10115 Berlin"]), ("Germany", "Berlin", None, "10115", ["10115 Berlin"]),
    ("ES", "Barcelona", "B", "08001", ["08001 Barcelona"]),
    ("ES", "Sitges", "B", "08870", ["08870 Sitges Barcelona"]),
    ("ES", "Sitges", "Cataluña", "08870", ["08870 Sitges Cataluña"]),
    ("GB", "London", "Middlesex", "NW1 6XE", ["London", "NW1 6XE"]),
    ("TR", "Kadikoy", "Istanbul", "34710", ["34710 Kadikoy/Istanbul"]),
    ("TR", "Kadikoy", None, "34710", ["34710 Kadikoy"]), ("MX", "Toluca", None, "50000", ["50000 Toluca"]),
    ("CH", "Bern", None, "3000", ["CH-3000 Bern"]), ("CH", "Bern", None, "CH-3000", ["CH-3000 Bern"]),
    ("FO", "Torshavn", None, "100", ["FO100 Torshavn"]), ("FO", "Torshavn", None, "FO 100", ["FO 100 Torshavn"]),
    ("SG", "Singapore", None, "049315", ["SINGAPORE 049315"]),
    ("SG", "Jurong", None, "049315", ["Jurong", "SINGAPORE 049315"]), ("AE", "Dubai", "Dubai", None, ["Dubai"]),
    ("HK", "Central", "Hong Kong Island", None, ["Central", "Hong Kong Island"]),
    ("KZ", "Almaty", "Almaty Region", "050000", ["Almaty", "Almaty Region", "050000"]),
    ("GH", "Accra", "Greater Accra", "GA-123", ["Accra Greater Accra GA-123"]),
    ("DE", None, "Bayern", "80331", ["80331 Bayern"]), ("US", "Austin", "TX", "78701", ["Austin TX 78701"]),
    (None, "Austin", "TX", "78701", ["Austin TX 78701"]), ("Atlantis", "Poseidonia", "P", "1", ["Poseidonia P 1"]),
    ("DE", " ", None, None, []),
]  # fmt: skip


def test_the_place_is_written_as_its_country_does(subtests: pytest.Subtests) -> None:
    street = ["1 Street", "Unit 2"]
    for country, city, province, code, lines in PLACES:
        with subtests.test(country, city=city, province=province, code=code):
            assert addresses.format_address_lines(country, street, city, province, code) == [*street, *lines]
    assert addresses.format_address_lines("HU", ["Fo utca 1"], "Budapest", None, "1051") == [
        "Budapest",
        "Fo utca 1",
        "1051",
    ]
    for country in sorted(addresses.COUNTRY_CODES):
        with subtests.test("nothing is lost or repeated", country=country):
            found = addresses.format_address_lines(country, street, "Cityville", "Provinceland", "12345")
            written = "\n".join(found)
            assert [written.count(part) for part in (*street, "Cityville", "12345")] == [1] * 4
            assert written.count("Provinceland") <= 1
            assert "%" not in written
            assert all(line == line.strip(" ,/-") for line in found)


def test_countries_are_known_by_code_and_name_and_pages_show_an_address_in_its_countrys_lines() -> None:
    names = {" de ": "DE", "Deutschland": "DE", "Canada": "CA", None: "US", "Atlantis": "Atlantis"}
    assert {name: addresses.normalize_country_code(name) for name in names} == names
    assert standardize_foreign("JP", "Shibuya-ku", "Tokyo", "150-0001").province == "Tokyo"
    assert standardize_foreign("JP", "渋谷区", "東京都", "150-0001").province == "東京都"
    assert standardize_foreign("CA", "Toronto", "Ontario", "M5V 2T6").province == "ON"
    assert format_town("Austin", "TX", "78701") == "Austin, TX 78701"
    assert format_town("Berlin", None, "10115", "DE") == "10115 Berlin, Germany"
    assert format_town("London", None, "NW1 6XE", "GB") == "London, NW1 6XE, United Kingdom"
    assert format_town(None, None, None) == ""
    damrak = order_labels.address_lines("Damrak 1", None, "Amsterdam", None, "1012 AB", "NL")
    assert damrak == ["Damrak 1", "1012 AB Amsterdam", "Netherlands"]
    elm = order_labels.address_lines("1 Elm St", "Apt 2", "Austin", "TX", "78701")
    assert elm == ["1 Elm St", "Apt 2", "Austin, TX 78701"]
