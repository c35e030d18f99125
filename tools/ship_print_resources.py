"""Writes the color profiles and the barcode's font into the package: `.venv/bin/python tools/ship_print_resources.py`.

They never change unless this file or the size of a bar does. Print files hold them byte by byte.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from pathlib import Path

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from quillpost.rendering.models import BAR_HEIGHT, BAR_WIDTH
from quillpost.rendering.pdf.fonts import BARCODE_FONT_SIZE, BARCODE_PITCH_UNITS

FOLDER = Path(__file__).resolve().parent.parent / "src" / "quillpost" / "rendering" / "pdf"

_D50 = (0.9642, 1.0, 0.8249)
# Linear sRGB to the profile connection space, adapted from D65 to D50, and back.
_RGB_TO_PCS = (0.4360747, 0.3850649, 0.1430804, 0.2225045, 0.7168786, 0.0606169, 0.0139322, 0.0971045, 0.7141733)
_PCS_TO_RGB = (3.1338561, -1.6168667, -0.4906146, -0.9787684, 1.9161415, 0.0334540, 0.0719453, -0.2289914, 1.4052427)
_D65_TO_D50 = (1.0479298, 0.0229468, -0.0501922, 0.0296278, 0.9904344, -0.0170738, -0.0092430, 0.0150552, 0.7518743)
# In a table of an ICC profile 1 stands for this much of X, Y or Z.
_PCS_RANGE = 65535 / 32768
_PERCEPTUAL_BLACK = 0.0034731  # the black of the reference print that perceptual renderings go by, as part of its white

_CHANNELS = 3
_IDENTITY_CURVE = struct.pack(">4s4xI", b"curv", 0)


def make_display_profile() -> bytes:
    """sRGB as the color space of content."""
    curve = _expanding_curve()
    tags = _common_tags()
    for index, channel in enumerate((b"r", b"g", b"b")):
        tags[channel + b"XYZ"] = _xyz_tag(_RGB_TO_PCS[index::_CHANNELS])
        tags[channel + b"TRC"] = curve
    return _build_profile(b"mntr", tags)


def make_output_profile() -> bytes:
    """sRGB as a printer profile, the class that an output intent must have."""
    tags = _common_tags()
    for rendering, black in ((b"0", _PERCEPTUAL_BLACK), (b"1", 0.0), (b"2", _PERCEPTUAL_BLACK)):
        tags[b"A2B" + rendering] = _device_to_pcs_tag(black)
        tags[b"B2A" + rendering] = _pcs_to_device_tag(black)
    tags[b"gamt"] = _full_gamut_tag()
    return _build_profile(b"prtr", tags)


def _build_profile(device_class: bytes, tags: dict[bytes, bytes]) -> bytes:
    """Header, tag table and tags; equal tags share their place."""
    body, offsets = b"", dict[bytes, int]()
    start = 128 + 4 + 12 * len(tags)
    for data in tags.values():
        if data not in offsets:
            offsets[data] = start + len(body)
            body += data + bytes(-len(data) % 4)
    table = b"".join(struct.pack(">4sII", tag, offsets[data], len(data)) for tag, data in tags.items())
    size = start + len(body)
    header = struct.pack(">I4sI4s4s4s", size, b"", 0x04200000, device_class, b"RGB ", b"XYZ ")
    # The moment is that of the standard: a profile has to carry one.
    header += struct.pack(">6H4s", 1999, 10, 18, 0, 0, 0, b"acsp") + bytes(28) + _fixed_point(_D50)
    return header + bytes(128 - len(header)) + struct.pack(">I", len(tags)) + table + body


def _common_tags() -> dict[bytes, bytes]:
    return {
        b"desc": _text_tag("sRGB IEC61966-2.1"),
        b"cprt": _text_tag("No copyright, use freely"),
        b"wtpt": _xyz_tag(_D50),
        b"chad": b"sf32" + bytes(4) + _fixed_point(_D65_TO_D50),
    }


def _fixed_point(values: Sequence[float]) -> bytes:
    return struct.pack(f">{len(values)}i", *(round(value * 65536) for value in values))


def _xyz_tag(values: Sequence[float]) -> bytes:
    return b"XYZ " + bytes(4) + _fixed_point(values)


def _text_tag(text: str) -> bytes:
    encoded = text.encode("utf-16-be")
    return struct.pack(">4s4xII4sII", b"mluc", 1, 12, b"enUS", len(encoded), 28) + encoded


def _expanding_curve() -> bytes:
    """From a color value to light."""
    return struct.pack(">4s4xH2x", b"para", 3) + _fixed_point((2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045))


def _compressing_curve() -> bytes:
    """From light to a color value."""
    parameters = (1 / 2.4, 1.055**2.4, 0, 12.92, 0.0031308, -0.055, 0)
    return struct.pack(">4s4xH2x", b"para", 4) + _fixed_point(parameters)


def _device_to_pcs_tag(black: float) -> bytes:
    """Color values to the connection space; `black` is a share of white."""
    matrix = [value * (1 - black) / _PCS_RANGE for value in _RGB_TO_PCS]
    offsets = [value * black / _PCS_RANGE for value in _D50]
    return _transform_tag(b"mAB ", matrix, offsets, _expanding_curve())


def _pcs_to_device_tag(black: float) -> bytes:
    matrix = [value / (1 - black) * _PCS_RANGE for value in _PCS_TO_RGB]
    offsets = [-black / (1 - black)] * _CHANNELS
    return _transform_tag(b"mBA ", matrix, offsets, _compressing_curve())


def _transform_tag(kind: bytes, matrix: Sequence[float], offsets: Sequence[float], device_curve: bytes) -> bytes:
    """Curves on the device's side, a matrix, and identity on the other side."""
    first = 32
    outer = _IDENTITY_CURVE * _CHANNELS
    matrix_at = first + len(outer)
    rows = _fixed_point(matrix) + _fixed_point(offsets)
    curves_at = matrix_at + len(rows)
    head = struct.pack(">4s4xBB2x5I", kind, _CHANNELS, _CHANNELS, first, matrix_at, curves_at, 0, 0)
    return head + outer + rows + device_curve * _CHANNELS


