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
from quillpost.rendering.models import INCH, Addressee, Box, ReturnAddress, SenderName
from quillpost.rendering.text.addresses import COUNTRY_CODES, POSTAL_COUNTRY_NAMES
from support.designs import JENNY, PIECES
from support.printed_side import greeting, plain_face, render_side, sheet_pdf

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
    return plain_text.printed_address_lines(replace(JENNY, **changes), FACE)  # type: ignore[arg-type]


def test_an_address_is_in_capitals_on_its_lines_inside_its_box() -> None:
    drawn = plain_text.draw_address(replace(JENNY, address2="Apt 4B"), ADDRESS_BOX, FACE)
    assert text_of(drawn, BACK) == [
        "JENNY SKINNER", "SKINNER & SÖHNE", "8380 HARMON UNDERPASS", "APT 4B", "PORT STEVENBURY SD 98227-5874",
    ]  # fmt: skip
    assert size_of(drawn) == 10.5
    again = plain_text.draw_address(replace(JENNY), ADDRESS_BOX, FACE)
    assert plain_text.draw_address(JENNY, ADDRESS_BOX, FACE) == again
    assert ADDRESS_BOX.contains(ink_of(again, BACK))


def test_only_mail_abroad_names_its_country_and_names_it_whole() -> None:
    """A carrier reads DE as Delaware."""
    for country in (None, "", "US", "usa", " United  States ", "United States of America"):
        assert printed_lines(country=country)[-1] == "PORT STEVENBURY SD 98227-5874", country
    abroad = {"Österreich": "ÖSTERREICH", "DE": "GERMANY", "ca": "CANADA", " gb ": "UNITED KINGDOM"}
    for country, name in (abroad | {"KR": "SOUTH KOREA"}).items():
        assert printed_lines(country=country)[-1] == name
    assert set(POSTAL_COUNTRY_NAMES) == set(COUNTRY_CODES)
    assert all(len(name) > 3 and name == name.upper() for name in POSTAL_COUNTRY_NAMES.values())


def test_an_address_written_by_hand_has_the_same_lines_and_no_capitals() -> None:
    lines = ["Dana Whitfield", "PO Box 1180", "Austin, TX 78701"]
    assert plain_text.handwritten_return_lines(replace(DANA, address2=" ")) == lines
    lines = ["Jenny Skinner", "Skinner & Söhne", "8380 Harmon Underpass"]
    assert plain_text.handwritten_address_lines(replace(JENNY, name="Jenny Skinner"))[:3] == lines


def test_blanks_and_control_characters_do_not_print() -> None:
    for blank in (None, "", "  ", "\t\n"):
        assert len(printed_lines(company=blank, address2=blank)) == 3
        assert plain_text.draw_address(Addressee(name=blank), ADDRESS_BOX, FACE) == b""
    odd = Addressee(name="  Ann\u00a0\t Lee ", address="12\x00 Oak\r\nSt", city="Jose\u0301")
    assert plain_text.printed_address_lines(odd, FACE) == ["ANN LEE", "12 OAK ST", "JOSÉ"]


def test_a_long_line_is_set_smaller_before_it_is_broken_between_words() -> None:
    drawn = plain_text.draw_address(replace(JENNY, address="8380 Harmon Underpass Boulevard North"), ADDRESS_BOX, FACE)
    assert 8 <= size_of(drawn) < 10.5
    assert "8380 HARMON UNDERPASS BOULEVARD NORTH" in text_of(drawn, BACK)
    street = "8380 Harmon Underpass Boulevard North East Of The River"
    drawn = plain_text.draw_address(replace(JENNY, address=street), ADDRESS_BOX, FACE)
    lines = text_of(drawn, BACK)
    assert len(lines) == 5
    assert " ".join(lines[2:4]) == street.upper()
    assert ADDRESS_BOX.contains(ink_of(drawn, BACK))


def test_a_word_of_three_hundred_letters_is_broken_or_refused() -> None:
    box = Box(50, 50, 200, 150)
    drawn = plain_text.draw_address(Addressee(name="M" * 150), box, FACE)
    assert "".join(text_of(drawn)) == "M" * 150
    assert box.contains(ink_of(drawn))
    with pytest.raises(DoesNotFit) as refused:
        plain_text.draw_address(Addressee(name="M" * 300), box_of(COVER, "address"), FACE)
    assert refused.value.message == "The address is too long for the piece; shorten its lines."
    assert refused.value.overflow_lines > 1


def test_six_lines_fit_the_window_of_a_letter_and_where_room_is_short_the_unit_joins_its_street() -> None:
    box, six_lines = box_of(COVER, "address"), replace(JENNY, address2="Apt 4B", country="Canada")
    drawn = plain_text.draw_address(six_lines, box, FACE)
    assert (len(text_of(drawn, COVER)), size_of(drawn)) == (6, 8)
    assert box.expand(0, 1).contains(ink_of(drawn, COVER))
    lines = text_of(plain_text.draw_address(six_lines, replace(box, height=0.6 * INCH), FACE), COVER)
    assert (len(lines), lines[2]) == (5, "8380 HARMON UNDERPASS APT 4B")
    assert len(text_of(plain_text.draw_address(six_lines, ADDRESS_BOX, FACE), BACK)) == 6


