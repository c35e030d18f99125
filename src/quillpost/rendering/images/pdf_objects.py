"""The entries of PDF objects that come into print, and black as one ink."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pikepdf

PdfObject = Any
"""pikepdf hands out numbers, truth values and nulls as Python's own, which its types do not say."""


def _entry_names(*names: str) -> frozenset[str]:
    return frozenset(f"/{name}" for line in names for name in line.split())


_STREAM_ENTRIES = "Length Filter DecodeParms"

FORM_ENTRIES = _entry_names(_STREAM_ENTRIES, "Type Subtype FormType BBox Matrix Resources Group")
GROUP_ENTRIES = _entry_names("Type S CS I K")
IMAGE_ENTRIES = _entry_names(
    _STREAM_ENTRIES,
    "Type Subtype Width Height ColorSpace BitsPerComponent Intent ImageMask Mask Decode Interpolate",
    "SMask SMaskInData Matte",
)
PATTERN_ENTRIES = _entry_names(
    _STREAM_ENTRIES, "Type PatternType PaintType TilingType BBox XStep YStep Resources Matrix Shading ExtGState"
)
SHADING_ENTRIES = _entry_names(
    _STREAM_ENTRIES,
    "ShadingType ColorSpace Background BBox AntiAlias Function Domain Matrix Coords Extend",
    "BitsPerCoordinate BitsPerComponent BitsPerFlag Decode VerticesPerRow",
)
# Without transfer functions and halftones: those are the press's own.
GRAPHICS_STATE_ENTRIES = _entry_names("Type LW LC LJ ML D RI OP op OPM Font FL SM SA BM SMask CA ca AIS TK")
SOFT_MASK_ENTRIES = _entry_names("Type S G BC TR")
FONT_ENTRIES = _entry_names(
    "Type Subtype Name BaseFont FirstChar LastChar Widths FontDescriptor Encoding ToUnicode",
    "DescendantFonts CIDSystemInfo DW W DW2 W2 CIDToGIDMap FontBBox FontMatrix CharProcs Resources",
)
FONT_DESCRIPTOR_ENTRIES = _entry_names(
    "Type FontName FontFamily FontStretch FontWeight Flags FontBBox ItalicAngle Ascent Descent Leading",
    "CapHeight XHeight StemV StemH AvgWidth MaxWidth MissingWidth FontFile FontFile2 FontFile3 CharSet",
)
FONT_FILE_ENTRIES = _entry_names(_STREAM_ENTRIES, "Length1 Length2 Length3 Subtype")
PROFILE_ENTRIES = _entry_names(_STREAM_ENTRIES, "N Range")


def keep_entries(pdf_object: PdfObject, kept_entries: frozenset[str]) -> None:
    """Take every other entry away from a dictionary or a stream."""
    if isinstance(pdf_object, pikepdf.Dictionary | pikepdf.Stream):
        for name in set(pdf_object.keys()) - kept_entries:
            del pdf_object[name]


_GRAY_OPERATORS = {"k": pikepdf.Operator("g"), "K": pikepdf.Operator("G")}


def is_black_only(inks: Sequence[PdfObject]) -> bool:
    """Whether a CMYK color has no cyan, magenta or yellow in it."""
    return len(inks) == 4 and all(isinstance(ink, int | Decimal) for ink in inks) and not any(inks[:3])


def black_to_gray(stream: pikepdf.Stream) -> None:
    """Rewrite a drawing whose CMYK colors are all black alone."""
    instructions: list[PdfObject] = []
    for instruction in pikepdf.parse_content_stream(stream):
        gray_operator = _GRAY_OPERATORS.get(str(instruction.operator))
        if gray_operator is None:
            instructions.append(instruction)
        else:
            black: PdfObject = instruction.operands[3]
            level = 1 - Decimal(black)
            instructions.append(pikepdf.ContentStreamInstruction([level], gray_operator))
    stream.write(pikepdf.unparse_content_stream(instructions))