def _full_gamut_tag() -> bytes:
    """Every color counts as printable: the rasterizer fits colors into the gamut."""
    first = 32
    outer = _IDENTITY_CURVE * _CHANNELS
    table_at = first + len(outer)
    table = bytes([2] * _CHANNELS + [0] * 13) + struct.pack(">B3x", 1) + bytes(2**_CHANNELS)
    inner_at = table_at + len(table)
    head = struct.pack(">4s4xBB2x5I", b"mBA ", _CHANNELS, 1, first, 0, 0, table_at, inner_at)
    return head + outer + table + _IDENTITY_CURVE


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
_EPOCH = 2_082_844_800  # a font has to carry a moment; 1970, in seconds since 1904


def make_barcode_font() -> bytes:
    names = [".notdef", *_BAR_SPANS]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupHead(unitsPerEm=1000, created=_EPOCH, modified=_EPOCH)
    builder.font.recalcTimestamp = False
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(char): char for char in _BAR_SPANS})
    builder.setupGlyf(
        {".notdef": TTGlyphPen(None).glyph()} | {bar_name: _bar_glyph(*span) for bar_name, span in _BAR_SPANS.items()}
    )
    builder.setupHorizontalMetrics(dict.fromkeys(names, (BARCODE_PITCH_UNITS, 0)))
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


def main() -> None:
    shipped = {
        "srgb-display.icc": make_display_profile(),
        "srgb-printer.icc": make_output_profile(),
        "bars.ttf": make_barcode_font(),
    }
    for name, content in shipped.items():
        (FOLDER / name).write_bytes(content)
        print(f"{name}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
