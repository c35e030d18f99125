"""Pictures of the handwriting styles: samples, signatures and specimen sheets."""

import hashlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np

from quillpost import __version__
from quillpost.rendering import models
from quillpost.rendering.files import BatchFonts, embed_picture
from quillpost.rendering.handwriting.models import DEFAULT_STYLE, FIRST_PRIVATE_STYLE, MANNER_NAMES, Style
from quillpost.rendering.handwriting.service import ENGINE_VERSION
from quillpost.rendering.handwriting.text import HAND_FONT, PLAIN_FONT
from quillpost.rendering.images.models import read_picture
from quillpost.rendering.layout.giftcards import CARD_HEIGHT, CARD_WIDTH, draw_brand
from quillpost.rendering.layout.models import (
    MAX_FONT_SIZE,
    MIN_FONT_SIZE,
    WANDER_ROOM,
    Passage,
    PassageLayout,
    ProductLayout,
    SizeRange,
)
from quillpost.rendering.layout.paragraphs import lay_out_passages
from quillpost.rendering.layout.passages import write_passages
from quillpost.rendering.models import DEFAULT_MANNER, INCH, PEN_COLORS, Box, Copy, Design, HandChoice, Ink, parse_color
from quillpost.rendering.pdf.files import PdfFile
from quillpost.rendering.pdf.png import Pixels, encode_png
from quillpost.rendering.ports import Sandbox
from quillpost.rendering.service import Renderer

SAMPLE_DPI = 150
SAMPLE_PIXELS = (700, 120)
_SAMPLES = tomllib.loads(files(__package__).joinpath("samples.toml").read_text("utf-8"))
SAMPLE_LINE: str = _SAMPLES["line"]
SAMPLE_LETTER: str = _SAMPLES["letter"]

_INK = PEN_COLORS["blue"].ink
_GRAY = b".45 g"
_MARGIN = 6.0

_SHEET_WIDTH, _SHEET_HEIGHT, _SHEET_MARGIN = 576.0, 800.0, 24.0
_ROW_HEIGHT = 25.0
_GROUP_GAP = 20.0
_LETTER_HEIGHT = 350.0  # for the heading, the line and the letter
_GLYPH_SIZE = 17.0
_REPEATED_WORD, _WORD_SIZE, _WORD_ROW_HEIGHT = "tomorrow tomorrow tomorrow", 24.0, 44.0
_DETAIL_TEXT = "Thank you for the lovely evening"
_DETAIL_WIDTH, _DETAIL_HEIGHT, _DETAIL_SIZE, _DETAIL_DPI = 132.0, 46.0, 16.0, 600
_CHAR_ROWS = ("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789&?!.,;:'-()@#$%é")


