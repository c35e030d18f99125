"""Small files for the press, written with the parts under test."""

from datetime import UTC, datetime
from functools import cache

import uharfbuzz as hb

from quillpost.rendering.codes.barcode import encode_barcode
from quillpost.rendering.handwriting.models import STYLES, PreparedFace
from quillpost.rendering.handwriting.service import FontSources, prepare_face
from quillpost.rendering.pdf.color import SRGB, OutputIntent, default_color_spaces
from quillpost.rendering.pdf.files import PdfFile, PrintMetadata
from quillpost.rendering.pdf.fonts import BARCODE_FONT_SIZE, embed_barcode_font, embed_font

MADE_AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
BARS = encode_barcode("01234567094987654321", "01234567891")
NAMES = ("José O'Brien", "Fifi Affleck", "Zoë Löffler")
BOXES = b"/MediaBox[0 0 306 162]/BleedBox[0 0 306 162]/TrimBox[9 9 297 153]"


@cache
def hand() -> PreparedFace:
    """A hand that joins f and i, with takes of the letters that the names need."""
    (caveat,) = (style for style in STYLES if style.face == "Caveat")
    raw = FontSources(None).read_font(caveat)
    assert raw is not None
    return prepare_face(caveat, raw, only_chars="".join(NAMES))


def shaped(text: str, take: int) -> list[int]:
    """The text as glyph numbers of the hand."""
    face = hand()
    buffer = hb.Buffer()
    buffer.add_str(text)
    buffer.guess_segment_properties()
    hb.shape(hb.Font(hb.Face(face.source)), buffer, {})
    bases = {number: base for base, number in enumerate(face.source_numbers)}
    return [face.glyph_number(bases[glyph.codepoint], take) for glyph in buffer.glyph_infos]


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
        numbers = shaped(NAMES[place % len(NAMES)], place % 8)
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
