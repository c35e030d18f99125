"""Signs that are not traced: strokes of our own, and signs put together of a hand's own letters and figures."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from quillpost.rendering.handwriting.letter_roles import choose_knots
from quillpost.rendering.handwriting.letterforms import Letterform, LineKind, PenLine
from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.traced_letters import even_points

_DOT_LENGTH = 0.03
_SIDE_BEARING = 0.12
_TOP = 1.9  # of our capitals
_SAMPLES = 12  # between two points
_SMALL = 0.56  # of raised figures


@cache
def _strokes_by_sign() -> dict[str, list[list[str]]]:
    return tomllib.loads(Path(__file__).with_name("signs.toml").read_text("utf-8"))


def drawn_signs() -> frozenset[str]:
    return frozenset(_strokes_by_sign())


def draw_sign(char: str, slant: float, top: float) -> list[Letterform]:
    """All forms of our own; `top` is how high the hand's capitals are."""
    return [_draw_form(strokes, slant, top) for strokes in _strokes_by_sign()[char]]


def _draw_form(strokes: Sequence[str], slant: float, top: float) -> Letterform:
    lines = [_draw_line(stroke, slant, top) for stroke in strokes]
    return _stand_free(lines)


def _draw_line(stroke: str, slant: float, top: float) -> PenLine:
    words = [point.split() for point in stroke.split(",")]
    points = np.array([[float(word.rstrip("!")) for word in pair] for pair in words])
    points[:, 1] = np.minimum(points[:, 1], 1) + np.maximum(points[:, 1] - 1, 0) * (top - 1) / (_TOP - 1)
    if len(points) == 1:
        points = points + np.array([[-_DOT_LENGTH / 2, 0], [_DOT_LENGTH / 2, 0]])
        return PenLine(_lean(points, slant), LineKind.DOT)
    corners = [number for number, pair in enumerate(words) if pair[-1].endswith("!") and 0 < number < len(words) - 1]
    return PenLine(_lean(_smooth(points, corners), slant))


def _smooth(points: Floats, corners: Sequence[int]) -> Floats:
    """Knots of a Catmull-Rom curve that breaks at corners."""
    parts: list[Floats] = []
    for first, last in zip([0, *corners], [*corners, len(points) - 1], strict=True):
        part = even_points(_catmull_rom(points[first : last + 1]))
        knots = part[choose_knots(part)]
        parts.append(knots if not parts else knots[1:])
    return np.concatenate(parts)


def _catmull_rom(points: Floats) -> Floats:
    padded = np.concatenate([[2 * points[0] - points[1]], points, [2 * points[-1] - points[-2]]])
    before, start, stop, after = padded[:-3], padded[1:-2], padded[2:-1], padded[3:]
    t = np.linspace(0, 1, _SAMPLES, endpoint=False)[:, None, None]
    curve = start + t * (stop - before) / 2
    curve = curve + t**2 * (2 * before - 5 * start + 4 * stop - after) / 2
    curve = curve + t**3 * (3 * start - before - 3 * stop + after) / 2
    return np.concatenate([curve.transpose(1, 0, 2).reshape(-1, 2), points[-1:]])


def _lean(points: Floats, slant: float) -> Floats:
    return np.stack([points[:, 0] + slant * points[:, 1], points[:, 1]], axis=1)


def _stand_free(lines: Iterable[PenLine]) -> Letterform:
    """The lines with the same white on both sides."""
    lines = tuple(lines)
    x = np.concatenate([line.knots[:, 0] for line in lines])
    shift = np.array([_SIDE_BEARING - x.min(), 0.0])
    moved = tuple(replace(line, knots=line.knots + shift) for line in lines)
    return Letterform(moved, float(np.ptp(x)) + 2 * _SIDE_BEARING)


_FRACTIONS = {"½": "12", "¼": "14", "¾": "34"}
_RAISED = {"¹": "1", "²": "2", "³": "3", "⁴": "4", "ª": "a", "º": "o"}
_STRUCK = {"ø": "o", "Ø": "O", "đ": "d", "Đ": "D", "Ð": "D", "ł": "l", "Ł": "L", "ħ": "h", "ŧ": "t", "Ŧ": "T", "Ħ": "H"}
_CIRCLED = {"©": "C", "®": "R"}
_DOTLESS = {"ı": "i", "ȷ": "j"}
COMPOSED_CHARS = frozenset({*_FRACTIONS, *_RAISED, *_STRUCK, *_CIRCLED, *_DOTLESS, "™", "№"})

_FRACTION_OVERLAP = 0.12
_CIRCLED_BOTTOM, _CIRCLE_RADIUS, _CIRCLE_MIDDLE = 0.4, 0.82, 0.8
_ORDINAL_BOTTOM = 0.9
_GAP = 0.12