class SamplePage:
    """A page in one hand and in plain letters, in points from the lower left."""

    def __init__(self, renderer: Renderer, choice: HandChoice, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._choice = choice
        self._sandbox = renderer.sandbox
        self._fonts = BatchFonts(renderer.hands)
        self.vocabulary = self._fonts.vocabulary_for(choice)
        self._content: list[bytes] = []

    def lay_out(self, *passages: Passage) -> PassageLayout:
        """The same text in several boxes, rows in the order given."""
        ((_, layout),) = lay_out_passages(self.vocabulary, passages)
        return layout

    def write(self, passage: Passage) -> None:
        self._content += write_passages(self.vocabulary, self.lay_out(passage))

    def draw_plain_text(self, text: str, left: float, bottom: float, size: float, ink: bytes = b"0 g") -> None:
        encoded = self._fonts.plain.encode(self._fonts.plain.make_legible(text))
        self._content.append(
            b"BT %b %b %.1f Tf %.2f %.2f Td %bTj ET\n" % (ink, PLAIN_FONT, size, left, bottom, encoded)
        )

    def draw_letters(self, chars: str, form: int, origin: tuple[float, float], pitch: float) -> None:
        """Letters in one of their forms, each in the middle of its column."""
        em = _GLYPH_SIZE * self.vocabulary.style.scale
        left, bottom = origin
        operators = []
        for column, char in enumerate(chars):
            if form < self.vocabulary.count_forms(char):
                shown, width = self.vocabulary.show_form(char, form)
                x = left + pitch * (column + 0.5) - width / 2 * em
                operators.append(b"%.2f 0 0 %.2f %.2f %.2f Tm%b" % (em, em, x, bottom, shown))
        color = b"%.3f %.3f %.3f rg" % _INK
        self._content.append(b"BT %b %b 1 Tf\n%bET\n" % (color, HAND_FONT, b"".join(operators)))

    def draw_rule(self, bottom: float) -> None:
        coordinates = (_SHEET_MARGIN, bottom, self.width - _SHEET_MARGIN, bottom)
        self._content.append(b"q .8 G .5 w %.2f %.2f m %.2f %.2f l S Q\n" % coordinates)

    def draw_frame(self, box: Box) -> None:
        edges = (box.left, box.bottom, box.width, box.height)
        self._content.append(b"q .8 G .5 w %.2f %.2f %.2f %.2f re S Q\n" % edges)

    def to_pdf(self) -> bytes:
        file = PdfFile()
        content = file.add_stream(b"".join(self._content))
        hands, fonts = self._fonts.embed_fonts(file, is_only_drawn=False)
        fonts += hands.get(self._choice, b"")
        entries = b"/MediaBox[0 0 %.2f %.2f]/Resources<</Font<<%b>>>>" % (self.width, self.height, fonts)
        file.add_page(entries, [content])
        return file.finish()

    def to_png(self, dpi: int) -> bytes:
        return self._sandbox.rasterize(self.to_pdf(), dpi=dpi)[0]


def sample_text(number: int) -> str:
    text: str = _SAMPLES["line_by_style"].get(str(number), SAMPLE_LINE)
    return text


def sample_version(style: Style) -> str:
    """Changes whenever the sample looks different."""
    # The typeface's own file comes with the release.
    version_text = f"{__version__} {ENGINE_VERSION} {style!r} {sample_text(style.number)} {SAMPLE_PIXELS}"
    return hashlib.sha256(version_text.encode()).hexdigest()[:12]


def render_sample(renderer: Renderer, number: int) -> bytes:
    """One line as a PNG, in blue ballpoint on white; all samples have one size."""
    return _render_line(renderer, HandChoice(number), sample_text(number))


def render_own_sample(renderer: Renderer, own_hand: bytes, *, text: str = SAMPLE_LINE) -> bytes:
    """The same of a sender's own hand; raises InvalidOwnHand."""
    return _render_line(renderer, HandChoice(FIRST_PRIVATE_STYLE, own_hand), text)


def _render_line(renderer: Renderer, choice: HandChoice, text: str) -> bytes:
    width, height = (pixels * INCH / SAMPLE_DPI for pixels in SAMPLE_PIXELS)
    page = SamplePage(renderer, choice, width, height)
    page.write(_one_line_passage(page, text, Box(_MARGIN, 0, width - 2 * _MARGIN, height)))
    return page.to_png(SAMPLE_DPI)


def render_hand_sheet(renderer: Renderer, number: int, *, dpi: int) -> bytes:
    """A PNG of the hand's line, its letters in all forms, and a short letter in each manner."""
    return _render_sheet(renderer, HandChoice(number), dpi=dpi)


def render_own_sheet(renderer: Renderer, own_hand: bytes, *, dpi: int) -> bytes:
    """The same of a sender's own hand; raises InvalidOwnHand."""
    return _render_sheet(renderer, HandChoice(FIRST_PRIVATE_STYLE, own_hand), dpi=dpi)


def _render_sheet(renderer: Renderer, choice: HandChoice, *, dpi: int) -> bytes:
    style = renderer.hands.style_for(choice)
    page = SamplePage(renderer, choice, _SHEET_WIDTH, _SHEET_HEIGHT)
    forms = max(page.vocabulary.count_forms(char) for chars in _CHAR_ROWS for char in chars)
    page.height = _LETTER_HEIGHT + _WORD_ROW_HEIGHT + _GROUP_GAP + len(_CHAR_ROWS) * (forms * _ROW_HEIGHT + _GROUP_GAP)
    left, width = _SHEET_MARGIN, _SHEET_WIDTH - 2 * _SHEET_MARGIN
    y = page.height - 38
    title = style.name if choice.own_hand else f"{style.number}  {style.name}"
    page.draw_plain_text(title, left, y, 20)
    page.draw_plain_text(describe_style(style), left, y - 15, 9, _GRAY)
    y -= 80
    page.write(_one_line_passage(page, sample_text(choice.number), Box(left, y, width, 58)))
    pitch = width / max(map(len, _CHAR_ROWS))
    for chars in _CHAR_ROWS:
        y -= _GROUP_GAP
        page.draw_rule(y + 6)
        for form in range(forms):
            y -= _ROW_HEIGHT
            page.draw_letters(chars, form, (left, y + 2), pitch)
    y -= _GROUP_GAP
    page.draw_rule(y + 6)
    y -= _WORD_ROW_HEIGHT
    page.write(
        _sample_passage(_REPEATED_WORD, Box(left, y, width, _WORD_ROW_HEIGHT), SizeRange(_WORD_SIZE, _WORD_SIZE))
    )
    y -= _GROUP_GAP
    page.draw_rule(y + 6)
    _write_sample_letters(page, Box(left, 18, width, y - 36), style)
    return page.to_png(dpi)


def render_hand_detail(renderer: Renderer, number: int) -> bytes:
    """A PNG of some words as a printer of 600 dots an inch sees them."""
    page = SamplePage(renderer, HandChoice(number), _DETAIL_WIDTH, _DETAIL_HEIGHT)
    box = Box(_MARGIN, 0, _DETAIL_WIDTH - 2 * _MARGIN, _DETAIL_HEIGHT)
    page.write(_sample_passage(_DETAIL_TEXT, box, SizeRange(MIN_FONT_SIZE, _DETAIL_SIZE)))
    return page.to_png(_DETAIL_DPI)


def describe_style(style: Style) -> str:
    """What it is, and of what type the API says that it is."""
    if style.lettering:
        return f"{style.kind}: lettering, from {style.lettering.face}"
    return f"{style.kind}: handwriting"


def _write_sample_letters(page: SamplePage, box: Box, style: Style) -> None:
    """The same letter in each manner that the hand has."""
    manners = MANNER_NAMES if style.movement else (DEFAULT_MANNER,)
    gap = 18.0
    width = (box.width - gap * (len(manners) - 1)) / len(manners)
    for column, manner in enumerate(manners):
        left = box.left + column * (width + gap)
        page.draw_plain_text(manner, left, box.top + 6, 8, _GRAY)
        text_box = Box(left, box.bottom, width, box.height)
        page.write(_sample_passage(SAMPLE_LETTER, text_box, SizeRange(MIN_FONT_SIZE, MAX_FONT_SIZE), manner))


def _one_line_passage(page: SamplePage, text: str, box: Box) -> Passage:
    """The text on one line, as large as possible, in the middle of the height."""
    half_points = range(round(2 * MAX_FONT_SIZE), round(2 * MIN_FONT_SIZE) - 1, -1)
    candidates = [_sample_passage(text, box, SizeRange(half_point / 2, half_point / 2)) for half_point in half_points]
    layout = page.lay_out(*candidates)
    fits_one_line = layout.fits & (layout.line_numbers.max(axis=1) == 0)
    best = int(np.argmax(fits_one_line)) if fits_one_line.any() else len(candidates) - 1
    reach = layout.measures[best, :, 3:].max(axis=0).sum() + 2 * WANDER_ROOM
    height = min(float(reach * layout.sizes[best]) + 0.1, box.height)
    bottom = box.bottom + (box.height - height) / 2
    return candidates[best]._replace(box=Box(box.left, bottom, box.width, height))


def _sample_passage(text: str, box: Box, sizes: SizeRange, manner: str = DEFAULT_MANNER) -> Passage:
    return Passage("sample", text, box, sizes, _INK, 0, manner)


BRAND_PICTURE_WIDTH = 640


def render_brand_picture(renderer: Renderer, brand: str, accent: Ink) -> bytes:
    """A PNG of the printed card, without an amount."""
    batch_fonts, file = BatchFonts(renderer.hands), PdfFile()
    content = file.add_stream(draw_brand(Box(0, 0, CARD_WIDTH, CARD_HEIGHT), brand, accent, batch_fonts.plain))
    _, fonts = batch_fonts.embed_fonts(file, is_only_drawn=True)
    entries = b"/MediaBox[0 0 %.2f %.2f]/Resources<</Font<<%b>>>>" % (CARD_WIDTH, CARD_HEIGHT, fonts)
    file.add_page(entries, [content])
    return renderer.sandbox.rasterize(file.finish(), dpi=BRAND_PICTURE_WIDTH / CARD_WIDTH * INCH)[0]


def shrink_picture(sandbox: Sandbox, data: bytes, *, max_pixels: int) -> bytes:
    """The picture, upright, with at most `max_pixels` on its longer side; a smaller one stays as it is."""
    picture = read_picture(data)
    upright_width, upright_height = picture.upright_size
    scale = max_pixels / max(upright_width, upright_height)
    if scale >= 1:
        return data
    file = PdfFile()
    placed = embed_picture(file, picture)
    page = Box(0, 0, round(upright_width * scale), round(upright_height * scale))
    content = file.add_stream(placed.draw_over(page))
    size = b"[0 0 %.2f %.2f]" % (page.width, page.height)
    resources = b"/Resources<</XObject<</P%d %d 0 R>>>>" % (placed.number, placed.number)
    file.add_page(b"/MediaBox%b/TrimBox%b%b" % (size, size, resources), [content])
    return sandbox.rasterize(file.finish(), dpi=INCH)[0]


_ART_DPI = 150
_LOGO_PIXELS = 480

_RETURN_ADDRESS = models.ReturnAddress(**_SAMPLES["return_address"])
_SENDER = models.SenderName(**_SAMPLES["sender"])
_COPY = Copy(1, 0, models.Addressee(**_SAMPLES["recipient"]), **_SAMPLES["codes"])
_CLAIM = models.GiftcardClaim(**_SAMPLES["claim"])


@dataclass(frozen=True, slots=True)
class Specimen:
    """`caption` says what is special about it."""

    caption: str
    design: Design
    copy: Copy


def make_specimens(renderer: Renderer, name: str) -> Iterator[Specimen]:
    """With everything, with text only, branded, and as a PDF only."""
    product = renderer.products[name]
    pages = renderer.sandbox.printable_pages(_make_enclosure_pdf(renderer)).data if product.extra else None
    has_giftcard = any(side.card for side in product.sides)
    # The code is on the card itself: no gift card goes without.
    plain_copy = replace(_COPY, claim=_CLAIM if has_giftcard else None)
    copy = replace(plain_copy, **_SAMPLES["links"])
    giftcard = models.Giftcard("Barton Coffee", 2_500, parse_color("#1f6f54").ink) if has_giftcard else None
    art = {part: _art_for(product, part) for part in ("front", "background")}
    full_design = _make_design(name, **art, pages=pages, giftcard=giftcard)
    yield Specimen("with pictures, a QR code and an opt-out line", full_design, copy)
    yield Specimen("plain", _make_design(name, giftcard=giftcard), plain_copy)
    if any(side.is_cover for side in product.sides):
        accent = parse_color("#3e5270").ink
        for caption, logo in (("branded by a logo", _make_logo()), ("branded by a name", None)):
            branding = models.SenderBranding(accent, _SENDER.company, _SAMPLES["contact"], _SAMPLES["disclaimer"], logo)
            yield Specimen(caption, _make_design(name, giftcard=giftcard, branding=branding), plain_copy)
    if pages is not None:
        yield Specimen("the sender's PDF alone", _make_design(name, pages=pages, pdf_only=True), plain_copy)


def _make_design(product: str, **parts: Any) -> Design:
    ink = PEN_COLORS["blue"].ink
    return Design(product, SAMPLE_LETTER, ink, sender=_SENDER, return_address=_RETURN_ADDRESS, **parts)


def _make_logo() -> bytes:
    picture = _draw_hills(_LOGO_PIXELS, _LOGO_PIXELS, 0.0)
    axis = np.linspace(-1, 1, _LOGO_PIXELS)
    picture[np.hypot(axis[None, :], axis[:, None]) > 1] = 255
    return encode_png(picture, dpi=_ART_DPI)


def _art_for(product: ProductLayout, art: str) -> bytes | None:
    """Hills over the side's art, pale where the message is written."""
    side = next((side for side in product.sides if side.art == art), None)
    if side is None:
        return None
    area = side.art_area or side.bleed_box
    width, height = (round(length / INCH * _ART_DPI) for length in (area.width, area.height))
    return encode_png(_draw_hills(width, height, 0.82 if side.message else 0.0), dpi=_ART_DPI)


def _draw_hills(width: int, height: int, paleness: float) -> Pixels:
    x = np.linspace(0, 1, width)[None, :]
    y = np.linspace(0, 1, height)[:, None]
    dusk, dawn = np.array([253, 196, 138.0]), np.array([126, 160, 205.0])
    glow = (1 - y)[..., None] ** 1.5
    picture = dawn * glow + dusk * (1 - glow) + np.zeros((height, width, 1))
    sun = np.hypot((x - 0.68) * width / height, y - 0.42)
    picture += (np.clip(1 - sun / 0.42, 0, 1) ** 2)[..., None] * np.array([60, 50, 30.0])
    picture[sun < 0.075] = (255, 246, 214)
    for number, color in enumerate(((150, 140, 176), (104, 108, 150), (62, 82, 112), (26, 48, 66))):
        ridge = 0.55 + 0.115 * number + 0.05 * np.sin((3 + number) * x * np.pi + 1.7 * number)
        ridge += 0.018 * np.sin((9 + 2 * number) * x * np.pi + number)
        picture[np.broadcast_to(y > ridge, (height, width))] = color
    pale = picture + (255 - picture) * paleness
    pixels: Pixels = np.clip(np.rint(pale), 0, 255).astype(np.uint8)
    return pixels


def _make_enclosure_pdf(renderer: Renderer) -> bytes:
    page = SamplePage(renderer, HandChoice(DEFAULT_STYLE.number), 8.5 * INCH, 11 * INCH)
    page.draw_plain_text("Your garden in spring", INCH, 9.6 * INCH, 28)
    page.draw_plain_text("An additional page, from the sender's own PDF.", INCH, 9.2 * INCH, 12, b".45 g")
    entries = (("March", "Beds dug over, roses pruned"), ("April", "Lawn sown, fence mended"), ("May", "Harvest!"))
    for index, (month, activity) in enumerate(entries):
        bottom = (8.4 - 0.4 * index) * INCH
        page.draw_plain_text(month, INCH, bottom, 14)
        page.draw_plain_text(activity, 2.2 * INCH, bottom, 14)
    page.draw_frame(Box(0.75 * INCH, 0.75 * INCH, 7 * INCH, 9.5 * INCH))
    return page.to_pdf()
