"""One printed side by itself, for tests of what is drawn on it."""

import io
from functools import cache

from PIL import Image

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.models import PLAIN_FACE, STYLES, FaceRecipe
from quillpost.rendering.handwriting.service import FontSources, prepare_face
from quillpost.rendering.handwriting.text import BAR_FONT, HAND_FONT, PLAIN_FONT, Hand, PlainFace
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.layout.fronts import GREETING, HandwrittenLine
from quillpost.rendering.layout.models import Side
from quillpost.rendering.models import Box
from quillpost.rendering.pdf.files import PdfFile
from quillpost.rendering.pdf.fonts import embed_barcode_font, embed_font

_LATIN = "".join(map(chr, range(0x20, 0x180)))


@cache
def plain_face() -> PlainFace:
    prepared = prepare_face(PLAIN_FACE, _font_file(PLAIN_FACE), only_chars=_LATIN)
    return PlainFace(lambda: prepared)


def greeting() -> HandwrittenLine:
    return HandwrittenLine(*Vocabulary(_writer()).show_line(GREETING))


def sheet_pdf(side: Side, content: bytes) -> bytes:
    """A file of one page: the content in its side's coordinates, with every font that it may name."""
    pdf = PdfFile()
    fonts = b"/Font<<%b %d 0 R%b %d 0 R%b %d 0 R>>" % (
        HAND_FONT,
        embed_font(pdf, _writer().prepared),
        PLAIN_FONT,
        embed_font(pdf, plain_face().prepared),
        BAR_FONT,
        embed_barcode_font(pdf),
    )
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
def _writer() -> Hand:
    """A hand that has the letters of the greeting."""
    zeyada = next(style for style in STYLES if style.face == "Zeyada")
    prepared = prepare_face(zeyada, _font_file(zeyada), only_chars=GREETING)
    return Hand(zeyada, prepared, {PLAIN_FONT: plain_face()})


def _font_file(face: FaceRecipe) -> bytes:
    raw = FontSources(None).read_font(face)
    assert raw is not None
    return raw


def _corners(box: Box, shift: float) -> bytes:
    return b"[%.2f %.2f %.2f %.2f]" % (box.left + shift, box.bottom + shift, box.right + shift, box.top + shift)
