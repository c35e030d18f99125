"""The entries of PDF objects that come into print, and black as one ink."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pikepdf

PdfObject = Any
"""pikepdf hands out numbers, truth values and nulls as Python's own, which its types do not say."""


def _named(*names: str) -> frozenset[str]:
    return frozenset(f"/{name}" for line in names for name in line.split())


_STREAM = "Length Filter DecodeParms"

FORM = _named(_STREAM, "Type Subtype FormType BBox Matrix Resources Group")
GROUP = _named("Type S CS I K")
IMAGE = _named(
    _STREAM,
    "Type Subtype Width Height ColorSpace BitsPerComponent Intent ImageMask Mask Decode Interpolate",
    "SMask SMaskInData Matte",
)
PATTERN = _named(
    _STREAM,
    "Type PatternType PaintType TilingType BBox XStep YStep Resources Matrix Shading ExtGState",
)
SHADING = _named(
    _STREAM,
    "ShadingType ColorSpace Background BBox AntiAlias Function Domain Matrix Coords Extend",
    "BitsPerCoordinate BitsPerComponent BitsPerFlag Decode VerticesPerRow",
)
# Without transfer functions and halftones: those are the press's own.
GRAPHICS_STATE = _named("Type LW LC LJ ML D RI OP op OPM Font FL SM SA BM SMask CA ca AIS TK")
SOFT_MASK = _named("Type S G BC TR")
FONT = _named(
    "Type Subtype Name BaseFont FirstChar LastChar Widths FontDescriptor Encoding ToUnicode",
    "DescendantFonts CIDSystemInfo DW W DW2 W2 CIDToGIDMap FontBBox FontMatrix CharProcs Resources",
)
FONT_DESCRIPTOR = _named(
    "Type FontName FontFamily FontStretch FontWeight Flags FontBBox ItalicAngle Ascent Descent Leading",
    "CapHeight XHeight StemV StemH AvgWidth MaxWidth MissingWidth FontFile FontFile2 FontFile3 CharSet",
)
FONT_FILE = _named(_STREAM, "Length1 Length2 Length3 Subtype")
PROFILE = _named(_STREAM, "N Range")


def keep(thing: PdfObject, kept: frozenset[str]) -> None:
    """Take every other entry away from a dictionary or a stream."""
    if isinstance(thing, pikepdf.Dictionary | pikepdf.Stream):
        for name in set(thing.keys()) - kept:
            del thing[name]


_GREY_OPERATORS = {"k": pikepdf.Operator("g"), "K": pikepdf.Operator("G")}


def is_black_alone(inks: Sequence[PdfObject]) -> bool:
    """Whether a CMYK colour has no cyan, magenta or yellow in it."""
    return len(inks) == 4 and all(isinstance(ink, int | Decimal) for ink in inks) and not any(inks[:3])


def black_to_grey(stream: pikepdf.Stream) -> None:
    """Rewrite a drawing whose CMYK colours are all black alone."""
    instructions: list[PdfObject] = []
    for instruction in pikepdf.parse_content_stream(stream):
        grey = _GREY_OPERATORS.get(str(instruction.operator))
        if grey is None:
            instructions.append(instruction)
        else:
            black: PdfObject = instruction.operands[3]
            level = 1 - Decimal(black)
            instructions.append(pikepdf.ContentStreamInstruction([level], grey))
    stream.write(pikepdf.unparse_content_stream(instructions))
