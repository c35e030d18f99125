"""One printed side or a small file for the press by itself, written with the parts under test."""

import io
from datetime import UTC, datetime
from functools import cache

import uharfbuzz as hb
from PIL import Image

from quillpost.rendering.codes.barcode import encode_barcode
from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.alphabet import Alphabet
from quillpost.rendering.handwriting.letterforms import read_forms
from quillpost.rendering.handwriting.models import DEFAULT_STYLE, PLAIN_FACE, STYLES, FaceRecipe, PreparedFace
from quillpost.rendering.handwriting.natural_vocabulary import NaturalVocabulary
from quillpost.rendering.handwriting.service import FontSources, prepare_face
from quillpost.rendering.handwriting.text import BAR_FONT, PLAIN_FONT, PlainFace
from quillpost.rendering.handwriting.words import NaturalHand
from quillpost.rendering.layout.fronts import GREETING, HandwrittenLine
from quillpost.rendering.layout.models import Side
from quillpost.rendering.models import Box
from quillpost.rendering.pdf.color import SRGB, OutputIntent, default_color_spaces
from quillpost.rendering.pdf.files import PdfFile, PrintMetadata
from quillpost.rendering.pdf.fonts import BARCODE_FONT_SIZE, embed_barcode_font, embed_font, embed_word_font

_LATIN = "".join(map(chr, range(0x20, 0x180)))


@cache
def plain_face() -> PlainFace:
    prepared = prepare_face(PLAIN_FACE, _font_file(PLAIN_FACE), only_chars=_LATIN)
    return PlainFace(lambda: prepared)


def greeting() -> HandwrittenLine:
    return HandwrittenLine(*_vocabulary().show_line(GREETING))


def sheet_pdf(side: Side, content: bytes) -> bytes:
    """A file of one page: the content in its side's coordinates, with every font that it may name."""
    pdf = PdfFile()
    words = [(font.name, embed_word_font(pdf, DEFAULT_STYLE.name, font)) for font in _vocabulary().fonts()]
    others = [(PLAIN_FONT, embed_font(pdf, plain_face().prepared)), (BAR_FONT, embed_barcode_font(pdf))]
    fonts = b"/Font<<%b>>" % b"".join(b"%b %d 0 R" % font for font in words + others)
    page = b"/MediaBox%b/TrimBox%b/Resources<<%b>>" % (
        _corners(side.bleed_box, side.bleed),
        _corners(side.trim, side.bleed),
        fonts,
    )
    to_trim = b"1 0 0 1 %.2f %.2f cm\n" % (side.bleed, side.bleed)
    pdf.add_page(page, [pdf.add_stream(to_trim + content)])
    return pdf.finish()


def render_side(side: Side, content: bytes, dpi: int) -> Image.Image:
    (png,) = rasterize_pages(sheet_pdf(side, content), dpi=dpi)
    return Image.open(io.BytesIO(png)).convert("RGB")


@cache
def _vocabulary() -> NaturalVocabulary:
    assert DEFAULT_STYLE.movement
    own, helper = read_forms(DEFAULT_STYLE.movement.forms), read_forms("helper")
    alphabet = Alphabet(own, helper, DEFAULT_STYLE.movement.spacing)
    return NaturalVocabulary(NaturalHand(DEFAULT_STYLE, alphabet, {PLAIN_FONT: plain_face()}))


def _font_file(face: FaceRecipe) -> bytes:
    raw = FontSources(None).read_font(face)
    assert raw is not None
    return raw


def _corners(box: Box, shift: float) -> bytes:
    return b"[%.2f %.2f %.2f %.2f]" % (box.left + shift, box.bottom + shift, box.right + shift, box.top + shift)


MADE_AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
BARS = encode_barcode("01234567094987654321", "01234567891")
NAMES = ("José O'Brien", "Fifi Affleck", "Zoë Löffler")
BOXES = b"/MediaBox[0 0 306 162]/BleedBox[0 0 306 162]/TrimBox[9 9 297 153]"


@cache
def hand() -> PreparedFace:
    """Lettering that joins f and i, with the letters that the names need."""
    (nadia,) = (style.lettering for style in STYLES if style.name == "Nadia")
    assert nadia
    return prepare_face(nadia, _font_file(nadia), only_chars="".join(NAMES))


def shaped(text: str) -> list[int]:
    """The text as glyph numbers of the hand."""
    face = hand()
    buffer = hb.Buffer()
    buffer.add_str(text)
    buffer.guess_segment_properties()
    hb.shape(hb.Font(hb.Face(face.source)), buffer, {})
    bases = {number: base for base, number in enumerate(face.source_numbers)}
    return [face.glyph_number(bases[glyph.codepoint]) for glyph in buffer.glyph_infos]


def write_batch(intent: OutputIntent = SRGB) -> PrintMetadata:
    return PrintMetadata("Spring batch (1 of 2): Zoë & Co.", MADE_AT, intent)


def sheets(metadata: PrintMetadata | None, *, pieces: int = 3, extra: bytes = b"", entries: bytes = b"") -> bytes:
    """Two pages a piece: one that all share, and one with a name in the hand and a barcode.

    `extra` operators and page `entries` go on every second page.
    """
    pdf = PdfFile(metadata)
    hand_font, bar_font = pdf.reserve(), embed_barcode_font(pdf)
    spaces = default_color_spaces(pdf, metadata.intent) if metadata else b""
    colour_spaces = b"/ColorSpace<<%b>>" % spaces if spaces else b""
    resources = pdf.add(b"<</Font<</H %d 0 R/B %d 0 R>>%b>>" % (hand_font, bar_font, colour_spaces))
    shared = BOXES + b"/Resources %d 0 R" % resources
    front = pdf.add_stream(b"0.9 0.5 0.1 rg 0 0 306 162 re f\n")
    used: set[int] = set()
    for place in range(pieces):
        numbers = shaped(NAMES[place % len(NAMES)])
        used.update(numbers)
        codes = b"".join(b"%04X" % number for number in numbers)
        text = b"BT 0.1 0.1 0.5 rg /H 24 Tf 30 90 Td<%b>Tj ET\n" % codes
        bars = b"BT 0 g /B %.4f Tf 30 30 Td(%b)Tj ET\n" % (BARCODE_FONT_SIZE, BARS.encode())
        back = pdf.add_stream(text + bars + extra)
        pdf.begin_part(b"%d" % (700 + place))
        pdf.add_page(shared, [front])
        pdf.add_page(shared + entries, [back])
    embed_font(pdf, hand(), used, number=hand_font)
    return pdf.finish()
