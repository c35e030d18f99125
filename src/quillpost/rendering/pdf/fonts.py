"""Embedded fonts: the glyphs used, and the font of barcode bars."""

import hashlib
import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from fontTools import agl
from fontTools.ttLib import TTFont

from quillpost.rendering.handwriting.fonts import subset_outlines
from quillpost.rendering.handwriting.models import PreparedFace
from quillpost.rendering.handwriting.word_fonts import WordFont
from quillpost.rendering.models import BAR_HEIGHT, BAR_PITCH, BAR_WIDTH
from quillpost.rendering.pdf.files import PdfFile, deflate

_SINGLE_LOOKUP, _ALTERNATE_LOOKUP, _LIGATURE_LOOKUP, _EXTENSION_LOOKUP, _REVERSE_LOOKUP = 1, 3, 4, 7, 8


@lru_cache(maxsize=64)
def base_glyph_texts(prepared: PreparedFace) -> dict[int, str]:
    """The letter of each base glyph; of several letters with one shape, the first code point."""
    texts: dict[int, str] = {}
    for char in sorted(prepared.letters):
        texts.setdefault(prepared.letters[char], char)
    return texts


@lru_cache(maxsize=32)
def shaped_glyph_texts(prepared: PreparedFace) -> dict[int, str]:
    """The same, and what shaping makes of letters: a ligature reads as the letters it joins."""
    font = TTFont(io.BytesIO(prepared.source), lazy=True)
    texts_by_name = {
        font.getGlyphName(prepared.source_numbers[b]): text for b, text in base_glyph_texts(prepared).items()
    }
    rules = list(_substitution_rules(font)) if "GSUB" in font else []
    has_grown = True
    while has_grown:
        previous_count = len(texts_by_name)
        for result, parts in rules:
            if result not in texts_by_name and all(part in texts_by_name for part in parts):
                texts_by_name[result] = "".join(texts_by_name[part] for part in parts)
        has_grown = len(texts_by_name) > previous_count
    names = map(font.getGlyphName, prepared.source_numbers)
    # Marks that only ever come with a letter have no code, but they have telling names.
    texts = (texts_by_name.get(name) or agl.toUnicode(name) for name in names)
    return {base: text for base, text in enumerate(texts) if text}


