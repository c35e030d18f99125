"""The gift card inside a folded card: read back as text, as places, and from the pixels of a press."""

from collections import defaultdict
from functools import cache
from itertools import product
from random import Random

import pytest
import zxingcpp
from PIL import Image, ImageChops

from quillpost.orders.designs import build_claim
from quillpost.orders.giftcards.rules import SPECIMEN_CLAIM, encode_claim, parse_claim
from quillpost.rendering.codes.qr import QrEncoder
from quillpost.rendering.decoder.service import DecoderSandbox
from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.layout.giftcards import CardColors, format_dollars
from quillpost.rendering.layout.templates import load_shipped_products
from quillpost.rendering.models import (
    INCH,
    MIN_READABLE_CONTRAST,
    MIN_VISIBLE_CONTRAST,
    Box,
    Copy,
    Giftcard,
    Ink,
    contrast_ratio,
    parse_color,
)
from quillpost.rendering.service import Renderer
from support.designs import (
    MADE_AT,
    PIECES,
    QR_URL,
    SHORT_MESSAGE,
    around,
    copy,
    count_colors,
    cropped,
    design,
    image_of,
    make_renderer,
    picture,
    ring,
)
from support.page_reader import Glyph, Pages

DPI = 300
MILLIMETER = INCH / 25.4
WHITE = (255, 255, 255)
BASE = "https://mail.example.com"
LONG_BASE = "https://mail.a-company-of-many-words-in-rosenheim.example.co.uk"
# The last is wider than any that there is.
CODES = [*(encode_claim(Random(number).randbytes(16)) for number in range(2)), "W" * 26]
ENDLESS = "The Extraordinarily Long-Named Corner Coffee Roasters & Sons"
CARDS = {
    "dark": Giftcard("Acorn Coffee", 2500, parse_color("#10241c").ink),
    "light": Giftcard("Café Olé", 1250, parse_color("#ffd84a").ink),
    "white": Giftcard("Paper & Pine", 100_000, (1.0, 1.0, 1.0)),
    "long": Giftcard(ENDLESS, 12_345_678, parse_color("#7a1f3d").ink),
}
# As small as an operator may make the card.
SMALL = "[giftcard.inside]\ncard = [4.6875, 0.42, 2.5, 1.6]"


@cache
def renderer_for(changes: str | None = None) -> Renderer:
    return Renderer(make_renderer().hands, load_shipped_products(changes), sandbox=DecoderSandbox())


def panel(changes: str | None = None) -> Box:
    found = renderer_for(changes).products["giftcard"].find_side("inside").card
    assert found
    return found


def piece(code: str, base: str = BASE) -> Copy:
    return copy(qr_url=QR_URL, claim=build_claim(code, qr_base=base))


@cache
def printed(name: str, base: str = BASE, changes: str | None = None, *, art: bool = False) -> bytes:
    """A piece for each of the codes; the inside of each is its second page."""
    look = design("giftcard", SHORT_MESSAGE, giftcard=CARDS[name], background=picture() if art else None)
    copies = [piece(code, base) for code in CODES]
    return renderer_for(changes).compose({0: look}, copies, title="Gifts", made_at=MADE_AT).sheets


@cache
def cards_of(pdf: bytes, changes: str | None = None, count: int = len(CODES)) -> list[Image.Image]:
    """Of each piece its card alone, as a press would see it."""
    crops = [panel(changes)] * count
    return [image_of(png) for png in rasterize_pages(pdf, dpi=DPI, pages=range(1, 2 * count, 2), crops=crops)]


def plain_letters(pdf: bytes, page: int = 1) -> list[Glyph]:
    """All that is on the card; everything else inside is in the hand."""
    return [glyph for glyph in Pages(pdf).glyphs(page, "/F2") if glyph.ink]


