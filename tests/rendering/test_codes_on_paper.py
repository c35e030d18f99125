"""What machines read, from the pixels of every product: codes, and the zones that the rules of the mail keep clear."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from random import Random
from string import ascii_letters, digits

import numpy as np
import pytest
import zxingcpp
from numpy.typing import NDArray
from pypdfium2 import PdfDocument

from quillpost.orders.giftcards.rules import encode_claim, format_claim
from quillpost.rendering.codes.barcode import encode_barcode
from quillpost.rendering.images.pdfs import make_printable_pages
from quillpost.rendering.layout.models import Side
from quillpost.rendering.models import INCH, Addressee, Box, Copy, Design, GiftcardClaim
from support.barcode_reader import Unreadable, decode, read_bars
from support.designs import (
    FULL,
    JENNY,
    LETTERING,
    PIECES,
    ROUTING,
    TRACKING,
    compose_item,
    design,
    make_renderer,
    picture,
)
from support.pdf_files import make_pdf

INKED = 200  # what is darker than that is ink
POSTCARDS = ("postcard-4x6", "postcard-6x9", "postcard-6x11")
FIRST_NAMES = ("José", "Zoë", "O'Neil", "Anne-Marie", "Søren", "Łucja", "Bob", "Jenny", "Renée", "Ægir", "Nuño")
LAST_NAMES = ("O'Brien", "García", "Skinner", "Müller", "Åkesson", "Smith", "D'Angelo", "McDonald", "Žižek")
EVERY_PIECE = pytest.mark.parametrize("piece", PIECES)
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Page:
    """A page as it is drawn in gray, with its side's geometry and its text."""

    side: Side
    pixels: Pixels
    text: str
    dpi: int

    def part(self, box: Box) -> Pixels:
        """What is printed in the box, which is in points from the trim's lower left corner."""
        scale, bleed = self.dpi / INCH, self.side.bleed
        left, right = (max(0, round((edge + bleed) * scale)) for edge in (box.left, box.right))
        top, bottom = (max(0, len(self.pixels) - round((edge + bleed) * scale)) for edge in (box.top, box.bottom))
        return self.pixels[top:bottom, left:right]

    def bars(self) -> tuple[str, str]:
        assert self.side.barcode
        # Less than the clear space that the standard asks for above and below the bars.
        return read_bars(self.part(self.side.barcode.expand(INCH / 10, 0.02 * INCH)), dpi=self.dpi)

    def qr_texts(self, box: Box | None) -> list[str]:
        assert box
        return [str(found.text) for found in zxingcpp.read_barcodes(self.part(box.expand(INCH / 10)))]


def pages(pdf: bytes | None, *sides: Side | None, dpi: int = 300) -> Iterator[Page]:
    """The pages of a file whose sides are given; the sides come again for every copy."""
    if pdf is None:
        return
    with PdfDocument(pdf) as document:
        for place, page in enumerate(document):
            if (side := sides[place % len(sides)]) is None:
                continue
            pixels = page.render(scale=dpi / INCH, grayscale=True).to_numpy().copy()
            yield Page(side, pixels, page.get_textpage().get_text_bounded(), dpi)


def greeting(piece: str, **changes: object) -> Design:
    return design(piece, "Hi %FIRST_NAME|there%, do come by!", hand=LETTERING, **changes)


def random_digits(random: Random, length: int) -> str:
    return "".join(random.choices(digits, k=length))


def random_copy(random: Random, number: int, design: int, *, giftcard: bool = False) -> Copy:
    name = f"{random.choice(FIRST_NAMES)} {random.choice(LAST_NAMES)}"
    street, code = f"{random.randrange(1, 9999)} Harmon Underpass", encode_claim(random.randbytes(16))
    return Copy(
        item_id=number,
        design=design,
        addressee=Addressee(name, None, street, None, "Port Stevenbury", "SD", random_digits(random, 5)),
        tracking=random.choice(digits) + random.choice("01234") + random_digits(random, 18),
        routing=random_digits(random, random.choice((0, 5, 9, 11))),
        qr_url="https://mail.example.com/q/" + "".join(random.choices(ascii_letters + digits, k=8)),
        claim=GiftcardClaim(format_claim(code), f"https://mail.example.com/gift/{code}") if giftcard else None,
    )


