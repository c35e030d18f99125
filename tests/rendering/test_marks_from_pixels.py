"""What machines read on finished pieces, read back from what is printed."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from random import Random
from string import ascii_letters, digits

import numpy as np
import pypdfium2 as pdfium
import pytest
import zxingcpp
from numpy.typing import NDArray
from PIL import Image

from quillpost.orders.giftcards.rules import encode_claim, format_claim
from quillpost.rendering.codes.barcode import encode_barcode
from quillpost.rendering.decoder.service import DecoderSandbox
from quillpost.rendering.files import PrintFiles
from quillpost.rendering.handwriting.service import FontSources, Hands
from quillpost.rendering.layout.models import Side
from quillpost.rendering.layout.templates import load_shipped_products
from quillpost.rendering.models import INCH, Addressee, Box, Copy, Design, Giftcard, GiftcardClaim, SenderName
from quillpost.rendering.service import Renderer
from support.barcode_reader import Unreadable, decode, read_bars

DPI = 150
PIECES_IN_ALL = 500
QUIET = INCH / 10
PIECES = load_shipped_products()
POSTCARDS = ("postcard-4x6", "postcard-6x9", "postcard-6x11")
FIRST_NAMES = ("José", "Zoë", "O'Neil", "Anne-Marie", "Søren", "Łucja", "Bob", "Jenny", "Renée", "Ægir", "Nuño")
LAST_NAMES = ("O'Brien", "García", "Skinner", "Müller", "Åkesson", "Smith", "D'Angelo", "McDonald", "Žižek")


@dataclass(frozen=True)
class Page:
    """A rasterised page with its side's geometry, and its text."""

    side: Side
    pixels: NDArray[np.uint8]
    text: str
    dpi: int

    def part(self, box: Box) -> NDArray[np.uint8]:
        scale, shift = self.dpi / INCH, self.side.bleed
        around = box.expand(QUIET)
        left, right = (max(0, round((edge + shift) * scale)) for edge in (around.left, around.right))
        top, bottom = (max(0, len(self.pixels) - round((edge + shift) * scale)) for edge in (around.top, around.bottom))
        return self.pixels[top:bottom, left:right]


class _Memory(dict[str, bytes]):
    def has(self, key: str) -> bool:
        return key in self

    def put(self, key: str, data: bytes) -> None:
        self[key] = data


@cache
def renderer() -> Renderer:
    return Renderer(Hands(FontSources(None), _Memory()), PIECES, sandbox=DecoderSandbox())


def composed(designs: dict[int, Design], copies: list[Copy]) -> PrintFiles:
    return renderer().compose(designs, copies, title="Codes", made_at=datetime(2026, 3, 4, tzinfo=UTC))


def design(piece: str, *, background: bytes | None = None) -> Design:
    hand = min(number for number, style in renderer().hands.styles.items() if style.kind != "AI")
    return Design(
        product=piece,
        message="Hi %FIRST_NAME|there%, do come by!",
        ink=(0.1, 0.1, 0.5),
        hand=hand,
        background=background,
        sender=SenderName("Dana"),
        giftcard=Giftcard("Acorn Coffee", 2500) if piece == "giftcard" else None,
    )


def random_copy(random: Random, number: int, design: int, *, giftcard: bool = False) -> Copy:
    first, last = random.choice(FIRST_NAMES), random.choice(LAST_NAMES)
    addressee = Addressee(
        name=f"{first} {last}",
        address=f"{random.randrange(1, 9999)} Harmon Underpass",
        city="Port Stevenbury",
        province="SD",
        postal_code=f"{random.randrange(10**5):05d}",
    )
    head = random.choice("0123456789") + random.choice("01234")
    return Copy(
        item_id=number,
        design=design,
        addressee=addressee,
        tracking=head + _random_digits(random, 18),
        routing=_random_digits(random, random.choice((0, 5, 9, 11))),
        qr_url="https://mail.example.com/q/" + _random_code(random),
        claim=_random_claim(random) if giftcard else None,
    )


def pages(pdf: bytes, sides: list[Side], dpi: int = DPI) -> Iterator[Page]:
    """Every page of a file, grey; the sides come again for every copy."""
    with pdfium.PdfDocument(pdf) as document:
        for place in range(len(document)):
            page = document[place]
            pixels = page.render(scale=dpi / INCH, grayscale=True).to_numpy().copy()
            text = page.get_textpage().get_text_bounded()
            yield Page(sides[place % len(sides)], pixels, text, dpi)


