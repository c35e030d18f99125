"""A font file read with HarfBuzz: cut to the letters that are wanted, and its glyphs as shapes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import uharfbuzz as hb

from quillpost.rendering.handwriting.outlines import Shape

UNITS = 1000

_FLAGS = hb.SubsetFlags.NO_HINTING | hb.SubsetFlags.NOTDEF_OUTLINE | hb.SubsetFlags.GLYPH_NAMES
_COPYRIGHT_AND_LICENCE = (0, 13, 14)
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
    letters: dict[str, int]


def letters_of(raw: bytes) -> frozenset[str]:
    """The characters that a font file maps to any glyph."""
    return frozenset(map(chr, hb.Face(raw).unicodes))


def cut(raw: bytes, letters: Iterable[str], features: Iterable[str], weight: int | None) -> Typeface:
    """The font with these letters, and all glyphs that the layout features can make of them."""
    face = hb.Face(raw)
    wanted = hb.SubsetInput()
    wanted.flags = _FLAGS
    wanted.unicode_set.update(set(face.unicodes) & set(map(ord, letters)))
    wanted.name_id_set.clear()
    wanted.name_id_set.update(_COPYRIGHT_AND_LICENCE)
    wanted.layout_feature_tag_set.clear()
    wanted.layout_feature_tag_set.update(map(_tag, features))
    wanted.drop_table_tag_set.update(map(_tag, _UNUSED_TABLES))
    if weight is not None:
        wanted.pin_axis_location(face, "wght", weight)
    if "kern" in face.table_tags:
        _keep_kern_table(wanted)
    return _read(bytes(hb.subset(face, wanted).blob.data))


def _keep_kern_table(wanted: Any) -> None:
    """The kerning of older fonts is carried over as it is, so their glyphs must keep their numbers."""
    wanted.drop_table_tag_set.discard(_tag("kern"))
    wanted.no_subset_table_tag_set.add(_tag("kern"))
    wanted.flags |= hb.SubsetFlags.RETAIN_GIDS


def _tag(name: str) -> int:
    return int.from_bytes(name.encode("ascii"), "big")


def _read(data: bytes) -> Typeface:
    face = hb.Face(data)
    font = hb.Font(face)
    font.scale = (UNITS, UNITS)
    sketch = _Sketch()
    names = _names_of(font, face.glyph_count)
    glyphs = [
        Glyph(name, font.get_glyph_h_advance(number), sketch.draw(font, number))
        for number, name in enumerate(names)
    ]
    letters = {chr(code): font.get_nominal_glyph(code) for code in sorted(face.unicodes)}
    return Typeface(data, glyphs, letters)


def _names_of(font: Any, count: int) -> list[str]:
    """Every glyph's name, made unique where the font is careless."""
    seen: set[str] = set()
    names = []
    for number in range(count):
        name = font.glyph_to_string(number)
        names.append(f"{name}#{number}" if name in seen else name)
        seen.add(name)
    return names


class _Sketch:
    """Collects the contours that HarfBuzz draws."""

    def __init__(self) -> None:
        self._contours: list[list[tuple[float, ...]]] = []
        self._x = self._y = 0.0
        self._funcs = hb.DrawFuncs()
        setters: tuple[tuple[Callable[..., None], Callable[..., None]], ...] = (
            (self._funcs.set_move_to_func, self._move),
            (self._funcs.set_line_to_func, self._line),
            (self._funcs.set_quadratic_to_func, self._curve),
            (self._funcs.set_close_path_func, lambda _: None),
        )
        for set_func, func in setters:
            set_func(func)

    def draw(self, font: Any, number: int) -> Shape:
        self._contours = []
        font.draw_glyph(number, self._funcs, None)
        return [np.array(contour).reshape(-1, 3, 2) for contour in self._contours if contour]

    def _move(self, x: float, y: float, _: None) -> None:
        self._contours.append([])
        self._x, self._y = x, y

    def _line(self, x: float, y: float, _: None) -> None:
        if (x, y) != (self._x, self._y):
            self._curve((self._x + x) / 2, (self._y + y) / 2, x, y, None)

    def _curve(self, control_x: float, control_y: float, x: float, y: float, _: None) -> None:
        self._contours[-1].append((self._x, self._y, control_x, control_y, x, y))
        self._x, self._y = x, y