def lines_of(glyphs: list[Glyph]) -> list[str]:
    """Each line of one size without its spaces, in the order in which they are drawn."""
    rows: dict[tuple[float, float], str] = defaultdict(str)
    for glyph in glyphs:
        rows[glyph.baseline, glyph.size] += glyph.text
    return list(rows.values())


def scanned(card: Image.Image) -> tuple[str, Box]:
    """What the code to scan says, and where it is, from the card's lower left corner."""
    (read,) = zxingcpp.read_barcodes(card)
    first, last = read.position.top_left, read.position.bottom_right
    left, right = first.x * INCH / DPI, last.x * INCH / DPI
    bottom, top = (card.height - last.y) * INCH / DPI, (card.height - first.y) * INCH / DPI
    return str(read.text), Box(left, bottom, right - left, top - bottom)


def place_on_card(glyphs: list[Glyph], changes: str | None = None) -> Box:
    """The box around them, from the card's lower left corner."""
    box, card = around(glyph.ink for glyph in glyphs), panel(changes)
    return Box(box.left - card.left, box.bottom - card.bottom, box.width, box.height)


def test_the_card_says_brand_amount_as_people_write_it_and_code_and_nothing_else(subtests: pytest.Subtests) -> None:
    for (name, card), base in product(CARDS.items(), (BASE, LONG_BASE)):
        with subtests.test(name, base=base):
            for number, code in enumerate(CODES):
                lines = lines_of(plain_letters(printed(name, base), 2 * number + 1))
                hint = f"Scan, or enter this code at{base.removeprefix('https://')}/gift"
                expected = f"{card.brand}GIFT CARD{format_dollars(card.amount_cents)}{hint}"
                assert "".join(lines) == expected.replace(" ", "") + "".join(lines[-2:])
                assert [(len(line), line.count("-")) for line in lines[-2:]] == [(15, 2), (15, 2)]
                assert parse_claim("-".join(lines[-2:])) == code
    amounts = {2500: "$25", 1250: "$12.50", 100_000: "$1,000", 5: "$0.05", 123_456: "$1,234.56"}
    assert {cents: format_dollars(cents) for cents in amounts} == amounts


@pytest.mark.parametrize("changes", [None, SMALL], ids=["usual", "small"])
def test_nothing_on_the_card_touches_its_edge_or_its_code(changes: str | None, subtests: pytest.Subtests) -> None:
    unit = panel(changes).width / panel().width
    for name in CARDS:
        with subtests.test(name):
            pages = printed(name, LONG_BASE, changes)
            for number, card in enumerate(cards_of(pages, changes)):
                glyphs = plain_letters(pages, 2 * number + 1)
                assert panel(changes).expand(-8 * unit).contains(around(glyph.ink for glyph in glyphs))
                hint = next(place for place, glyph in enumerate(glyphs) if glyph.text == "S" and glyph.size < 7)
                slip = place_on_card(glyphs[hint:], changes)
                assert not scanned(card)[1].expand(4 * unit).overlaps(slip)


def test_the_code_to_scan_is_read_from_the_pixels_coarse_and_with_clear_paper_around(subtests: pytest.Subtests) -> None:
    for name in CARDS:
        read = [scanned(card)[0] for card in cards_of(printed(name, art=True))]
        assert read == [f"{BASE}/gift/{code}" for code in CODES]
    for base, changes in product((BASE, LONG_BASE), (None, SMALL)):
        with subtests.test(base, changes=changes):
            for code, card in zip(CODES, cards_of(printed("dark", base, changes, art=True), changes), strict=True):
                text, symbol = scanned(card)
                assert text == f"{base}/gift/{code}"
                module = symbol.width / QrEncoder().encode(text).side
                assert module >= 0.4 * MILLIMETER
                # Less by the pixel that its place is known to.
                for strip in ring(symbol.expand(0.3), 4 * module - 0.6):
                    assert count_colors(cropped(card, strip, DPI)) == {WHITE}


