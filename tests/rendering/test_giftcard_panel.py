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
    copy,
    count_colors,
    cropped,
    design,
    image_of,
    picture,
)
from support.designs import make_renderer as usual_renderer
from support.page_reader import Glyph, Pages

DPI = 300
MILLIMETRE = INCH / 25.4
WHITE = (255, 255, 255)
BASE = "https://mail.example.com"
LONG_BASE = "https://mail.a-company-of-many-words-in-rosenheim.example.co.uk"
# The last is wider than any that there is.
CODES = [*(encode_claim(Random(number).randbytes(16)) for number in range(2)), "W" * 26]
CARDS = {
    "dark": Giftcard("Acorn Coffee", 2500, parse_color("#10241c").ink),
    "light": Giftcard("Café Olé", 1250, parse_color("#ffd84a").ink),
    "white": Giftcard("Paper & Pine", 100_000, (1.0, 1.0, 1.0)),
    "long": Giftcard(
        "The Extraordinarily Long-Named Corner Coffee Roasters & Sons", 12_345_678, parse_color("#7a1f3d").ink
    ),
}
# As small as an operator may make the card.
SMALL = "[giftcard.inside]\ncard = [4.6875, 0.42, 2.5, 1.6]"
EVERY_CARD = pytest.mark.parametrize("name", CARDS)
EVERY_SIZE = pytest.mark.parametrize("changes", [None, SMALL], ids=["usual", "small"])


@cache
def renderer_for(changes: str | None = None) -> Renderer:
    return Renderer(usual_renderer().hands, load_shipped_products(changes), sandbox=DecoderSandbox())


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


def around(glyphs: list[Glyph]) -> Box:
    boxes = [glyph.ink for glyph in glyphs if glyph.ink]
    left, bottom = min(box.left for box in boxes), min(box.bottom for box in boxes)
    return Box(left, bottom, max(box.right for box in boxes) - left, max(box.top for box in boxes) - bottom)


def scanned(card: Image.Image) -> tuple[str, Box]:
    """What the code to scan says, and where it is, from the card's lower left corner."""
    (read,) = zxingcpp.read_barcodes(card)
    first, last = read.position.top_left, read.position.bottom_right
    left, right = first.x * INCH / DPI, last.x * INCH / DPI
    bottom, top = (card.height - last.y) * INCH / DPI, (card.height - first.y) * INCH / DPI
    return str(read.text), Box(left, bottom, right - left, top - bottom)


def on_card(box: Box, changes: str | None = None) -> Box:
    """A box of the sheet, from the card's lower left corner."""
    return Box(box.left - panel(changes).left, box.bottom - panel(changes).bottom, box.width, box.height)


@pytest.mark.parametrize(
    ("cents", "text"), [(2500, "$25"), (1250, "$12.50"), (100_000, "$1,000"), (5, "$0.05"), (123_456, "$1,234.56")]
)
def test_an_amount_is_formatted_as_people_write_it(cents: int, text: str) -> None:
    assert format_dollars(cents) == text


@EVERY_CARD
@pytest.mark.parametrize("base", [BASE, LONG_BASE], ids=["short", "long"])
def test_the_card_says_brand_amount_and_code_and_nothing_else(name: str, base: str) -> None:
    card, pages = CARDS[name], printed(name, base)
    for number, code in enumerate(CODES):
        lines = lines_of(plain_letters(pages, 2 * number + 1))
        text = "".join(lines)
        place = base.removeprefix("https://") + "/gift"
        expected = f"{card.brand}{'GIFT CARD'}{format_dollars(card.amount_cents)}Scan, or enter this code at{place}"
        assert text == expected.replace(" ", "") + "".join(lines[-2:])
        assert [len(line) for line in lines[-2:]] == [15, 15]
        assert parse_claim("-".join(lines[-2:])) == code
        assert all(line.count("-") == 2 for line in lines[-2:])


@EVERY_CARD
@EVERY_SIZE
def test_nothing_on_the_card_touches_its_edge_or_the_code_to_scan(name: str, changes: str | None) -> None:
    pages = printed(name, LONG_BASE, changes)
    unit = panel(changes).width / panel().width
    for number, card in enumerate(cards_of(pages, changes)):
        glyphs = plain_letters(pages, 2 * number + 1)
        _, symbol = scanned(card)
        assert panel(changes).expand(-8 * unit).contains(around(glyphs))
        assert not symbol.expand(4 * unit).overlaps(on_card(around(claim_letters(glyphs)), changes))


@EVERY_CARD
def test_the_code_to_scan_is_read_from_the_pixels(name: str) -> None:
    read = [scanned(card)[0] for card in cards_of(printed(name, art=True))]
    assert read == [f"{BASE}/gift/{code}" for code in CODES]


@EVERY_SIZE
@pytest.mark.parametrize("base", [BASE, LONG_BASE], ids=["short", "long"])
def test_the_code_to_scan_is_coarse_and_stands_clear(base: str, changes: str | None) -> None:
    for code, card in zip(CODES, cards_of(printed("dark", base, changes, art=True), changes), strict=True):
        text, symbol = scanned(card)
        assert text == f"{base}/gift/{code}"
        module = symbol.width / QrEncoder().encode(text).side
        assert module >= 0.4 * MILLIMETRE
        # Less by the pixel that its place is known to.
        for strip in ring(symbol.expand(0.3), 4 * module - 0.6):
            assert count_colors(cropped(card, strip, DPI)) == {WHITE}


