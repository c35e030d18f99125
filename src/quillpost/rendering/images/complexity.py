"""How much a page draws: everything as often as it is drawn, however few bytes say so.

A form that draws ten times a form that draws ten times another is a hundred drawings in two short lines.
What is counted is what it costs, roughly: one for each thing that is painted, more for what takes longer.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pikepdf

from quillpost.rendering.images.pdf_objects import PdfObject

Node = Hashable
Named = tuple[str, str]
"""A resource as its content calls it: by its category and its name."""

OPERATORS = "q Q g G rg RG f F f* B B* b b* S s Tj TJ ' \""
"""What is looked at, beside what names a resource."""

_SHOWING = frozenset({"Tj", "TJ", "'", '"'})
_PAINTING = _SHOWING | {"f", "F", "f*", "B", "B*", "b", "b*", "S", "s", "sh", "Do", "INLINE IMAGE"}
_FILLED = frozenset({"g", "rg", "k", "sc", "scn", "cs"})
_STROKED = frozenset({"G", "RG", "K", "SC", "SCN", "CS"})

# No reader goes further into drawings within drawings.
_DEEPEST_DRAWN = 40

# What costs as much as painting one small thing.
_BYTES = 100
_PIXELS = 1_000
_TILES = 1_000
_SHADING = 100
_MESH_BYTES = 20


class DrawnCount:
    """The parts of a page and how often each draws the others; the sum of it all, for any of them."""

    def __init__(self) -> None:
        self._parts: dict[Node, _Part] = {}
        self._totals: dict[tuple[Node, int], int] = {}

    def note(self, part: Node, own: int, uses: Mapping[Node, int], *, times: int = 1) -> None:
        """What a part paints by itself, and how often it draws others, `times` over."""
        self._parts[part] = _Part(own, uses, times)

    def note_letters(self, font: Node, letters: Sequence[Node]) -> None:
        """Any letter of such a font may be the one that draws most."""
        self._parts[font] = _Part(0, dict.fromkeys(letters, 1), 1, is_choice=True)

    def total(self, part: Node, level: int = 0) -> int:
        """A part inside itself is drawn until the reader tires of it."""
        known = self._parts.get(part)
        if known is None or level > _DEEPEST_DRAWN:
            return 0
        if (part, level) not in self._totals:
            found = [times * self.total(other, level + 1) for other, times in known.uses.items()]
            inner = max(found, default=0) if known.is_choice else sum(found)
            self._totals[part, level] = known.times * (known.own + inner)
        return self._totals[part, level]


@dataclass(frozen=True, slots=True)
class _Part:
    own: int
    uses: Mapping[Node, int]
    times: int
    is_choice: bool = False


@dataclass(frozen=True, slots=True)
class _State:
    """What everything is painted with until it changes: a font of small drawings, a mask, patterns."""

    font: Named | None = None
    mask: Named | None = None
    fill: Named | None = None
    stroke: Named | None = None


@dataclass
class Trace:
    """One content stream, followed instruction by instruction. `look_up` finds what a name stands for."""

    size: int
    look_up: Callable[[str, str], PdfObject]
    uses: Counter[Named] = field(default_factory=Counter)
    painted: int = 0
    _state: _State = _State()
    _saved: list[_State] = field(default_factory=list)

    @property
    def own(self) -> int:
        return self.painted + self.size // _BYTES

    def follow(self, operator: str, operands: Sequence[PdfObject], name: str | None) -> None:
        if operator == "q":
            self._saved.append(self._state)
        elif operator == "Q":
            self._state = self._saved.pop() if self._saved else self._state
        elif operator in _PAINTING:
            self._paint(operator, operands, name)
        elif operator == "Tf":
            is_drawn = name is not None and _subtype(self.look_up("/Font", name)) == "/Type3"
            self._state = replace(self._state, font=("/Font", name) if is_drawn and name else None)
        elif operator == "gs":
            self._set_mask(name)
        elif operator in _FILLED:
            self._state = replace(self._state, fill=_pattern(operator, name))
        elif operator in _STROKED:
            self._state = replace(self._state, stroke=_pattern(operator, name))

    def _paint(self, operator: str, operands: Sequence[PdfObject], name: str | None) -> None:
        self.painted += 1
        state = self._state
        for used in (state.mask, state.fill, state.stroke):
            if used is not None:
                self.uses[used] += 1
        if operator == "Do" and name is not None:
            self.uses["/XObject", name] += 1
        elif operator == "sh" and name is not None:
            self.uses["/Shading", name] += 1
        elif operator in _SHOWING and state.font is not None:
            self.uses[state.font] += _letters(operands)

    def _set_mask(self, name: str | None) -> None:
        found = self.look_up("/ExtGState", name) if name else None
        mask = found.get("/SMask") if isinstance(found, pikepdf.Dictionary) else None
        if isinstance(mask, pikepdf.Dictionary) and name:
            self._state = replace(self._state, mask=("/ExtGState", name))
        elif mask is not None:
            self._state = replace(self._state, mask=None)


def cost_of_pixels(width: int, height: int) -> int:
    return width * height // _PIXELS


def cost_of_shading(shading: PdfObject) -> int:
    size = shading.get("/Length") if isinstance(shading, pikepdf.Stream) else 0
    return _SHADING + (size if isinstance(size, int) else 0) // _MESH_BYTES


def tiles_of(pattern: PdfObject, width: float, height: float) -> tuple[int, int]:
    """What it costs to lay a tiling pattern over such a page, and how often its cell is drawn for that: once,
    unless the cells overlap."""
    try:
        across, up = abs(float(pattern["/XStep"])), abs(float(pattern["/YStep"]))
        left, bottom, right, top = map(float, pattern["/BBox"])
        a, b, c, d = map(float, list(pattern.get("/Matrix", (1, 0, 0, 1, 0, 0)))[:4])
    except (KeyError, TypeError, ValueError):
        return 0, 1
    columns = _steps(width, across * math.hypot(a, b))
    rows = _steps(height, up * math.hypot(c, d))
    overlapping = _steps(abs(right - left), across) * _steps(abs(top - bottom), up)
    return columns * rows // _TILES, min(overlapping, columns * rows)


def _steps(length: float, step: float) -> int:
    """How many steps it takes; very many where there is no step at all."""
    if not (math.isfinite(length) and math.isfinite(step)):
        return 1
    return max(1, math.ceil(min(length / max(step, 1e-9), 1e9)))


def _pattern(operator: str, name: str | None) -> Named | None:
    return ("/Pattern", name) if operator in ("scn", "SCN") and name is not None else None


def _subtype(font: PdfObject) -> PdfObject:
    return font.get("/Subtype") if isinstance(font, pikepdf.Dictionary) else None


def _letters(operands: Iterable[PdfObject]) -> int:
    """The bytes of all strings: a font of drawings has a letter for each."""
    found = 0
    for operand in operands:
        if isinstance(operand, pikepdf.String):
            found += len(bytes(operand))
        elif isinstance(operand, pikepdf.Array):
            found += _letters(operand)
    return found