def test_outside_its_panel_the_card_leaves_no_trace(subtests: pytest.Subtests) -> None:
    shown = PIECES["giftcard"].find_side("inside").preview_area
    for background in (None, picture(size=(85, 110), colour="pink")):
        bare = design("giftcard", SHORT_MESSAGE, giftcard=None, background=background)
        other = make_renderer().preview(bare, copy(qr_url=QR_URL), dpi=100, only_preview="back").sides["back"]
        for name, card in CARDS.items():
            with subtests.test(name, has_art=background is not None):
                look = design("giftcard", SHORT_MESSAGE, giftcard=card, background=background)
                one = make_renderer().preview(look, piece(CODES[0]), dpi=100, only_preview="back").sides["back"]
                changed = ImageChops.difference(image_of(one), image_of(other)).getbbox() or (0, 0, 0, 0)
                left, top, right, bottom = (edge * 0.72 for edge in changed)
                in_place = Box(shown.left + left, shown.height - bottom, right - left, bottom - top)
                assert panel().expand(1).contains(in_place)
                assert in_place.expand(1).contains(panel())


def test_a_specimen_differs_from_the_print_in_the_code_and_the_code_to_scan_alone() -> None:
    look = design("giftcard", SHORT_MESSAGE, giftcard=CARDS["light"], background=picture(colour="pink"))
    copies = [piece(SPECIMEN_CLAIM), piece(CODES[0])]
    pages = renderer_for().compose({0: look}, copies, title="Gifts", made_at=MADE_AT).sheets
    cards = [scanned(card) for card in cards_of(pages, count=2)]
    assert [text for text, _ in cards] == [f"{BASE}/gift/{code}" for code in (SPECIMEN_CLAIM, CODES[0])]
    assert lines_of(plain_letters(pages))[-2:] == ["SPEC-1MEN-00000", "0000-0000-00000"]
    areas = [symbol for _, symbol in cards]
    for page in (1, 3):
        glyphs = plain_letters(pages, page)
        lowest = sorted({glyph.baseline for glyph in glyphs})[:2]
        areas.append(place_on_card([glyph for glyph in glyphs if glyph.baseline in lowest]))
    shown, mailed = (image_of(png) for png in rasterize_pages(pages, dpi=DPI, pages=[1, 3]))
    for area in areas:
        blank(shown, area.expand(1))
        blank(mailed, area.expand(1))
    assert shown.tobytes() == mailed.tobytes()


def blank(sheet: Image.Image, area: Box) -> None:
    """Cover a part of the card."""
    scale, left, bottom = DPI / INCH, panel().left + area.left, panel().bottom + area.bottom
    top, down = (round(sheet.height - edge * scale) for edge in (bottom + area.height, bottom))
    sheet.paste(WHITE, (round(left * scale), top, round((left + area.width) * scale), down))


def test_what_is_printed_is_large_enough_to_be_typed_and_can_be_read_on_any_color() -> None:
    shades = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    for accent in product(shades, shades, shades):
        paint = CardColors(accent)
        for under in (paint.background, paint.glow, paint.bright_glow):
            assert contrast_ratio(ink_of(paint.ink), ink_of(under)) >= MIN_READABLE_CONTRAST, accent
        # A card is seen on white paper by its color, or else by its edge.
        assert contrast_ratio(ink_of(paint.edge or paint.background), (1.0, 1.0, 1.0)) >= MIN_VISIBLE_CONTRAST, accent
    letters = [glyph for glyph in plain_letters(printed("dark")) if glyph.size == 13]
    assert "".join(glyph.text for glyph in letters).replace("-", "") == CODES[0]
    for page in (1, 3, 5):
        assert min(glyph.size for glyph in plain_letters(printed("long", LONG_BASE), page)) >= 6
    assert CODES[0] not in repr(piece(CODES[0])).replace("-", ""), "no repr of a piece tells its claim"


def ink_of(operands: bytes) -> Ink:
    red, green, blue = map(float, operands.split())
    return red, green, blue