def ring(box: Box, width: float) -> list[Box]:
    """What lies around a box, that far."""
    outer = box.expand(width)
    return [
        Box(outer.left, outer.bottom, outer.width, width),
        Box(outer.left, box.top, outer.width, width),
        Box(outer.left, outer.bottom, width, outer.height),
        Box(box.right, outer.bottom, width, outer.height),
    ]


def test_the_typed_code_is_large_enough_to_be_typed() -> None:
    letters = [glyph for glyph in plain_letters(printed("dark")) if glyph.size == 13]
    assert "".join(glyph.text for glyph in letters).replace("-", "") == CODES[0]
    for code in range(len(CODES)):
        assert min(glyph.size for glyph in plain_letters(printed("long", LONG_BASE), 2 * code + 1)) >= 6


@EVERY_CARD
@pytest.mark.parametrize("art", [False, True], ids=["paper", "art"])
def test_outside_its_panel_the_card_leaves_no_trace(name: str, art: bool) -> None:
    background = picture(size=(85, 110), colour="pink") if art else None
    look = design("giftcard", SHORT_MESSAGE, giftcard=CARDS[name], background=background)
    bare = design("giftcard", SHORT_MESSAGE, giftcard=None, background=background)
    own = piece(CODES[0])
    one = image_of(usual_renderer().preview(look, own, dpi=100, only_preview="back").sides["back"])
    other = image_of(usual_renderer().preview(bare, copy(qr_url=QR_URL), dpi=100, only_preview="back").sides["back"])
    left, top, right, bottom = ImageChops.difference(one, other).getbbox() or (0, 0, 0, 0)
    shown = PIECES["giftcard"].find_side("inside").preview_area
    changed = Box(left * 0.72, shown.height - bottom * 0.72, (right - left) * 0.72, (bottom - top) * 0.72)
    in_place = Box(shown.left + changed.left, changed.bottom, changed.width, changed.height)
    assert panel().expand(1).contains(in_place)
    assert in_place.expand(1).contains(panel())


def test_a_specimen_differs_from_the_print_in_the_code_and_the_code_to_scan_alone() -> None:
    look = design("giftcard", SHORT_MESSAGE, giftcard=CARDS["light"], background=picture(colour="pink"))
    copies = [piece(SPECIMEN_CLAIM), piece(CODES[0])]
    pages = renderer_for().compose({0: look}, copies, title="Gifts", made_at=MADE_AT).sheets
    cards = cards_of(pages, count=2)
    assert [scanned(card)[0] for card in cards] == [f"{BASE}/gift/{code}" for code in (SPECIMEN_CLAIM, CODES[0])]
    assert lines_of(plain_letters(pages))[-2:] == ["SPEC-1MEN-00000", "0000-0000-00000"]
    areas = [scanned(card)[1] for card in cards]
    areas += [on_card(around(code_letters(plain_letters(pages, page)))) for page in (1, 3)]
    shown, mailed = (image_of(png) for png in rasterize_pages(pages, dpi=DPI, pages=[1, 3]))
    for area in areas:
        blank(shown, area.expand(1))
        blank(mailed, area.expand(1))
    assert shown.tobytes() == mailed.tobytes()


def claim_letters(glyphs: list[Glyph]) -> list[Glyph]:
    """All that is on the slip."""
    hint = next(place for place, glyph in enumerate(glyphs) if glyph.text == "S" and glyph.size < 7)
    return glyphs[hint:]


def code_letters(glyphs: list[Glyph]) -> list[Glyph]:
    """Those of the two lowest lines."""
    lowest = sorted({glyph.baseline for glyph in glyphs})[:2]
    return [glyph for glyph in glyphs if glyph.baseline in lowest]


def blank(sheet: Image.Image, area: Box) -> None:
    """Cover a part of the card."""
    scale, left, bottom = DPI / INCH, panel().left + area.left, panel().bottom + area.bottom
    across = round(left * scale), round((left + area.width) * scale)
    down = round(sheet.height - (bottom + area.height) * scale), round(sheet.height - bottom * scale)
    sheet.paste(WHITE, (across[0], down[0], across[1], down[1]))


def test_a_piece_has_the_same_card_in_every_batch() -> None:
    alone = renderer_for().compose({0: design("giftcard")}, [piece(CODES[1])], title="Gifts", made_at=MADE_AT).sheets
    batch = [piece(code) for code in CODES]
    among = renderer_for().compose({0: design("giftcard")}, batch, title="Gifts", made_at=MADE_AT).sheets
    assert Pages(alone).streams(1) == Pages(among).streams(3)
    assert among == renderer_for().compose({0: design("giftcard")}, batch, title="Gifts", made_at=MADE_AT).sheets


def test_what_is_printed_on_any_colour_can_be_read() -> None:
    shades = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    for accent in product(shades, shades, shades):
        paint = CardColors(accent)
        for runtime in (paint.background, paint.glow, paint.bright_glow):
            assert contrast_ratio(ink_of(paint.ink), ink_of(runtime)) >= MIN_READABLE_CONTRAST, accent
        # A card is seen on white paper by its colour, or else by its edge.
        assert contrast_ratio(ink_of(paint.edge or paint.background), (1.0, 1.0, 1.0)) >= MIN_VISIBLE_CONTRAST, accent


def ink_of(operands: bytes) -> Ink:
    red, green, blue = map(float, operands.split())
    return red, green, blue


def test_no_repr_of_a_piece_tells_its_claim() -> None:
    assert CODES[0] not in repr(piece(CODES[0])).replace("-", "")
