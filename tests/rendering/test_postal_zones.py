"""The rules of the mail, read from the pixels of every product at the resolution of a press."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from pypdfium2 import PdfDocument

from quillpost.rendering.images.pdfs import make_printable_pages
from quillpost.rendering.layout.models import Side
from quillpost.rendering.models import INCH, Box, Design, GiftcardClaim
from support.barcode_reader import read_bars
from support.designs import JENNY, PIECES, QR_URL, ROUTING, TRACKING, compose_item, copy, design, make_renderer, picture
from support.pdf_files import make_pdf

DPI = 300
INKED = 200  # what is darker than that is ink
CLAIM = GiftcardClaim("7ABC-DEFG-HJKMN-PQRS-TVWX-YZ012", "https://q.example.com/gift/7ABCDEFGHJKMNPQRSTVWXYZ012")
FULL = copy(qr_url=QR_URL, claim=CLAIM, opt_out="No more mail? quillpost.example/stop ABC123")
EVERY_PIECE = pytest.mark.parametrize("piece", PIECES)
Pixels = NDArray[np.uint8]


@cache
def fullest(piece: str, *, qr: bool) -> Design:
    """On black art, with the longest message of these words that fits."""
    low, high = 1, 4_000
    while high - low > 1:
        middle = (low + high) // 2
        fits = not make_renderer().find_misfits(words(piece, middle), [JENNY], qr=qr).messages
        low, high = (middle, high) if fits else (low, middle)
    return words(piece, low)


def words(piece: str, count: int) -> Design:
    return design(piece, "jolly gypsy " * count, front=picture(), background=picture())


def pages_of(pdf: bytes) -> Iterator[Pixels]:
    with PdfDocument(pdf) as document:
        for page in document:
            yield page.render(scale=DPI / INCH, grayscale=True).to_numpy().copy()


def part(pixels: Pixels, side: Side, box: Box) -> Pixels:
    """What is printed in the box, which is in points from the trim's lower left corner."""
    scale, bleed = DPI / INCH, side.bleed
    left, right = (round((edge + bleed) * scale) for edge in (box.left, box.right))
    top, bottom = (len(pixels) - round((edge + bleed) * scale) for edge in (box.top, box.bottom))
    return pixels[max(top, 0) : bottom, max(left, 0) : right]


def faces_of(piece: str, *, qr: bool, tracked: bool = True) -> Iterator[tuple[Side, Pixels]]:
    """What the post sees of a piece that is as full as it can be."""
    own = replace(FULL, qr_url=QR_URL if qr else None)
    if not tracked:
        own = replace(own, tracking=None, routing="")
    files = compose_item(fullest(piece, qr=qr), [own])
    drawn = zip(PIECES[piece].sides, pages_of(files.sheets), strict=True)
    yield from ((side, pixels) for side, pixels in drawn if side.barcode_zone)
    if files.envelopes:
        (pixels,) = pages_of(files.envelopes)
        envelope = PIECES[piece].envelope
        assert envelope
        yield envelope, pixels


@EVERY_PIECE
@pytest.mark.parametrize("qr", [False, True], ids=["text", "qr"])
def test_nothing_but_the_barcode_is_in_the_barcode_zone(piece: str, qr: bool) -> None:
    faces = list(faces_of(piece, qr=qr))
    assert len(faces) == 1
    for side, pixels in faces:
        # To the very edge of the sheet: a cut that is off brings no art into the zone.
        width, height = 4.75 * INCH + side.bleed, 0.625 * INCH + side.bleed
        zone = part(pixels, side, Box(side.trim.right - 4.75 * INCH, -side.bleed, width, height)).copy()
        assert zone.shape == pytest.approx((height * DPI / INCH, width * DPI / INCH), abs=1)
        if side.barcode:
            left = round((side.barcode.left - side.trim.right + 4.75 * INCH) * DPI / INCH)
            top = round((0.625 * INCH - side.barcode.top) * DPI / INCH)
            bars = zone[top - 1 : top + 45, left - 1 : left + 881]
            assert (bars < INKED).any()
            bars[:] = 255
        assert int(zone.min()) == 255