def _substitution_rules(font: TTFont) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every substitution as its result and what it replaces, in any context."""
    lookups = font["GSUB"].table.LookupList
    for lookup in lookups.Lookup if lookups else ():
        for table in lookup.SubTable:
            if lookup.LookupType == _EXTENSION_LOOKUP:
                yield from _substitutions(table.ExtensionLookupType, table.ExtSubTable)
            else:
                yield from _substitutions(lookup.LookupType, table)


def _substitutions(kind: int, table: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    if kind == _SINGLE_LOOKUP:
        for replaced, result in table.mapping.items():
            yield result, (replaced,)
    elif kind == _ALTERNATE_LOOKUP:
        for replaced, results in table.alternates.items():
            for result in results:
                yield result, (replaced,)
    elif kind == _LIGATURE_LOOKUP:
        for first, ligatures in table.ligatures.items():
            for ligature in ligatures:
                yield ligature.LigGlyph, (first, *ligature.Component)
    elif kind == _REVERSE_LOOKUP:
        for replaced, result in zip(table.Coverage.glyphs, table.Substitute, strict=True):
            yield result, (replaced,)


_MAPPINGS_PER_BLOCK = 100

_CMAP_HEAD = (
    b"/CIDInit/ProcSet findresource begin 12 dict begin begincmap"
    b"/CMapName/Quillpost def/CMapType 2 def"
    b" 1 begincodespacerange<0000><FFFF>endcodespacerange\n"
)
_CMAP_TAIL = b"endcmap CMapName currentdict/CMap defineresource pop end end"


def embed_font(
    pdf: PdfFile,
    prepared: PreparedFace,
    used_glyphs: Collection[int] | None = None,
    *,
    number: int | None = None,
    is_temporary: bool = False,
) -> int:
    """The number of a font object; codes are glyph numbers of the face's `program`.

    Only `used_glyphs` are kept; None keeps all. They are known when all pages are, so `number` may be reserved before.
    A temporary file is drawn at once: nothing is made small, and nothing can be read back.
    """
    numbers = sorted(used_glyphs) if used_glyphs is not None else range(1, len(prepared.advances) + 1)
    widths = {glyph: prepared.advances[glyph - 1] for glyph in numbers if glyph}
    program = subset_outlines(prepared.program, numbers)
    texts = None if is_temporary else _glyph_texts(prepared, numbers)
    metrics = _FontMetrics(*_face_metrics(prepared))
    return _embed_program(pdf, prepared.name.encode(), program, widths, metrics, texts, number)


def embed_word_font(pdf: PdfFile, name: str, font: WordFont, *, is_temporary: bool = False) -> int:
    """The number of a font object in which each glyph is a word."""
    metrics = _FontMetrics(font.box, font.box[3])
    texts = None if is_temporary else font.texts
    # A sender calls an own hand what they like.
    plain_name = "".join(char for char in name if char.isascii() and char.isalnum()) or "Hand"
    return _embed_program(pdf, plain_name.encode(), font.program, font.advances, metrics, texts)


@dataclass(frozen=True, slots=True)
class _FontMetrics:
    box: tuple[int, int, int, int]
    cap_height: int


def _embed_program(
    pdf: PdfFile,
    name: bytes,
    program: bytes,
    widths: Mapping[int, int],
    metrics: _FontMetrics,
    texts: Mapping[int, str] | None,
    number: int | None = None,
) -> int:
    length = b"/Length1 %d" % len(program)
    if texts is None:
        file, to_unicode = pdf.add_stream(program, length, is_final=True), b""
    else:
        name = subset_tag(program) + b"+" + name
        file = pdf.add_stream(program, length)
        to_unicode = b"/ToUnicode %d 0 R" % pdf.add_stream(make_unicode_map(texts))
    number = pdf.reserve() if number is None else number
    box, cap_height = metrics.box, metrics.cap_height
    descriptor = pdf.add(
        b"<</Type/FontDescriptor/FontName/%b/Flags 4/FontBBox[%d %d %d %d]/ItalicAngle 0"
        b"/Ascent %d/Descent %d/CapHeight %d/StemV 60/FontFile2 %d 0 R>>"
        % (name, *box, box[3], box[1], cap_height, file)
    )
    descendant = pdf.add(
        b"<</Type/Font/Subtype/CIDFontType2/BaseFont/%b"
        b"/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"
        b"/FontDescriptor %d 0 R/DW 0/W[%b]/CIDToGIDMap/Identity>>" % (name, descriptor, _width_array(widths))
    )
    entries = b"/BaseFont/%b/Encoding/Identity-H/DescendantFonts[%d 0 R]%b" % (name, descendant, to_unicode)
    return pdf.put(number, b"<</Type/Font/Subtype/Type0%b>>" % entries)


def subset_tag(program: bytes) -> bytes:
    """Six capitals that identify this subset of a face."""
    digest = hashlib.sha256(program).digest()
    return bytes(ord("A") + byte % 26 for byte in digest[:6])


def make_unicode_map(texts: Mapping[int, str]) -> bytes:
    """A ToUnicode map of two-byte codes."""
    rows = [b"<%04X><%b>" % (code, text.encode("utf-16-be").hex().encode()) for code, text in sorted(texts.items())]
    blocks = [rows[at : at + _MAPPINGS_PER_BLOCK] for at in range(0, len(rows), _MAPPINGS_PER_BLOCK)]
    body = b"".join([b"%d beginbfchar\n%b\nendbfchar\n" % (len(block), b"\n".join(block)) for block in blocks])
    return _CMAP_HEAD + body + _CMAP_TAIL


def _glyph_texts(prepared: PreparedFace, numbers: Iterable[int]) -> dict[int, str]:
    """Substitutions are read only where needed."""
    bases = {glyph: glyph - 1 for glyph in numbers if glyph}
    base_texts = base_glyph_texts(prepared)
    if not base_texts.keys() >= set(bases.values()):
        base_texts = shaped_glyph_texts(prepared)
    return {glyph: base_texts[base] for glyph, base in bases.items() if base in base_texts}


def _width_array(widths: Mapping[int, int]) -> bytes:
    """Runs of consecutive numbers share one list."""
    parts: list[bytes] = []
    previous_number = -2  # even glyph 0 begins a list
    for number, width in sorted(widths.items()):
        if number != previous_number + 1:
            parts.append(b"%b%d[" % (b"]" if parts else b"", number))
        else:
            parts.append(b" ")
        parts.append(b"%d" % width)
        previous_number = number
    return b"".join(parts) + (b"]" if parts else b"")


@lru_cache(maxsize=64)
def _face_metrics(prepared: PreparedFace) -> tuple[tuple[int, int, int, int], int]:
    """The box that holds all ink, and the height of the capitals."""
    lefts, bottoms, rights, tops = zip(*prepared.boxes, strict=True)
    return (min(lefts), min(bottoms), max(rights), max(tops)), prepared.cap_height


# At this size a bar has the width, height and pitch that it should; the base line is the bars' foot.
BARCODE_PITCH_UNITS = 300
BARCODE_FONT_SIZE = BAR_PITCH * 1000 / BARCODE_PITCH_UNITS

_BAR_WIDTH_UNITS = round(BAR_WIDTH / BARCODE_FONT_SIZE * 1000)
_BAR_HEIGHT_UNITS = round(BAR_HEIGHT / BARCODE_FONT_SIZE * 1000)
_FIRST_CODE, _LAST_CODE = ord("A"), ord("T")
_NON_SYMBOLIC_FLAG = 32
_FONT_PROGRAM = files(__package__).joinpath("bars.ttf").read_bytes()  # glyphs A, D, F and T, in these units
_COMPRESSED_PROGRAM = deflate(_FONT_PROGRAM)


def embed_barcode_font(pdf: PdfFile) -> int:
    name, width, height = subset_tag(_FONT_PROGRAM) + b"+QuillpostBars", _BAR_WIDTH_UNITS, _BAR_HEIGHT_UNITS
    file = pdf.add_stream(_COMPRESSED_PROGRAM, b"/Length1 %d/Filter/FlateDecode" % len(_FONT_PROGRAM), is_final=True)
    descriptor = pdf.add(
        b"<</Type/FontDescriptor/FontName/%b/Flags %d/FontBBox[0 0 %d %d]/ItalicAngle 0"
        b"/Ascent %d/Descent 0/CapHeight %d/StemV %d/FontFile2 %d 0 R>>"
        % (name, _NON_SYMBOLIC_FLAG, width, height, height, height, width, file)
    )
    widths = b" ".join(
        b"%d" % (BARCODE_PITCH_UNITS if chr(code) in "ADFT" else 0) for code in range(_FIRST_CODE, _LAST_CODE + 1)
    )
    return pdf.add(
        b"<</Type/Font/Subtype/TrueType/BaseFont/%b/Encoding/WinAnsiEncoding"
        b"/FirstChar %d/LastChar %d/Widths[%b]/FontDescriptor %d 0 R>>"
        % (name, _FIRST_CODE, _LAST_CODE, widths, descriptor)
    )