def test_every_code_and_name_is_read_from_240_random_postcards() -> None:
    """Of all sizes; every fourth lies on black art."""
    random = Random(20)
    designs = {number: greeting(piece) for number, piece in enumerate(POSTCARDS)}
    designs[3] = greeting("postcard-4x6", background=picture())
    copies = [random_copy(random, number, number % 4) for number in range(240)]
    found: list[tuple[Copy, Page]] = []
    for key, look in designs.items():  # one size at a time: a file's pages are read as copies of the same sides
        own = [copy for copy in copies if copy.design == key]
        sides = [side if side.barcode else None for side in PIECES[look.product].sides]
        found += zip(own, pages(compose_item(designs, own).sheets, *sides, dpi=150), strict=True)
    assert len(found) == 240
    assert [copy.qr_url for copy, page in found if page.qr_texts(page.side.qr) != [copy.qr_url]] == []
    assert [copy.tracking for copy, page in found if page.bars() != (copy.tracking, copy.routing)] == []
    for copy, page in found:
        name = str(copy.addressee.name)
        assert name.upper() in page.text
        assert f"{name.split()[0]}," in page.text


@pytest.mark.parametrize("piece", [name for name in PIECES if name not in POSTCARDS])
def test_codes_are_read_on_every_other_piece(piece: str) -> None:
    random = Random(7)
    copies = [random_copy(random, number, 0, giftcard=piece == "giftcard") for number in range(3)]
    files = compose_item(greeting(piece), copies)
    drawn = [*pages(files.sheets, *PIECES[piece].sides, dpi=150)]
    drawn += pages(files.envelopes, PIECES[piece].envelope, dpi=150)
    assert [page.bars() for page in drawn if page.side.barcode] == [(copy.tracking, copy.routing) for copy in copies]
    codes = [page.qr_texts(page.side.qr) for page in drawn if page.side.qr]
    assert codes == [[copy.qr_url] for copy in copies]
    claims = [page.qr_texts(page.side.card) for page in drawn if page.side.card]
    assert claims == [[copy.claim.url] for copy in copies if copy.claim]


def test_bars_are_even_at_the_resolution_of_a_printer_and_a_changed_one_is_refused() -> None:
    """At 600 dpi the reader allows a bar to be 0.003 in from its place."""
    for piece in POSTCARDS:
        copy = random_copy(Random(4), 0, 0)
        _, back = pages(compose_item(greeting(piece), [copy]).sheets, *PIECES[piece].sides, dpi=600)
        assert back.bars() == (copy.tracking, copy.routing)
    random = Random(3)
    for _ in range(200):
        copy = random_copy(random, 0, 0)
        letters = encode_barcode(str(copy.tracking), copy.routing)
        assert decode(letters) == (copy.tracking, copy.routing)
        place = random.randrange(65)
        changed = random.choice("TDAF".replace(letters[place], ""))
        with pytest.raises(Unreadable):
            decode(letters[:place] + changed + letters[place + 1 :])


@cache
def fullest(piece: str, *, qr: bool) -> Design:
    """On black art, with the longest message of these words that fits."""

    def words(count: int) -> Design:
        return design(piece, "jolly gypsy " * count, front=picture(), background=picture())

    low, high = 1, 4_000
    while high - low > 1:
        middle = (low + high) // 2
        fits = not make_renderer().find_misfits(words(middle), [JENNY], qr=qr).messages
        low, high = (middle, high) if fits else (low, middle)
    return words(low)


@cache
def face_of(piece: str, *, qr: bool, tracked: bool = True) -> Page:
    """What the post sees of a piece that is as full as it can be."""
    own = replace(FULL, qr_url=FULL.qr_url if qr else None)
    if not tracked:
        own = replace(own, tracking=None, routing="")
    files = compose_item(fullest(piece, qr=qr), [own])
    drawn = [page for page in pages(files.sheets, *PIECES[piece].sides) if page.side.barcode_zone]
    (face,) = [*drawn, *pages(files.envelopes, PIECES[piece].envelope)]
    return face


def barcode_zone(side: Side, bleed: float = 0) -> Box:
    return Box(side.trim.right - 4.75 * INCH, -bleed, 4.75 * INCH + bleed, 0.625 * INCH + bleed)