LINE = st.text(st.characters(codec="latin-1"), max_size=60)


@settings(max_examples=60)
@given(st.tuples(LINE, LINE, LINE, LINE, LINE))
def test_any_address_fits_at_eight_points_or_more_or_is_refused(lines: tuple[str, str, str, str, str]) -> None:
    try:
        drawn = plain_text.draw_address(Addressee(*lines), ADDRESS_BOX, FACE)
    except DoesNotFit:
        return
    if drawn:
        assert size_of(drawn) >= 8
    # A soft hyphen or a control character alone is set and leaves no ink.
    if any(letter.isprintable() and letter.strip() for letter in "".join(lines)):
        # Accents rise a little over the capitals of the first line.
        assert ADDRESS_BOX.expand(0.5, 1.5).contains(ink_of(drawn, BACK))


def test_a_return_address_is_at_the_top_of_its_box_and_measured_as_large_as_its_ink() -> None:
    block = plain_text.fit_return_address(DANA, RETURN_BOX, FACE)
    assert block
    drawn = plain_text.draw_block(block, RETURN_BOX, FACE)
    assert text_of(drawn, BACK) == ["Dana Whitfield", "PO Box 1180", "Austin, TX 78701"]
    ink, width = ink_of(drawn, BACK), block.measure_width(FACE)
    assert RETURN_BOX.contains(ink)
    assert RETURN_BOX.top - ink.top < 3
    assert Box(RETURN_BOX.left, RETURN_BOX.top - block.height, width, block.height).contains(ink)
    assert width - ink.width < 3
    assert block.height - ink.height < 4
    assert plain_text.fit_return_address(ReturnAddress(), RETURN_BOX, FACE) is None
    with pytest.raises(DoesNotFit, match="return address"):
        plain_text.fit_return_address(replace(DANA, name="Whitfield " * 40), RETURN_BOX, FACE)


def test_an_indicia_stands_in_the_middle_of_its_frame() -> None:
    box, lines = box_of(BACK, "indicia"), ("FIRST-CLASS MAIL", "U.S. POSTAGE PAID", "QUILLPOST")
    drawn = plain_text.draw_indicia(lines, box, FACE)
    assert text_of(drawn, BACK) == list(lines)
    ink = ink_of(drawn, BACK)
    assert box.expand(-3).contains(ink)
    assert ink.left - box.left == pytest.approx(box.right - ink.right, abs=1)
    assert ink.bottom - box.bottom == pytest.approx(box.top - ink.top, abs=2)
    assert plain_text.draw_indicia(("", " "), box, FACE) == b""
    with pytest.raises(DoesNotFit, match="indicia"):
        plain_text.draw_indicia(["POSTAGE PAID"] * 20, box, FACE)


def test_a_divider_is_one_thin_gray_line() -> None:
    pixels = pixels_of(draw_divider(Box(216, 36, 0, 216)))[:, :, 0]
    columns = np.flatnonzero((pixels < 250).any(axis=0)) / 4
    assert (columns.min(), columns.max()) == pytest.approx((216, 216), abs=0.5)
    assert pixels.min() > 180


def test_bars_fill_the_box_that_they_are_given() -> None:
    for width, height in ((2.9291, 0.145), (2.7, 0.125), (3.2, 0.165)):
        box = Box(72, 72, width * INCH, height * INCH)
        drawn = draw_barcode(BARS, box)
        assert text_of(drawn) == [BARS.decode()]
        dark = pixels_of(drawn)[:, :, 0] < 128
        across, down = np.flatnonzero(dark.any(axis=0)), np.flatnonzero(dark.any(axis=1))
        assert [across[0] / 4, (across[-1] + 1) / 4] == pytest.approx([box.left, box.right], abs=0.3)
        assert [288 - (down[-1] + 1) / 4, 288 - down[0] / 4] == pytest.approx([box.bottom, box.top], abs=0.3)
        assert sum(column > before + 1 for before, column in pairwise([-9, *across])) == 65


def test_the_opt_out_line_is_small_and_can_be_read_over_any_art() -> None:
    box, line = box_of(BACK, "opt_out"), "No more mail? Enter K7QX-24 at mail.example.com/stop"
    drawn = draw_opt_out(line, box, FACE)
    assert text_of(drawn, BACK) == [line]
    assert size_of(drawn) <= 6
    ink = ink_of(drawn, BACK)
    assert box.contains(ink)
    pixels = pixels_of(b"q 1 0 0 rg 0 0 432 288 re f Q\n" + drawn, BACK, dpi=144)
    rows = slice(int(len(pixels) - 2 * ink.top), int(len(pixels) - 2 * ink.bottom))
    around = pixels[rows, int(2 * ink.left) : int(2 * ink.right)]
    assert (around == 255).all(axis=2).mean() > 0.4
    assert not (around == (255, 0, 0)).all(axis=2).any()
    assert draw_opt_out(" ", box, FACE) == b""
    long = f"Should you prefer no more mail of this kind at all, visit {'mail.' * 9}example.com/stop/7KX2MNPQ"
    assert text_of(draw_opt_out(long, box, FACE), BACK) == [long.split()[-1]]
    with pytest.raises(DoesNotFit, match="opt-out line"):
        draw_opt_out("No more mail? " + "mail." * 40, box, FACE)


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
