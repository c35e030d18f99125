"""What each line of a traced letter is for: body, bar or dot, where the pen comes in and where it runs on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from quillpost.rendering.handwriting.letterforms import Letterform, LineKind, PenLine
from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.traced_letters import TracedLetter, TracedLine, distances_along

SMALL_LETTERS = "abcdefghijklmnopqrstuvwxyz"
CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
FIGURES = "0123456789"
_JOINING_CAPITALS = "ACEHKLMNRUZ"
_HIGH_EXITS = "ovwrb"
_LEDIN_LETTERS = "imnruvwxyjpz"
_LEAD_IN_TOP = 0.4

_MIN_EXIT_COSINE, _MIN_UPSTROKE_COSINE, _MAX_UPSTROKE_END = 0.45, 0.05, 0.62
_TURN_PER_KNOT = 0.5  # radians
_LENGTH_PER_KNOT = 0.34
_SHORT_LINE = 0.6
_HIGH, _RATHER_HIGH = 1.05, 0.8
_MIN_DOT_HEIGHT, _MAX_DOT_HEIGHT, _USUAL_DOT_HEIGHT = 1.42, 1.95, 1.5
_DOT_LENGTH = 0.03


@dataclass(frozen=True)
class _End:
    """An end of a line: where it is, and the way out of the letter."""

    line: int
    is_stop: bool
    place: Floats
    way: Floats


def make_form(char: str, letter: TracedLetter, slant: float) -> Letterform:
    kinds = [line_kind(char, line) for line in letter.lines]
    exit_end = entry_end = None
    has_body = LineKind.BODY in kinds
    if has_body and (char in SMALL_LETTERS or char in _JOINING_CAPITALS):
        exit_end = _find_exit(char, letter, kinds, slant)
    if has_body and char in SMALL_LETTERS:
        entry_end = _find_entry(char, letter, kinds, slant, exit_end)
    lines = []
    for number, (line, kind) in enumerate(zip(letter.lines, kinds, strict=True)):
        is_backward = (exit_end and exit_end.line == number and not exit_end.is_stop) or (
            entry_end and entry_end.line == number and entry_end.is_stop
        )
        line = _turn_round(line) if is_backward else line
        if entry_end and entry_end.line == number and char in _LEDIN_LETTERS:
            line = _without_lead_in(line)
        lines.append(_pen_line(line, kind))
    if char in "ij" and LineKind.DOT not in kinds:
        lines.append(_make_dot(letter, slant))
    entry = entry_end.line if entry_end else None
    return Letterform(tuple(lines), letter.advance, entry, exit_end.line if exit_end else None)


def _without_lead_in(line: TracedLine) -> TracedLine:
    """After a letter that ends high a lead-in from the foot would look like one more hump."""
    high = np.flatnonzero(line.points[:, 1] > _LEAD_IN_TOP)
    first = int(high[0]) if len(high) else 0
    if not 0 < first < len(line.points) / 3:
        return line
    corners = tuple(corner - first for corner in line.corners if corner > first)
    return replace(line, points=line.points[first:], corners=corners)


def _make_dot(letter: TracedLetter, slant: float) -> PenLine:
    """For a stem that came without one."""
    top = letter.points[letter.points[:, 1].argmax()]
    middle = top + np.array([slant, 1.0]) * (_USUAL_DOT_HEIGHT - top[1])
    return PenLine(middle + np.array([[-_DOT_LENGTH / 2, 0.0], [_DOT_LENGTH / 2, 0.0]]), LineKind.DOT)


def _turn_round(line: TracedLine) -> TracedLine:
    last = len(line.points) - 1
    corners = tuple(last - corner for corner in reversed(line.corners))
    return replace(line, points=line.points[::-1], corners=corners, loose=line.loose[::-1])


def _pen_line(line: TracedLine, kind: LineKind) -> PenLine:
    knots = line.points[[0, -1]] if line.is_dot else line.points[choose_knots(line.points, line.corners)]
    if kind is LineKind.DOT:
        middle = float(knots[:, 1].mean())
        knots = knots + np.array([0, np.clip(middle, _MIN_DOT_HEIGHT, _MAX_DOT_HEIGHT) - middle])
    return PenLine(knots, LineKind.DOT if line.is_dot and kind is LineKind.BODY else kind, line.loose)


def choose_knots(points: Floats, corners: tuple[int, ...] = ()) -> list[int]:
    """Samples that stand for the line: dense in bends, and each corner."""
    steps = np.diff(points, axis=0)
    headings = np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))
    turns = np.concatenate([[0.0], np.abs(np.diff(headings)), [0.0]])
    turns = np.convolve(turns, [0.25, 0.5, 0.25], "same")
    cost = np.cumsum(turns / _TURN_PER_KNOT + np.diff(distances_along(points), prepend=0.0) / _LENGTH_PER_KNOT)
    knots: set[int] = set()
    for first, last in zip([0, *corners], [*corners, len(points) - 1], strict=True):
        count = max(2, int(np.ceil(cost[last] - cost[first])))
        at = np.interp(np.linspace(cost[first], cost[last], count + 1), cost, np.arange(len(points)))
        knots |= {first, last, *np.rint(at).astype(int).tolist()}
    return _drop_crowded(sorted(knots), {0, len(points) - 1, *corners})


def _drop_crowded(knots: list[int], fixed: set[int]) -> list[int]:
    """No two so close that ink could not turn between them, unless both are fixed."""
    kept = knots[:1]
    for knot in knots[1:]:
        if knot - kept[-1] < 2:
            if knot not in fixed:
                continue
            if kept[-1] not in fixed:
                kept.pop()
        kept.append(knot)
    return kept


def line_kind(char: str, line: TracedLine) -> LineKind:
    low, high = line.points.min(axis=0), line.points.max(axis=0)
    width, height = (high - low).tolist()
    length = float(distances_along(line.points)[-1])
    if char in "ij" and (low[1] > _HIGH or (low[1] > _RATHER_HIGH and length < _SHORT_LINE)):
        return LineKind.DOT
    if char in "tf" and height < 0.4 * width and all(line.loose) and length > 0.35 and low[1] > 0.3:
        return LineKind.BAR
    return LineKind.BODY


def _ends(letter: TracedLetter, kinds: list[LineKind], *, touching: bool = False) -> Iterator[_End]:
    for number, (line, kind) in enumerate(zip(letter.lines, kinds, strict=True)):
        if kind is not LineKind.BODY or line.is_round or line.is_dot or len(line.points) < 6:
            continue
        for is_stop in (False, True):
            if line.loose[is_stop] or touching:
                place, inner = (line.points[-1], line.points[-5]) if is_stop else (line.points[0], line.points[4])
                way = place - inner
                yield _End(number, is_stop, place, way / max(float(np.hypot(*way)), 1e-9))


def _upright(way: Floats, slant: float) -> Floats:
    """The same way if the hand did not lean."""
    straight: Floats = way - np.array([slant * way[1], 0.0])
    return straight / max(float(np.hypot(*straight)), 1e-9)


def _find_exit(char: str, letter: TracedLetter, kinds: list[LineKind], slant: float) -> _End | None:
    """The loose end that leaves the letter to the right, low but for the letters that end high."""
    body = np.concatenate(
        [line.points for line, kind in zip(letter.lines, kinds, strict=True) if kind is LineKind.BODY]
    )
    low_body = body[body[:, 1] < 1.1, 0]
    far = float(np.percentile(low_body, 97)) if len(low_body) else float(body[:, 0].max())
    top = 1.15 if char in _HIGH_EXITS else 0.62

    def score(end: _End) -> float:
        x, y = end.place.tolist()
        return float(x + 0.2 * end.way[0] - 0.15 * max(y, 0.0))

    def leaves(end: _End) -> bool:
        across, rise = _upright(end.way, slant)
        is_upstroke = rise > 0 and end.place[0] > far - 0.1 and end.place[1] < _MAX_UPSTROKE_END
        return float(across) > (_MIN_UPSTROKE_COSINE if is_upstroke else _MIN_EXIT_COSINE)

    exits = [
        end for end in _ends(letter, kinds) if leaves(end) and -0.6 < end.place[1] < top and end.place[0] > far - 0.4
    ]
    return max(exits, key=score, default=None)


def _find_entry(
    char: str, letter: TracedLetter, kinds: list[LineKind], slant: float, exit_end: _End | None
) -> _End | None:
    """A low end at the left from which the pen rises gently: a stem's foot is none; an e begins in its eye."""
    body = np.concatenate(
        [line.points for line, kind in zip(letter.lines, kinds, strict=True) if kind is LineKind.BODY]
    )
    near = float(np.percentile(body[:, 0], 3))

    def is_exit(end: _End) -> bool:
        return exit_end is not None and (end.line, end.is_stop) == (exit_end.line, exit_end.is_stop)

    entries = [
        end
        for end in _ends(letter, kinds, touching=char == "e")
        if not is_exit(end)
        and -end.way[0] + slant * end.way[1] > 0.5 * abs(end.way[1])
        and -0.15 < end.place[1] < 0.62
        and end.place[0] < near + 0.35
    ]
    return min(entries, key=lambda end: float(end.place[0]), default=None)
