"""The postal barcode as a font of four glyphs: 65 bars are a string of 65 letters T, D, A and F."""

import io
from functools import cache

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from quillpost.rendering.geometry import BAR_HEIGHT, BAR_PITCH, BAR_WIDTH
from quillpost.rendering.pdf.fonts import subset_tag
from quillpost.rendering.pdf.writer import PdfFile, deflate

# At this size a bar has the width, height and pitch that it should; the base line is the bars' foot.
_PITCH_UNITS = 300
BARCODE_FONT_SIZE = BAR_PITCH * 1000 / _PITCH_UNITS

_BAR_WIDTH_UNITS = round(BAR_WIDTH / BARCODE_FONT_SIZE * 1000)
_BAR_HEIGHT_UNITS = round(BAR_HEIGHT / BARCODE_FONT_SIZE * 1000)
# A tracker is the middle third of a full bar.
_THIRD_UNITS = _BAR_HEIGHT_UNITS // 3
_BAR_SPANS = {
    "A": (_THIRD_UNITS, _BAR_HEIGHT_UNITS),
    "D": (0, 2 * _THIRD_UNITS),
    "F": (0, _BAR_HEIGHT_UNITS),
    "T": (_THIRD_UNITS, 2 * _THIRD_UNITS),
}
_FIRST_CODE, _LAST_CODE = ord("A"), ord("T")
_NON_SYMBOLIC_FLAG = 32
# A font has to carry a moment; 1970, in seconds since 1904.
_EPOCH = 2_082_844_800


def embed_barcode_font(pdf: PdfFile) -> int:
    """The number of a font object whose codes are the four letters."""
    program = _font_program()
    name = subset_tag(program) + b"+QuillpostBars"
    file = pdf.add_stream(_compressed_program(), b"/Length1 %d/Filter/FlateDecode" % len(program), is_final=True)
    descriptor = pdf.add(
        b"<</Type/FontDescriptor/FontName/%b/Flags %d/FontBBox[0 0 %d %d]/ItalicAngle 0"
        b"/Ascent %d/Descent 0/CapHeight %d/StemV %d/FontFile2 %d 0 R>>"
        % (
            name,
            _NON_SYMBOLIC_FLAG,
            _BAR_WIDTH_UNITS,
            _BAR_HEIGHT_UNITS,
            _BAR_HEIGHT_UNITS,
            _BAR_HEIGHT_UNITS,
            _BAR_WIDTH_UNITS,
            file,
        )
    )
    widths = b" ".join(
        b"%d" % (_PITCH_UNITS if chr(code) in _BAR_SPANS else 0) for code in range(_FIRST_CODE, _LAST_CODE + 1)
    )
    return pdf.add(
        b"<</Type/Font/Subtype/TrueType/BaseFont/%b/Encoding/WinAnsiEncoding"
        b"/FirstChar %d/LastChar %d/Widths[%b]/FontDescriptor %d 0 R>>"
        % (name, _FIRST_CODE, _LAST_CODE, widths, descriptor)
    )


@cache
def _compressed_program() -> bytes:
    return deflate(_font_program())


@cache
def _font_program() -> bytes:
    names = [".notdef", *_BAR_SPANS]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupHead(unitsPerEm=1000, created=_EPOCH, modified=_EPOCH)
    builder.font.recalcTimestamp = False
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(char): char for char in _BAR_SPANS})
    builder.setupGlyf(
        {".notdef": TTGlyphPen(None).glyph()} | {bar_name: _bar_glyph(*span) for bar_name, span in _BAR_SPANS.items()}
    )
    builder.setupHorizontalMetrics(dict.fromkeys(names, (_PITCH_UNITS, 0)))
    builder.setupHorizontalHeader(ascent=_BAR_HEIGHT_UNITS, descent=0)
    builder.setupMaxp()
    file = io.BytesIO()
    builder.save(file)
    return file.getvalue()


def _bar_glyph(bottom: int, top: int) -> object:
    pen = TTGlyphPen(None)
    pen.moveTo((0, bottom))
    pen.lineTo((0, top))
    pen.lineTo((_BAR_WIDTH_UNITS, top))
    pen.lineTo((_BAR_WIDTH_UNITS, bottom))
    pen.closePath()
    return pen.glyph()