@EVERY_PIECE
def test_nothing_but_the_barcode_is_in_the_barcode_zone(piece: str) -> None:
    for qr in (False, True):
        face = face_of(piece, qr=qr)
        # To the very edge of the sheet: a cut that is off brings no art into the zone.
        place = barcode_zone(face.side, face.side.bleed)
        zone = face.part(place).copy()
        assert zone.shape == pytest.approx((place.height * 300 / INCH, place.width * 300 / INCH), abs=1)
        if face.side.barcode:
            left = round((face.side.barcode.left - place.left) * 300 / INCH)
            top = round((0.625 * INCH - face.side.barcode.top) * 300 / INCH)
            bars = zone[top - 1 : top + 45, left - 1 : left + 881]
            assert (bars < INKED).any()
            bars[:] = 255
        assert int(zone.min()) == 255
    untracked = face_of(piece, qr=False, tracked=False)
    assert int(untracked.part(barcode_zone(untracked.side)).min()) == 255


@pytest.mark.parametrize("piece", [name for name in PIECES if name != "letter"])
def test_the_first_bar_is_where_the_post_looks_for_it(piece: str) -> None:
    face = face_of(piece, qr=True)
    zone = face.part(barcode_zone(face.side))
    ink = zone < INKED
    columns, rows = np.flatnonzero(ink.any(axis=0)), np.flatnonzero(ink.any(axis=1))
    assert 3.5 <= 4.75 - columns[0] / 300 <= 4.25
    assert 0.625 - (rows[-1] + 1) / 300 >= 0.1875
    assert rows[0] / 300 >= 0.028
    assert read_bars(zone, dpi=300) == (TRACKING, ROUTING)


LETTER = PIECES["letter"]
WINDOWS = LETTER.find_side("envelope").windows
# A sheet of 11 in folded in thirds, in the envelope's 9.5 by 4.125 in.
PLAY = (1.0 * INCH, (4.125 - 11 / 3) * INCH)


def over_the_sheet(window: Box, across: float, up: float) -> Box:
    """The window, on a sheet whose upper third lies so far right and up in the envelope."""
    return replace(window, left=window.left - across, bottom=window.bottom - up + 11 * INCH * 2 / 3)


def test_the_boxes_behind_a_window_show_through_all_the_play() -> None:
    below, above = WINDOWS
    places = product((LETTER.find_side("cover"), LETTER.find_side("address")), (0, PLAY[0]), (0, PLAY[1]))
    for side, across, up in places:
        for box, window in ((side.address, below), (side.barcode, below), (side.return_address, above)):
            assert box
            shown = over_the_sheet(window, across, up)
            assert shown.left <= box.left - INCH / 8
            assert box.right <= shown.right - INCH / 8
            clear = INCH / 8 if window is below else 0.028 * INCH
            assert shown.bottom <= box.bottom - clear + 0.01
            assert box.top <= shown.top - clear + 0.01
            assert side.message is None or not shown.overlaps(side.message)


def test_a_tapped_letter_shows_its_address_and_barcode_and_nothing_else() -> None:
    look = fullest("letter", qr=True)
    attached = make_printable_pages(make_pdf(b"1 0 0 rg 0 0 612 792 re f ")).data
    (cover,) = pages(compose_item(look, [FULL]).sheets, LETTER.find_side("cover"))
    only_pdf = compose_item(replace(look, pages=attached, pdf_only=True), [FULL]).sheets
    address, _ = pages(only_pdf, LETTER.find_side("address"), LETTER.find_side("page"))
    for page in (cover, address):
        box, barcode, sender = page.side.address, page.side.barcode, page.side.return_address
        assert box
        assert barcode
        assert sender
        mailing = Box(0, barcode.bottom - 3, 4.25 * INCH, box.top - barcode.bottom + 6)
        whole = [int((page.part(area) < INKED).sum()) for area in (mailing, sender)]
        assert min(whole) > 1000
        for across, up in product((0, PLAY[0] / 2, PLAY[0]), (0, PLAY[1] / 2, PLAY[1])):
            for window, expected in zip(WINDOWS, whole, strict=True):
                place = over_the_sheet(window, across, up)
                parts = (page.part(place), page.part(place.expand(-INCH / 8, -0.028 * INCH)))
                assert [int((part < INKED).sum()) for part in parts] == [expected] * 2
            shown = over_the_sheet(WINDOWS[0], across, up)
            bars = replace(shown, bottom=barcode.bottom - 3, height=barcode.height + 5)
            assert read_bars(page.part(bars), dpi=300) == (TRACKING, ROUTING)