@pytest.fixture(scope="module")
def backs() -> list[tuple[Copy, Page]]:
    """500 random postcards of all sizes; every fourth lies on black art."""
    random = Random(20)
    designs = {number: design(piece) for number, piece in enumerate(POSTCARDS)}
    designs |= {3: design("postcard-4x6", background=_black_picture())}
    copies = [random_copy(random, number, number % 4) for number in range(PIECES_IN_ALL)]
    # Sheets of one size at a time, since a file's pages are read as copies of the same sides.
    found: list[tuple[Copy, Page]] = []
    for key, look in designs.items():
        own = [copy for copy in copies if copy.design == key]
        sides = list(PIECES[look.product].sides)
        drawn = pages(composed(designs, own).sheets, sides)
        found += zip(own, (page for page in drawn if page.side.barcode), strict=True)
    return found


def test_every_qr_code_is_read_from_the_pixels(backs: list[tuple[Copy, Page]]) -> None:
    assert len(backs) == PIECES_IN_ALL
    wrong = [copy.qr_url for copy, page in backs if _qr_texts(page, page.side.qr) != [copy.qr_url]]
    assert wrong == []


def test_every_barcode_is_read_from_the_pixels(backs: list[tuple[Copy, Page]]) -> None:
    wrong = [copy.tracking for copy, page in backs if _bars(page) != (copy.tracking, copy.routing)]
    assert wrong == []


def test_every_name_is_read_as_text(backs: list[tuple[Copy, Page]]) -> None:
    wrong = []
    for copy, page in backs:
        name = str(copy.addressee.name)
        if name.upper() not in page.text or f"{name.split()[0]}," not in page.text:
            wrong.append((name, page.text))
    assert wrong == []


@pytest.mark.parametrize("piece", [name for name in PIECES if name not in POSTCARDS])
def test_codes_are_read_on_every_other_piece(piece: str) -> None:
    random = Random(7)
    copies = [random_copy(random, number, 0, giftcard=piece == "giftcard") for number in range(3)]
    printed = composed({0: design(piece)}, copies)
    drawn = list(pages(printed.sheets, list(PIECES[piece].sides)))
    envelope = PIECES[piece].envelope
    if printed.envelopes and envelope:
        drawn += pages(printed.envelopes, [envelope])
    bars = [_bars(page) for page in drawn if page.side.barcode]
    assert bars == [(copy.tracking, copy.routing) for copy in copies]
    codes = [_qr_texts(page, page.side.qr) for page in drawn if page.side.qr]
    assert codes == [[copy.qr_url] for copy in copies] or not codes
    claims = [_qr_texts(page, page.side.card) for page in drawn if page.side.card]
    assert claims == [[copy.claim.url] for copy in copies if copy.claim]


@pytest.mark.parametrize("piece", POSTCARDS)
def test_bars_are_even_at_the_resolution_of_a_printer(piece: str) -> None:
    """At 600 dpi the reader allows a bar to be 0.003 in from its place."""
    copy = random_copy(Random(4), 0, 0)
    _, back = pages(composed({0: design(piece)}, [copy]).sheets, list(PIECES[piece].sides), 600)
    assert _bars(back) == (copy.tracking, copy.routing)


def test_the_reader_reads_what_the_encoder_writes_and_refuses_a_changed_bar() -> None:
    random = Random(3)
    for _ in range(200):
        copy = random_copy(random, 0, 0)
        letters = encode_barcode(str(copy.tracking), copy.routing)
        assert decode(letters) == (copy.tracking, copy.routing)
        place = random.randrange(65)
        changed = random.choice("TDAF".replace(letters[place], ""))
        with pytest.raises(Unreadable):
            decode(letters[:place] + changed + letters[place + 1 :])


def _bars(page: Page) -> tuple[str, str]:
    assert page.side.barcode is not None
    # Less than the clear space that the standard asks for above and below the bars.
    area = page.part(page.side.barcode.expand(0, 0.02 * INCH - QUIET))
    reading = read_bars(area, dpi=page.dpi)
    return reading.tracking, reading.routing


def _qr_texts(page: Page, box: Box | None) -> list[str]:
    assert box is not None
    return [str(found.text) for found in zxingcpp.read_barcodes(page.part(box))]


def _black_picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (60, 40)).save(file, "JPEG")
    return file.getvalue()


def _random_digits(random: Random, length: int) -> str:
    return "".join(random.choices(digits, k=length))


def _random_claim(random: Random) -> GiftcardClaim:
    code = encode_claim(random.randbytes(16))
    return GiftcardClaim(format_claim(code), f"https://mail.example.com/gift/{code}")


def _random_code(random: Random) -> str:
    return "".join(random.choices(ascii_letters + digits, k=8))