@EVERY_PIECE
def test_without_a_barcode_the_barcode_zone_is_white(piece: str) -> None:
    for side, pixels in faces_of(piece, qr=False, tracked=False):
        zone = Box(side.trim.right - 4.75 * INCH, 0, 4.75 * INCH, 0.625 * INCH)
        assert int(part(pixels, side, zone).min()) == 255


@pytest.mark.parametrize("piece", [name for name in PIECES if name != "letter"])
def test_the_first_bar_is_where_the_post_looks_for_it(piece: str) -> None:
    ((side, pixels),) = faces_of(piece, qr=True)
    zone = Box(side.trim.right - 4.75 * INCH, 0, 4.75 * INCH, 0.625 * INCH)
    ink = part(pixels, side, zone) < INKED
    columns, rows = np.flatnonzero(ink.any(axis=0)), np.flatnonzero(ink.any(axis=1))
    assert 3.5 <= 4.75 - columns[0] / DPI <= 4.25
    assert 0.625 - (rows[-1] + 1) / DPI >= 0.1875
    assert rows[0] / DPI >= 0.028
    reading = read_bars(part(pixels, side, zone), dpi=DPI)
    assert (reading.tracking, reading.routing) == (TRACKING, ROUTING)


LETTER = PIECES["letter"]
ENVELOPE = LETTER.find_side("envelope")
# A sheet of 11 in folded in thirds, in the envelope's 9.5 by 4.125 in.
PLAY = (1.0 * INCH, (4.125 - 11 / 3) * INCH)


def letters() -> Iterator[tuple[Side, Pixels]]:
    look = fullest("letter", qr=True)
    (cover,) = pages_of(compose_item(look, [FULL]).sheets)
    yield LETTER.find_side("cover"), cover
    pages = make_printable_pages(make_pdf(b"1 0 0 rg 0 0 612 792 re f ")).data
    address, _ = pages_of(compose_item(replace(look, pages=pages, pdf_only=True), [FULL]).sheets)
    yield LETTER.find_side("address"), address


def over_the_sheet(window: Box, across: float, up: float) -> Box:
    """The window, on a sheet whose upper third lies so far right and up in the envelope."""
    return replace(window, left=window.left - across, bottom=window.bottom - up + 11 * INCH * 2 / 3)


@pytest.mark.parametrize("name", ["cover", "address"])
def test_the_boxes_behind_a_window_show_through_all_the_play(name: str) -> None:
    side = LETTER.find_side(name)
    below, above = ENVELOPE.windows
    for across, up in product((0, PLAY[0]), (0, PLAY[1])):
        for box, window in ((side.address, below), (side.barcode, below), (side.return_address, above)):
            shown = over_the_sheet(window, across, up)
            assert box
            assert shown.left <= box.left - INCH / 8
            assert box.right <= shown.right - INCH / 8
            clear = INCH / 8 if window is below else 0.028 * INCH
            assert shown.bottom <= box.bottom - clear + 0.01
            assert box.top <= shown.top - clear + 0.01
            assert side.message is None or not shown.overlaps(side.message)


def test_a_tapped_letter_shows_its_address_and_barcode_and_nothing_else() -> None:
    for side, pixels in letters():
        address, barcode, sender = side.address, side.barcode, side.return_address
        assert address
        assert barcode
        assert sender
        whole = [
            int((part(pixels, side, box) < INKED).sum())
            for box in (Box(0, barcode.bottom - 3, 4.25 * INCH, address.top - barcode.bottom + 6), sender)
        ]
        assert min(whole) > 1000
        for across, up in product((0, PLAY[0] / 2, PLAY[0]), (0, PLAY[1] / 2, PLAY[1])):
            for window, expected in zip(ENVELOPE.windows, whole, strict=True):
                place = over_the_sheet(window, across, up)
                seen = part(pixels, side, place)
                inner = part(pixels, side, place.expand(-INCH / 8, -0.028 * INCH))
                assert int((seen < INKED).sum()) == int((inner < INKED).sum()) == expected
            shown = over_the_sheet(ENVELOPE.windows[0], across, up)
            bars = replace(shown, bottom=barcode.bottom - 3, height=barcode.height + 5)
            reading = read_bars(part(pixels, side, bars), dpi=DPI)
            assert (reading.tracking, reading.routing) == (TRACKING, ROUTING)
