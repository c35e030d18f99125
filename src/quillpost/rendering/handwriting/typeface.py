"""A font file read with HarfBuzz: cut to the letters that are wanted, and its glyphs as shapes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import uharfbuzz as hb

from quillpost.rendering.handwriting.outlines import Shape

UNITS_PER_EM = 1000

_SUBSET_FLAGS = hb.SubsetFlags.NO_HINTING | hb.SubsetFlags.NOTDEF_OUTLINE | hb.SubsetFlags.GLYPH_NAMES
_COPYRIGHT_AND_LICENSE_IDS = (0, 13, 14)
_UNUSED_TABLES = ("BASE", "STAT", "gasp", "vhea", "vmtx", "DSIG")


@dataclass(frozen=True, eq=False)
class Glyph:
    """One glyph in thousandths of an em."""

    name: str
    advance: int
    shape: Shape


@dataclass(frozen=True, eq=False)
class Typeface:
    """A static TrueType font and what is in it; a glyph's place in `glyphs` is its number."""

    data: bytes
    glyphs: list[Glyph]
    glyphs_by_char: dict[str, int]


def font_chars(font_bytes: bytes) -> frozenset[str]:
    """The characters that a font file maps to any glyph."""
    return frozenset(map(chr, hb.Face(font_bytes).unicodes))


def subset_font(font_bytes: bytes, chars: Iterable[str], features: Iterable[str], weight: int | None) -> Typeface:
    """The font with these letters, and all glyphs that the layout features can make of them."""
    face = hb.Face(font_bytes)
    subset = hb.SubsetInput()
    subset.flags = _SUBSET_FLAGS
    subset.unicode_set.update(set(face.unicodes) & set(map(ord, chars)))
    subset.name_id_set.clear()
    subset.name_id_set.update(_COPYRIGHT_AND_LICENSE_IDS)
    subset.layout_feature_tag_set.clear()
    subset.layout_feature_tag_set.update(map(_tag, features))
    subset.drop_table_tag_set.update(map(_tag, _UNUSED_TABLES))
    if weight is not None:
        subset.pin_axis_location(face, "wght", weight)
    if "kern" in face.table_tags:
        _keep_kern_table(subset)
    return _read_typeface(bytes(hb.subset(face, subset).blob.data))


def _keep_kern_table(subset: Any) -> None:
    """The kerning of older fonts is carried over as it is, so their glyphs must keep their numbers."""
    subset.drop_table_tag_set.discard(_tag("kern"))
    subset.no_subset_table_tag_set.add(_tag("kern"))
    subset.flags |= hb.SubsetFlags.RETAIN_GIDS


def _tag(name: str) -> int:
    return int.from_bytes(name.encode("ascii"), "big")


def _read_typeface(data: bytes) -> Typeface:
    face = hb.Face(data)
    font = hb.Font(face)
    font.scale = (UNITS_PER_EM, UNITS_PER_EM)
    recorder = _OutlineRecorder()
    names = _unique_glyph_names(font, face.glyph_count)
    glyphs = [
        Glyph(name, font.get_glyph_h_advance(number), recorder.draw(font, number)) for number, name in enumerate(names)
    ]
    glyphs_by_char = {chr(code): font.get_nominal_glyph(code) for code in sorted(face.unicodes)}
    return Typeface(data, glyphs, glyphs_by_char)


def _unique_glyph_names(font: Any, count: int) -> list[str]:
    """Every glyph's name, made unique where the font is careless."""
    seen: set[str] = set()
    names = []
    for number in range(count):
        name = font.glyph_to_string(number)
        names.append(f"{name}#{number}" if name in seen else name)
        seen.add(name)
    return names


class _OutlineRecorder:
    """Collects the contours that HarfBuzz draws."""

    def __init__(self) -> None:
        self._contours: list[list[tuple[float, ...]]] = []
        self._x = self._y = 0.0
        self._funcs = hb.DrawFuncs()
        setters: tuple[tuple[Callable[..., None], Callable[..., None]], ...] = (
            (self._funcs.set_move_to_func, self._move_to),
            (self._funcs.set_line_to_func, self._line_to),
            (self._funcs.set_quadratic_to_func, self._curve_to),
            (self._funcs.set_close_path_func, lambda _: None),
        )
        for set_func, func in setters:
            set_func(func)

    def draw(self, font: Any, number: int) -> Shape:
        self._contours = []
        font.draw_glyph(number, self._funcs, None)
        return [np.array(contour).reshape(-1, 3, 2) for contour in self._contours if contour]

    def _move_to(self, x: float, y: float, _: None) -> None:
        self._contours.append([])
        self._x, self._y = x, y

    def _line_to(self, x: float, y: float, _: None) -> None:
        if (x, y) != (self._x, self._y):
            self._curve_to((self._x + x) / 2, (self._y + y) / 2, x, y, None)

    def _curve_to(self, control_x: float, control_y: float, x: float, y: float, _: None) -> None:
        self._contours[-1].append((self._x, self._y, control_x, control_y, x, y))
        self._x, self._y = x, y