def compose_sign(char: str, forms: Mapping[str, tuple[Letterform, ...]], slant: float) -> Letterform:
    """A sign of the hand's own letters and figures, the first form of each."""
    top = _height(forms["H"][0].lines)
    if char in _FRACTIONS:
        above, below = [forms[figure][0] for figure in _FRACTIONS[char]]
        return _compose_fraction(above, below, slant, top)
    if char in _RAISED:
        return _stand_free(_raise(forms[_RAISED[char]][0], slant, top))
    if char in _STRUCK:
        base = forms[_STRUCK[char]][0]
        return replace(base, lines=(*base.lines, _strike(char, base, slant)))
    if char in _CIRCLED:
        return _compose_circled(forms[_CIRCLED[char]][0], slant)
    if char == "™":
        return _stand_free(_side_by_side(*(_raise(forms[name][0], slant, top) for name in "TM")))
    if char == "№":
        return _compose_number_sign(forms["N"][0], forms["o"][0], slant)
    return without_dots(forms[_DOTLESS[char]][0])


def _compose_fraction(above: Letterform, below: Letterform, slant: float, top: float) -> Letterform:
    high = _raise(above, slant, top)
    left = _right(high) - slant * top / 2 - _FRACTION_OVERLAP
    bar = _shift(_draw_line(f"0 0, {0.3 * top} {top}", slant, _TOP), left)
    low = _shrink(below)
    right = left + _FRACTION_OVERLAP + 0.22 * top - _left(low)
    return _stand_free([*high, bar, *(_shift(line, right) for line in low)])


def _compose_circled(letter: Letterform, slant: float) -> Letterform:
    small = _move(_shrink(letter), slant, _CIRCLED_BOTTOM)
    ring = _draw_line(_ring(_CIRCLE_RADIUS, _CIRCLE_MIDDLE), slant, _TOP)
    shift = (_left(small) + _right(small) - _left([ring]) - _right([ring])) / 2
    return _stand_free([_shift(ring, shift), *small])


def _compose_number_sign(capital: Letterform, letter: Letterform, slant: float) -> Letterform:
    lines = _side_by_side(list(capital.lines), _move(_shrink(letter), slant, _ORDINAL_BOTTOM))
    left, right = _left(lines[len(capital.lines) :]), _right(lines[len(capital.lines) :])
    under = np.array([[left, 0.55], [(left + right) / 2, 0.57], [right, 0.55]])
    return _stand_free([*lines, PenLine(under)])


def without_dots(form: Letterform) -> Letterform:
    """An i or a j that gets another mark."""
    kept = [number for number, line in enumerate(form.lines) if line.kind is not LineKind.DOT]
    places = {old: new for new, old in enumerate(kept)}
    entry = None if form.entry is None else places[form.entry]
    exit_ = None if form.exit is None else places[form.exit]
    return Letterform(tuple(form.lines[number] for number in kept), form.advance, entry, exit_)


def _ring(radius: float, height: float) -> str:
    turns = np.linspace(0.15, 1.03, 10) * 2 * np.pi
    points = [f"{radius * (1 - np.sin(turn)):.2f} {height + radius * np.cos(turn):.2f}" for turn in turns]
    return ", ".join(points)


def _strike(char: str, base: Letterform, slant: float) -> PenLine:
    points = np.concatenate([line.knots for line in base.lines if line.kind is not LineKind.DOT])
    top = float(points[:, 1].max())
    if char in "øØ":
        upright = points[:, 0] - slant * points[:, 1]
        left, right = float(upright.min()), float(upright.max())
        return _draw_line(f"{left:.3f} -0.15, {right:.3f} {top + 0.12:.3f}", slant, _TOP)
    if char in "đħ":
        # Across the tall stem, which is what rises above the bowl.
        stem = float(points[points[:, 1] > 0.8 * top, 0].mean())
        return PenLine(np.array([[stem - 0.3, 0.78 * top], [stem, 0.79 * top], [stem + 0.3, 0.78 * top]]), LineKind.BAR)
    height = {"ł": 0.55, "Ł": 0.42, "Đ": 0.5, "Ð": 0.5}.get(char, 0.45) * top
    near = points[np.abs(points[:, 1] - height) < 0.4]
    stem = float((near if len(near) else points)[:, 0].min())
    # Level, the stroke of an ł would make it a t.
    reach, rise = (0.2, 0.2) if char in "łŁ" else (0.29, 0.01)
    return PenLine(
        np.array([[stem - reach, height - rise], [stem, height], [stem + reach, height + rise]]), LineKind.BAR
    )


def _shrink(form: Letterform) -> list[PenLine]:
    return [replace(line, knots=line.knots * _SMALL) for line in form.lines]


def _raise(form: Letterform, slant: float, top: float) -> list[PenLine]:
    """Small, and as high as capitals."""
    small = _shrink(form)
    return _move(small, slant, top - _height(small))


def _move(lines: Iterable[PenLine], slant: float, rise: float) -> list[PenLine]:
    return [replace(line, knots=line.knots + np.array([slant * rise, rise])) for line in lines]


def _shift(line: PenLine, across: float) -> PenLine:
    return replace(line, knots=line.knots + np.array([across, 0.0]))


def _side_by_side(first: list[PenLine], second: list[PenLine]) -> list[PenLine]:
    across = _right(first) + _GAP - _left(second)
    return [*first, *(_shift(line, across) for line in second)]


def _height(lines: Iterable[PenLine]) -> float:
    return max(float(line.knots[:, 1].max()) for line in lines)


def _left(lines: Iterable[PenLine]) -> float:
    return min(float(line.knots[:, 0].min()) for line in lines)


def _right(lines: Iterable[PenLine]) -> float:
    return max(float(line.knots[:, 0].max()) for line in lines)
