"""What it costs to draw a page: everything counted as often as it is drawn, however few bytes say so."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pikepdf

from quillpost.rendering.images.objects import Node, PdfObject

ResourceName = tuple[str, str]  # a resource as its content calls it: by its category and its name

COUNTED_OPERATORS = "q Q g G rg RG f F f* B B* b b* S s Tj TJ ' \""  # what is looked at, beside what names a resource
_TEXT_OPERATORS = frozenset({"Tj", "TJ", "'", '"'})
_PAINTING_OPERATORS = _TEXT_OPERATORS | {"f", "F", "f*", "B", "B*", "b", "b*", "S", "s", "sh", "Do", "INLINE IMAGE"}
_FILL_COLOR_OPERATORS = frozenset({"g", "rg", "k", "sc", "scn", "cs"})
_STROKE_COLOR_OPERATORS = frozenset({"G", "RG", "K", "SC", "SCN", "CS"})
_MAX_DRAWING_DEPTH = 40  # no reader goes further into drawings within drawings

# What costs as much as painting one small thing.
_BYTES_PER_COST = 100
_PIXELS_PER_COST = 1_000
_TILES_PER_COST = 1_000
_SHADING_COST = 100
_MESH_BYTES_PER_COST = 20


class DrawingCost:
    """The parts of a page, how often each draws the others, and the total of any of them."""

    def __init__(self) -> None:
        self._nodes: dict[Node, _CostNode] = {}
        self._totals: dict[tuple[Node, int], int] = {}

    def record(self, part: Node, own_cost: int, uses: Mapping[Node, int], *, repeats: int = 1) -> None:
        """What a part paints by itself, and how often it draws others, `repeats` over."""
        self._nodes[part] = _CostNode(own_cost, uses, repeats)

    def record_font_glyphs(self, font: Node, glyphs: Sequence[Node]) -> None:
        """Any glyph of the font may be the one that draws most."""
        self._nodes[font] = _CostNode(0, dict.fromkeys(glyphs, 1), 1, is_choice=True)

    def total_cost(self, part: Node, level: int = 0) -> int:
        """A part inside itself counts down to the deepest level that readers draw."""
        cost_node = self._nodes.get(part)
        if cost_node is None or level > _MAX_DRAWING_DEPTH:
            return 0
        if (part, level) not in self._totals:
            used_costs = [times * self.total_cost(other, level + 1) for other, times in cost_node.uses.items()]
            inner_cost = max(used_costs, default=0) if cost_node.is_choice else sum(used_costs)
            self._totals[part, level] = cost_node.repeats * (cost_node.own_cost + inner_cost)
        return self._totals[part, level]


@dataclass(frozen=True, slots=True)
class _CostNode:
    own_cost: int
    uses: Mapping[Node, int]
    repeats: int
    is_choice: bool = False


@dataclass(frozen=True, slots=True)
class _GraphicsState:
    """What everything is painted with until it changes: a Type 3 font, a mask, patterns."""

    font: ResourceName | None = None
    mask: ResourceName | None = None
    fill: ResourceName | None = None
    stroke: ResourceName | None = None


@dataclass
class ContentTrace:
    """One content stream, followed instruction by instruction."""

    size: int
    find_resource: Callable[[str, str], PdfObject]
    uses: Counter[ResourceName] = field(default_factory=Counter)
    painted_count: int = 0
    _state: _GraphicsState = _GraphicsState()
    _saved_states: list[_GraphicsState] = field(default_factory=list)

    @property
    def own_cost(self) -> int:
        return self.painted_count + self.size // _BYTES_PER_COST

    def follow(self, operator: str, operands: Sequence[PdfObject], name: str | None) -> None:
        if operator == "q":
            self._saved_states.append(self._state)
        elif operator == "Q":
            self._state = self._saved_states.pop() if self._saved_states else self._state
        elif operator in _PAINTING_OPERATORS:
            self._paint(operator, operands, name)
        elif operator == "Tf":
            font = self.find_resource("/Font", name) if name is not None else None
            is_drawn = isinstance(font, pikepdf.Dictionary) and font.get("/Subtype") == "/Type3"
            self._state = replace(self._state, font=("/Font", name) if is_drawn and name else None)
        elif operator == "gs":
            self._set_mask(name)
        elif operator in _FILL_COLOR_OPERATORS:
            self._state = replace(self._state, fill=_pattern_resource(operator, name))
        elif operator in _STROKE_COLOR_OPERATORS:
            self._state = replace(self._state, stroke=_pattern_resource(operator, name))

    def _paint(self, operator: str, operands: Sequence[PdfObject], name: str | None) -> None:
        self.painted_count += 1
        state = self._state
        for resource in (state.mask, state.fill, state.stroke):
            if resource is not None:
                self.uses[resource] += 1
        if operator == "Do" and name is not None:
            self.uses["/XObject", name] += 1
        elif operator == "sh" and name is not None:
            self.uses["/Shading", name] += 1
        elif operator in _TEXT_OPERATORS and state.font is not None:
            self.uses[state.font] += _count_chars(operands)

    def _set_mask(self, name: str | None) -> None:
        state_dictionary = self.find_resource("/ExtGState", name) if name else None
        mask = state_dictionary.get("/SMask") if isinstance(state_dictionary, pikepdf.Dictionary) else None
        if isinstance(mask, pikepdf.Dictionary) and name:
            self._state = replace(self._state, mask=("/ExtGState", name))
        elif mask is not None:
            self._state = replace(self._state, mask=None)


def pixel_cost(width: int, height: int) -> int:
    return width * height // _PIXELS_PER_COST


def shading_cost(shading: PdfObject) -> int:
    size = shading.get("/Length") if isinstance(shading, pikepdf.Stream) else 0
    return _SHADING_COST + (size if isinstance(size, int) else 0) // _MESH_BYTES_PER_COST


def tiling_cost(pattern: PdfObject, width: float, height: float) -> tuple[int, int]:
    """The cost of covering a page with the pattern, and how often its cell is drawn: once unless cells overlap."""
    try:
        across, up = abs(float(pattern["/XStep"])), abs(float(pattern["/YStep"]))
        left, bottom, right, top = map(float, pattern["/BBox"])
        a, b, c, d = map(float, list(pattern.get("/Matrix", (1, 0, 0, 1, 0, 0)))[:4])
    except (KeyError, TypeError, ValueError):
        return 0, 1
    columns = _count_steps(width, across * math.hypot(a, b))
    rows = _count_steps(height, up * math.hypot(c, d))
    overlapping = _count_steps(abs(right - left), across) * _count_steps(abs(top - bottom), up)
    return columns * rows // _TILES_PER_COST, min(overlapping, columns * rows)


def _count_steps(length: float, step: float) -> int:
    """Very many where there is no step."""
    if not (math.isfinite(length) and math.isfinite(step)):
        return 1
    return max(1, math.ceil(min(length / max(step, 1e-9), 1e9)))


def _pattern_resource(operator: str, name: str | None) -> ResourceName | None:
    return ("/Pattern", name) if operator in ("scn", "SCN") and name is not None else None


def _count_chars(operands: Iterable[PdfObject]) -> int:
    """Each byte of a string is a glyph."""
    total = 0
    for operand in operands:
        if isinstance(operand, pikepdf.String):
            total += len(bytes(operand))
        elif isinstance(operand, pikepdf.Array):
            total += _count_chars(operand)
    return total
