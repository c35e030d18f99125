"""Composed pages read back from the file alone: every letter shown, with its shape, its ink and its place.

Nothing of what composed the page is used: letters come from the fonts' own Unicode maps, measures from
their width tables, ink from the outlines that are embedded.
"""

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import pikepdf
from fontTools.pens.boundsPen import BoundsPen
from fontTools.ttLib import TTFont
from fontTools.ttLib.tables._g_l_y_f import Glyph as TrueTypeGlyph

from quillpost.rendering.models import Box

Matrix = tuple[float, float, float, float, float, float]
Colour = tuple[float, ...]
Edges = tuple[float, float, float, float]

_UNIT: Matrix = (1, 0, 0, 1, 0, 0)
_LEFT_ALONE = ("BI", "Do", "ET", "G", "RG", "w", "J", "re", "m", "l", "c", "h", "f", "S", "B", "n", "W", "W*")
_SETTINGS = {"Ts": "rise", "Tc": "spacing", "TL": "leading"}
_PALE_FONT = "/F1p"
_MAPPING = re.compile(rb"<([0-9A-F]{4})><([0-9A-Fa-f]*)>")


@dataclass(frozen=True, slots=True)
class Glyph:
    """One glyph on a page. Points, from the lower left of the trim; a blank glyph has no ink."""

    font: str
    number: int
    text: str
    left: float
    baseline: float
    size: float
    lean: float
    ink: Box | None
    colour: Colour


class Pages:
    """The pages of one file, from 0."""

    def __init__(self, pdf: bytes) -> None:
        self.document = pikepdf.open(io.BytesIO(pdf))
        self._fonts: dict[tuple[int, int], _Font] = {}

    def __len__(self) -> int:
        return len(self.document.pages)

    def glyphs(self, page: int, font: str | None = None) -> list[Glyph]:
        """All glyphs of a page in the order in which they are drawn, or those of one font.

        The paler ink of handwriting reads as spaces: only who names its font gets those.
        """
        found = _Walk(self.document.pages[page], self._font).glyphs()
        if font is None:
            return [glyph for glyph in found if not glyph.font.startswith(_PALE_FONT)]
        return [glyph for glyph in found if glyph.font == font]

    def written(self, page: int, ink: Colour) -> list[Glyph]:
        """Visible letters in that ink, or a shade of it: the hand's own, and what it borrows."""
        return [glyph for glyph in self.glyphs(page) if not glyph.text.isspace() and _is_shade(glyph.colour, ink)]

    def text(self, page: int, ink: Colour) -> str:
        """What is written in that ink, in the order in which it is written, with single spaces."""
        letters = [glyph.text for glyph in self.glyphs(page) if _is_shade(glyph.colour, ink)]
        return " ".join("".join(letters).split())

    def drawn(self, page: int, *, streams: slice = slice(None)) -> Iterator[str | bytes]:
        """All operators of a page, or of some of its streams, with each glyph as its outline.

        The same whatever else is in the file: a font of written words numbers them as they come.
        """
        fonts: Any = self.document.pages[page].obj.Resources.Font
        font = None
        for stream in list(self.document.pages[page].obj.Contents)[streams]:
            for instruction in pikepdf.parse_content_stream(stream):
                if isinstance(instruction, pikepdf.ContentStreamInlineImage):
                    yield pikepdf.unparse_content_stream([instruction])
                    continue
                operands = list[Any](instruction.operands)
                if str(instruction.operator) == "Tf":
                    font = self._font(fonts[operands[0]])
                for operand in operands[0] if str(instruction.operator) == "TJ" else operands:
                    if isinstance(operand, pikepdf.String) and font:
                        yield from map(font.outline, font.codes(bytes(operand)))
                    else:
                        yield str(operand)
                yield str(instruction.operator)

    def streams(self, page: int) -> list[bytes]:
        contents = self.document.pages[page].obj.Contents
        return [bytes(stream.read_bytes()) for stream in contents]

    def _font(self, resource: Any) -> "_Font":
        if resource.objgen not in self._fonts:
            self._fonts[resource.objgen] = _Font(resource)
        return self._fonts[resource.objgen]


class _Font:
    def __init__(self, resource: Any) -> None:
        self.is_composite = resource.Subtype == "/Type0"
        self._resource = resource
        self._inner = resource.DescendantFonts[0] if self.is_composite else resource

    @cached_property
    def texts(self) -> dict[int, str]:
        if not self.is_composite:
            return {}
        rows = _MAPPING.findall(self._resource.ToUnicode.read_bytes())
        return {int(code, 16): bytes.fromhex(text.decode()).decode("utf-16-be") for code, text in rows}

    @cached_property
    def widths(self) -> dict[int, float]:
        if not self.is_composite:
            first = int(self._inner.FirstChar)
            return {first + place: float(width) for place, width in enumerate(self._inner.Widths)}
        runs = list(self._inner.W)
        return {
            int(first) + place: float(width)
            for first, run in zip(runs[::2], runs[1::2], strict=True)
            for place, width in enumerate(run)
        }

    @cached_property
    def _outlines(self) -> tuple[list[int], bytes]:
        font = TTFont(io.BytesIO(self._inner.FontDescriptor.FontFile2.read_bytes()), lazy=True)
        assert font["head"].unitsPerEm == 1000
        return list(font["loca"]), font.getTableData("glyf")

    def outline(self, number: int) -> bytes:
        """As it is embedded; of the font of bars only the code."""
        if not self.is_composite:
            return bytes([number])
        offsets, glyphs = self._outlines
        start, stop = offsets[number : number + 2]
        return glyphs[start:stop]

    def edges(self, number: int) -> Edges | None:
        """The embedded outline's left, bottom, right and top; None where it draws nothing."""
        return _edges_of(self.outline(number))

    def codes(self, string: bytes) -> Iterator[int]:
        return _pairs(string) if self.is_composite else iter(string)


