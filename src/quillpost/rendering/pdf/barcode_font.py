"""The postal barcode as a font of four glyphs: 65 bars are a string of 65 letters T, D, A and F."""

import io
from functools import cache

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from quillpost.rendering.geometry import BAR_HEIGHT, BAR_PITCH, BAR_WIDTH
from quillpost.rendering.pdf.fonts import subset_tag
from quillpost.rendering.pdf.writer import PdfFile, deflate

# At this size a bar has the width, height and pitch that it should; the base line is the bars' foot.
_PITCH = 300
BARS_SIZE = BAR_PITCH * 1000 / _PITCH

_WIDTH = round(BAR_WIDTH / BARS_SIZE * 1000)
_HEIGHT = round(BAR_HEIGHT / BARS_SIZE * 1000)
# A tracker is the middle third of a full bar.
_THIRD = _HEIGHT // 3
_SPANS = {"A": (_THIRD, _HEIGHT), "D": (0, 2 * _THIRD), "F": (0, _HEIGHT), "T": (_THIRD, 2 * _THIRD)}
_FIRST, _LAST = ord("A"), ord("T")
_NON_SYMBOLIC = 32
# A font has to carry a moment; 1970, in seconds since 1904.
_EPOCH = 2_082_844_800


def embed_bars(pdf: PdfFile) -> int:
    """The number of a font object whose codes are the four letters."""
    program = _program()
    name = subset_tag(program) + b"+QuillpostBars"
    file = pdf.add_stream(
        _compressed_program(), b"/Length1 %d/Filter/FlateDecode" % len(program), is_final=True
    )
    descriptor = pdf.add(
        b"<</Type/FontDescriptor/FontName/%b/Flags %d/FontBBox[0 0 %d %d]/ItalicAngle 0"
        b"/Ascent %d/Descent 0/CapHeight %d/StemV %d/FontFile2 %d 0 R>>"
        % (name, _NON_SYMBOLIC, _WIDTH, _HEIGHT, _HEIGHT, _HEIGHT, _WIDTH, file)
    )
    widths = b" ".join(b"%d" % (_PITCH if chr(code) in _SPANS else 0) for code in range(_FIRST, _LAST + 1))
    return pdf.add(
        b"<</Type/Font/Subtype/TrueType/BaseFont/%b/Encoding/WinAnsiEncoding"
        b"/FirstChar %d/LastChar %d/Widths[%b]/FontDescriptor %d 0 R>>"
        % (name, _FIRST, _LAST, widths, descriptor)
    )


@cache
def _compressed_program() -> bytes:
    return deflate(_program())


@cache
def _program() -> bytes:
    names = [".notdef", *_SPANS]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupHead(unitsPerEm=1000, created=_EPOCH, modified=_EPOCH)
    builder.font.recalcTimestamp = False
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(letter): letter for letter in _SPANS})
    builder.setupGlyf({".notdef": TTGlyphPen(None).glyph()} | {n: _bar(*span) for n, span in _SPANS.items()})
    builder.setupHorizontalMetrics(dict.fromkeys(names, (_PITCH, 0)))
    builder.setupHorizontalHeader(ascent=_HEIGHT, descent=0)
    builder.setupMaxp()
    file = io.BytesIO()
    builder.save(file)
    return file.getvalue()


def _bar(bottom: int, top: int) -> object:
    pen = TTGlyphPen(None)
    pen.moveTo((0, bottom))
    pen.lineTo((0, top))
    pen.lineTo((_WIDTH, top))
    pen.lineTo((_WIDTH, bottom))
    pen.closePath()
    return pen.glyph()
