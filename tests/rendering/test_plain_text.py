"""What is drawn beside the message: read back as text, as places and as pixels."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pypdfium2 as pdfium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quillpost.rendering.codes import barcode
from quillpost.rendering.handwriting.text import CachedFace
from quillpost.rendering.layout import text as plain_text
from quillpost.rendering.layout.fronts import draw_plain_front
from quillpost.rendering.layout.models import DoesNotFit, Side
from quillpost.rendering.layout.sides import draw_barcode, draw_divider, draw_opt_out
from quillpost.rendering.layout.templates import load_shipped_products
from quillpost.rendering.models import INCH, Addressee, Box, ReturnAddress, SenderName
from quillpost.rendering.text.addresses import COUNTRY_CODES, POSTAL_COUNTRY_NAMES
from support.printed_side import greeting, plain_face, render_side, sheet_pdf

FACE = CachedFace(plain_face())
PIECES = load_shipped_products()
BACK = PIECES["postcard-4x6"].find_side("back")
COVER = PIECES["letter"].find_side("cover")
SHEET = Side(name="sheet", trim=Box(0, 0, 432, 288))
JENNY = Addressee(
    name="JENNY SKINNER",
    company="Skinner & Söhne",
    address="8380 Harmon Underpass",
    city="Port Stevenbury",
    province="SD",
    postal_code="98227-5874",
)
DANA = ReturnAddress("Dana Whitfield", "PO Box 1180", None, "Austin", "TX", "78701")
BARS = barcode.encode_barcode("00270123456000000017", "98227587412").encode()


def box_of(side: Side, name: str) -> Box:
    box = getattr(side, name)
    assert isinstance(box, Box)
    return box


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


def test_an_address_is_in_capitals_on_its_lines() -> None:
    address = replace(JENNY, address2="Apt 4B")
    drawn = plain_text.draw_address(address, box_of(BACK, "address"), FACE)
    assert text_of(drawn, BACK) == [
        "JENNY SKINNER",
        "SKINNER & SÖHNE",
        "8380 HARMON UNDERPASS",
        "APT 4B",
        "PORT STEVENBURY SD 98227-5874",
    ]
    assert size_of(drawn) == 10.5


def test_an_address_stays_in_its_box() -> None:
    box = box_of(BACK, "address")
    assert box.contains(ink_of(plain_text.draw_address(JENNY, box, FACE), BACK))


@pytest.mark.parametrize("country", [None, "", "US", "usa", " United  States ", "United States of America"])
def test_mail_within_the_country_does_not_name_it(country: str | None) -> None:
    assert (
        plain_text.printed_address_lines(replace(JENNY, country=country), FACE)[-1] == "PORT STEVENBURY SD 98227-5874"
    )


def test_mail_abroad_names_the_country_last() -> None:
    assert plain_text.printed_address_lines(replace(JENNY, country="Österreich"), FACE)[-1] == "ÖSTERREICH"


@pytest.mark.parametrize(
    ("code", "name"), [("DE", "GERMANY"), ("ca", "CANADA"), (" gb ", "UNITED KINGDOM"), ("KR", "SOUTH KOREA")]
)
def test_a_country_is_named_and_not_abbreviated(code: str, name: str) -> None:
    """A carrier reads DE as Delaware."""
    assert plain_text.printed_address_lines(replace(JENNY, country=code), FACE)[-1] == name


def test_every_country_that_an_address_may_be_in_has_a_name() -> None:
    assert set(POSTAL_COUNTRY_NAMES) == set(COUNTRY_CODES)
    assert all(len(name) > 3 and name == name.upper() for name in POSTAL_COUNTRY_NAMES.values())


@pytest.mark.parametrize(
    ("name", "first"), [("Jenny Skinner", "JENNY SKINNER OR CURRENT RESIDENT"), (None, "CURRENT RESIDENT")]
)
def test_mail_can_go_to_whoever_lives_there(name: str | None, first: str) -> None:
    address = replace(JENNY, name=name, or_current_resident=True)
    assert plain_text.printed_address_lines(address, FACE)[0] == first


def test_a_return_address_written_by_hand_has_the_same_lines() -> None:
    lines = ["Dana Whitfield", "PO Box 1180", "Austin, TX 78701"]
    assert plain_text.handwritten_return_lines(replace(DANA, address2=" ")) == lines


def test_an_address_written_by_hand_is_not_in_capitals() -> None:
    assert plain_text.handwritten_address_lines(replace(JENNY, name="Jenny Skinner"))[:3] == [
        "Jenny Skinner",
        "Skinner & Söhne",
        "8380 Harmon Underpass",
    ]


@pytest.mark.parametrize("blank", [None, "", "  ", "\t\n"])
def test_blank_parts_of_an_address_leave_no_line(blank: str | None) -> None:
    address = replace(JENNY, company=blank, address2=blank)
    assert len(plain_text.printed_address_lines(address, FACE)) == 3
    assert plain_text.draw_address(Addressee(name=blank), box_of(BACK, "address"), FACE) == b""


def test_white_space_and_control_characters_do_not_print() -> None:
    address = Addressee(name="  Ann\u00a0\t Lee ", address="12\x00 Oak\r\nSt", city="Jose\u0301")
    assert plain_text.printed_address_lines(address, FACE) == ["ANN LEE", "12 OAK ST", "JOSÉ"]


def test_a_long_line_is_set_smaller_before_it_is_broken() -> None:
    box = box_of(BACK, "address")
    long = replace(JENNY, address="8380 Harmon Underpass Boulevard North")
    drawn = plain_text.draw_address(long, box, FACE)
    assert 8 <= size_of(drawn) < 10.5
    assert "8380 HARMON UNDERPASS BOULEVARD NORTH" in text_of(drawn, BACK)


def test_a_line_that_is_too_long_at_every_size_is_broken_between_words() -> None:
    box = box_of(BACK, "address")
    street = "8380 Harmon Underpass Boulevard North East Of The River"
    drawn = plain_text.draw_address(replace(JENNY, address=street), box, FACE)
    lines = text_of(drawn, BACK)
    assert len(lines) == 5
    assert " ".join(lines[2:4]) == street.upper()
    assert box.contains(ink_of(drawn, BACK))


def test_a_word_of_three_hundred_letters_is_broken_or_refused() -> None:
    box = Box(50, 50, 200, 150)
    drawn = plain_text.draw_address(Addressee(name="M" * 150), box, FACE)
    assert "".join(text_of(drawn)) == "M" * 150
    assert box.contains(ink_of(drawn))
    with pytest.raises(DoesNotFit) as refused:
        plain_text.draw_address(Addressee(name="M" * 300), box_of(COVER, "address"), FACE)
    assert refused.value.message == "The address is too long for the piece; shorten its lines."
    assert refused.value.overflow_lines > 1


def test_six_lines_fit_the_window_of_a_letter_at_eight_points() -> None:
    box = box_of(COVER, "address")
    drawn = plain_text.draw_address(replace(JENNY, address2="Apt 4B", country="Canada"), box, FACE)
    assert len(text_of(drawn, COVER)) == 6
    assert size_of(drawn) == 8
    assert box.expand(0, 1).contains(ink_of(drawn, COVER))


def test_where_room_is_short_the_unit_joins_its_street() -> None:
    six_lines = replace(JENNY, address2="Apt 4B", country="Canada")
    low = replace(box_of(COVER, "address"), height=0.6 * INCH)
    lines = text_of(plain_text.draw_address(six_lines, low, FACE), COVER)
    assert lines[2] == "8380 HARMON UNDERPASS APT 4B"
    assert len(lines) == 5
    roomy = text_of(plain_text.draw_address(six_lines, box_of(BACK, "address"), FACE), BACK)
    assert len(roomy) == 6


LINE = st.text(st.characters(codec="latin-1"), max_size=60)


@settings(max_examples=60, deadline=None)
@given(name=LINE, company=LINE, address=LINE, address2=LINE, city=LINE)
def test_any_address_fits_at_eight_points_or_more_or_is_refused(
    name: str, company: str, address: str, address2: str, city: str
) -> None:
    box = box_of(BACK, "address")
    addressee = Addressee(name=name, company=company, address=address, address2=address2, city=city)
    try:
        drawn = plain_text.draw_address(addressee, box, FACE)
    except DoesNotFit:
        return
    if drawn:
        assert size_of(drawn) >= 8
    # A soft hyphen or a control character alone is set and leaves no ink.
    if any(letter.isprintable() and letter.strip() for letter in name + company + address + address2 + city):
        # Accents rise a little over the capitals of the first line.
        assert box.expand(0.5, 1.5).contains(ink_of(drawn, BACK))


def test_a_return_address_is_at_the_top_of_its_box() -> None:
    box = box_of(BACK, "return_address")
    block = plain_text.fit_return_address(DANA, box, FACE)
    assert block
    drawn = plain_text.draw_block(block, box, FACE)
    assert text_of(drawn, BACK) == ["Dana Whitfield", "PO Box 1180", "Austin, TX 78701"]
    ink = ink_of(drawn, BACK)
    assert box.contains(ink)
    assert box.top - ink.top < 3


def test_a_return_address_can_be_missing_or_too_long() -> None:
    box = box_of(BACK, "return_address")
    assert plain_text.fit_return_address(ReturnAddress(), box, FACE) is None
    with pytest.raises(DoesNotFit, match="return address"):
        plain_text.fit_return_address(replace(DANA, name="Whitfield " * 40), box, FACE)


def test_a_return_address_is_measured_as_large_as_its_ink() -> None:
    box = box_of(BACK, "return_address")
    block = plain_text.fit_return_address(DANA, box, FACE)
    assert block
    ink = ink_of(plain_text.draw_block(block, box, FACE), BACK)
    assert Box(box.left, box.top - block.height, block.measure_width(FACE), block.height).contains(ink)
    assert block.measure_width(FACE) - ink.width < 3
    assert block.height - ink.height < 4


def test_an_indicia_stands_in_the_middle_of_its_frame() -> None:
    box = box_of(BACK, "indicia")
    drawn = plain_text.draw_indicia(("FIRST-CLASS MAIL", "U.S. POSTAGE PAID", "QUILLPOST"), box, FACE)
    assert text_of(drawn, BACK) == ["FIRST-CLASS MAIL", "U.S. POSTAGE PAID", "QUILLPOST"]
    ink = ink_of(drawn, BACK)
    assert box.expand(-3).contains(ink)
    assert ink.left - box.left == pytest.approx(box.right - ink.right, abs=1)
    assert ink.bottom - box.bottom == pytest.approx(box.top - ink.top, abs=2)


def test_an_indicia_may_be_empty_and_must_fit() -> None:
    box = box_of(BACK, "indicia")
    assert plain_text.draw_indicia(("", " "), box, FACE) == b""
    with pytest.raises(DoesNotFit, match="indicia"):
        plain_text.draw_indicia(["POSTAGE PAID"] * 20, box, FACE)


def test_a_divider_is_one_thin_grey_line() -> None:
    pixels = pixels_of(draw_divider(Box(216, 36, 0, 216)))[:, :, 0]
    columns = np.flatnonzero((pixels < 250).any(axis=0)) / 4
    assert columns.min() == pytest.approx(216, abs=0.5)
    assert columns.max() == pytest.approx(216, abs=0.5)
    assert pixels.min() > 180


@pytest.mark.parametrize(("width", "height"), [(2.9291, 0.145), (2.7, 0.125), (3.2, 0.165)])
def test_bars_fill_the_box_that_they_are_given(width: float, height: float) -> None:
    box = Box(72, 72, width * INCH, height * INCH)
    drawn = draw_barcode(BARS, box)
    assert text_of(drawn) == [BARS.decode()]
    dark = pixels_of(drawn)[:, :, 0] < 128
    across, down = np.flatnonzero(dark.any(axis=0)), np.flatnonzero(dark.any(axis=1))
    assert across[0] / 4 == pytest.approx(box.left, abs=0.3)
    assert (across[-1] + 1) / 4 == pytest.approx(box.right, abs=0.3)
    assert 288 - (down[-1] + 1) / 4 == pytest.approx(box.bottom, abs=0.3)
    assert 288 - down[0] / 4 == pytest.approx(box.top, abs=0.3)
    starts = [column for before, column in pairwise([-9, *across]) if column > before + 1]
    assert len(starts) == 65


def test_the_opt_out_line_is_small_and_can_be_read_over_any_art() -> None:
    box = box_of(BACK, "opt_out")
    drawn = draw_opt_out("No more mail? Enter K7QX-24 at mail.example.com/stop", box, FACE)
    assert text_of(drawn, BACK) == ["No more mail? Enter K7QX-24 at mail.example.com/stop"]
    assert size_of(drawn) <= 6
    ink = ink_of(drawn, BACK)
    assert box.contains(ink)
    art = b"q 1 0 0 rg 0 0 432 288 re f Q\n"
    pixels = pixels_of(art + drawn, BACK, dpi=144)
    rows = slice(int(len(pixels) - 2 * ink.top), int(len(pixels) - 2 * ink.bottom))
    around = pixels[rows, int(2 * ink.left) : int(2 * ink.right)]
    assert (around == 255).all(axis=2).mean() > 0.4
    assert not (around == (255, 0, 0)).all(axis=2).any()
    assert draw_opt_out(" ", box, FACE) == b""
    long = f"Should you prefer no more mail of this kind at all, visit {'mail.' * 9}example.com/stop/7KX2MNPQ"
    assert text_of(draw_opt_out(long, box, FACE), BACK) == [long.split()[-1]]
    with pytest.raises(DoesNotFit, match="opt-out line"):
        draw_opt_out("No more mail? " + "mail." * 40, box, FACE)


@pytest.mark.parametrize(
    ("piece", "side"), [("postcard-4x6", "front"), ("postcard-6x11", "front"), ("notecard", "outside")]
)
@pytest.mark.parametrize("company", ["Maple & Main Realty", "A company whose name is long " * 6, None])
def test_a_plain_front_keeps_to_its_panel(piece: str, side: str, company: str | None) -> None:
    front = PIECES[piece].find_side(side)
    drawn = draw_plain_front(front.preview_area, box_of(front, "art_area"), greeting(), SenderName(None, company), FACE)
    assert front.preview_area.expand(-INCH / 4).contains(ink_of(drawn, front))
    if front.panel:
        pixels = pixels_of(drawn, front, dpi=72)
        assert (pixels[:, : int(front.panel.left)] == 255).all()
        assert (pixels[:, int(front.panel.left) + 1 :, 2] < 255).all()


def test_the_same_values_draw_the_same_bytes() -> None:
    box = box_of(BACK, "address")
    assert plain_text.draw_address(JENNY, box, FACE) == plain_text.draw_address(replace(JENNY), box, FACE)