@lru_cache(maxsize=10_000)
def _edges_of(outline: bytes) -> Edges | None:
    """Of the ink: the box that the outline itself names is around the points that bend it, too."""
    pen = BoundsPen(None)
    TrueTypeGlyph(outline).draw(pen, None)
    bounds: Edges | None = pen.bounds
    return bounds


@dataclass(frozen=True)
class _State:
    matrix: Matrix = _UNIT
    colour: Colour = (0.0,)
    font: str = ""
    size: float = 0.0
    rise: float = 0.0
    spacing: float = 0.0
    leading: float = 0.0


@dataclass
class _Walk:
    """One page's operators, followed as a reader of PDF follows them."""

    page: pikepdf.Page
    find_font: Any
    state: _State = field(default_factory=_State)
    kept: list[_State] = field(default_factory=list)
    line: Matrix = _UNIT
    text: Matrix = _UNIT

    def glyphs(self) -> Iterator[Glyph]:
        left, bottom, *_ = (float(edge) for edge in self.page.trimbox)
        self.state = _State((1, 0, 0, 1, -left, -bottom))
        fonts: Any = self.page.obj.Resources.Font
        self.fonts = {name: self.find_font(font) for name, font in fonts.items()}
        for instruction in pikepdf.parse_content_stream(self.page):
            if isinstance(instruction, pikepdf.ContentStreamInstruction):
                yield from self._follow(str(instruction.operator), list(instruction.operands))

    def _follow(self, operator: str, operands: list[Any]) -> Iterator[Glyph]:
        match operator:
            case "q":
                self.kept.append(self.state)
            case "Q":
                self.state = self.kept.pop()
            case "cm":
                self.state = replace(self.state, matrix=_times(_matrix(operands), self.state.matrix))
            case "g" | "rg":
                self.state = replace(self.state, colour=tuple(float(channel) for channel in operands))
            case "BT":
                self.line = self.text = _UNIT
            case "Tf":
                self.state = replace(self.state, font=str(operands[0]), size=float(operands[1]))
            case "Ts" | "Tc" | "TL":
                setting: dict[str, Any] = {_SETTINGS[operator]: float(operands[0])}
                self.state = replace(self.state, **setting)
            case "Tm":
                self.line = self.text = _matrix(operands)
            case "Td":
                self._next_line(float(operands[0]), float(operands[1]))
            case "'":
                self._next_line(0, -self.state.leading)
                yield from self._show(bytes(operands[0]))
            case "Tj":
                yield from self._show(bytes(operands[0]))
            case "TJ":
                for part in operands[0]:
                    if isinstance(part, pikepdf.String):
                        yield from self._show(bytes(part))
                    else:
                        self._advance(-float(part) / 1000 * self.state.size)
            case unknown:
                assert unknown in (*_LEFT_ALONE, "INLINE IMAGE"), (
                    f"The pages have an operator that is not read back: {unknown}."
                )

    def _next_line(self, across: float, up: float) -> None:
        self.line = self.text = _times((1, 0, 0, 1, across, up), self.line)

    def _advance(self, by: float) -> None:
        self.text = _times((1, 0, 0, 1, by, 0), self.text)

    def _show(self, string: bytes) -> Iterator[Glyph]:
        state, font = self.state, self.fonts[self.state.font]
        for number in font.codes(string):
            whole = _times(_times((state.size, 0, 0, state.size, 0, state.rise), self.text), state.matrix)
            text, ink = chr(number), None
            if font.is_composite:
                text, ink = font.texts[number], _placed(font.edges(number), whole)
            size, slope, _, _, left, baseline = whole
            yield Glyph(state.font, number, text, left, baseline, size, slope / size, ink, state.colour)
            self._advance(font.widths.get(number, 0.0) / 1000 * state.size + state.spacing)


def _is_shade(colour: Colour, ink: Colour) -> bool:
    return len(colour) == len(ink) and all(abs(a - b) < 0.05 for a, b in zip(colour, ink, strict=True))


def _pairs(string: bytes) -> Iterator[int]:
    return (code for (code,) in struct.iter_unpack(">H", string))


def _matrix(operands: list[Any]) -> Matrix:
    a, b, c, d, e, f = (float(operand) for operand in operands)
    return a, b, c, d, e, f


def _times(first: Matrix, then: Matrix) -> Matrix:
    a, b, c, d, e, f = first
    k, m, n, p, q, r = then
    return a * k + b * n, a * m + b * p, c * k + d * n, c * m + d * p, e * k + f * n + q, e * m + f * p + r


def _placed(edges: Edges | None, matrix: Matrix) -> Box | None:
    """The upright box around the ink's own box, wherever the matrix turns it."""
    if edges is None:
        return None
    left, bottom, right, top = (edge / 1000 for edge in edges)
    a, b, c, d, e, f = matrix
    corners = [(x, y) for x in (left, right) for y in (bottom, top)]
    across = [a * x + c * y + e for x, y in corners]
    up = [b * x + d * y + f for x, y in corners]
    return Box(min(across), min(up), max(across) - min(across), max(up) - min(up))
