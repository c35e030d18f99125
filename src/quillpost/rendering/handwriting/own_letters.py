"""The letters that a sender wrote on the sheet, as forms of a hand."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from quillpost.rendering.handwriting.centerlines import STEP as CENTERLINE_STEP
from quillpost.rendering.handwriting.centerlines import find_corners
from quillpost.rendering.handwriting.letter_roles import line_kind, make_form
from quillpost.rendering.handwriting.letterforms import Letterform, LineKind
from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.sheet.ink import label_parts
from quillpost.rendering.handwriting.sheet.models import WrittenChar
from quillpost.rendering.handwriting.sheet.rules import center_points, measure_unlikeness
from quillpost.rendering.handwriting.traced_letters import (
    FLAT_LETTERS,
    STEP,
    TracedLetter,
    TracedLine,
    distances_along,
    even_points,
)

MAX_FORMS = 4  # more are so much alike that none is met again
_MAX_LINES = 6  # what is in more pieces frays when it is bent
_MAX_HEIGHT, _MAX_WIDTH = 5.0, 6.0  # x-heights
_MAX_DOT_RADII = 2.6
_TOUCH_RADII = 0.75
_SELF_TOUCH_RADII = 5.0
_ROUND_RADII = 4.0
_UNIT_BOUNDS = (0.35, 2.2)
_STRAIGHT_LETTERS = frozenset("ijl")
_MIN_BULGE = 0.08
_NEEDED_EYES = {"e": 1, "8": 2}
_CELL = 0.06
_FOOT_BOUNDS = (-0.1, 0.2)  # of the lowest points of letters that stand on the line
_RADIUS_BOUNDS = (0.03, 0.12)
_BAND = (-0.1, 1.1)  # where neighbors meet


@dataclass(frozen=True, slots=True)
class Scale:
    """Of the writing on a sheet: its own x-height and line, in x-heights of the sheet, and the pen in its own."""

    unit: float
    line: float
    radius: float

    def apply(self, stroke: Floats) -> Floats:
        return (stroke - np.array([0.0, self.line])) / self.unit


def measure_scale(chars: Sequence[WrittenChar]) -> Scale:
    """People write smaller or larger than the guides, and above or below the line."""
    radius = float(np.median([char.radius for char in chars]))
    flat = [np.concatenate(char.strokes)[:, 1] for char in chars if char.char in FLAT_LETTERS]
    foot = float(np.median([heights.min() for heights in flat]))
    line = foot - float(np.clip(foot, *_FOOT_BOUNDS))
    unit = float(np.clip(np.median([heights.max() for heights in flat]) - line, *_UNIT_BOUNDS))
    return Scale(unit, line, float(np.clip(radius / unit, *_RADIUS_BOUNDS)))


def choose_instances(chars: Iterable[WrittenChar]) -> dict[str, list[WrittenChar]]:
    """What is to be written of each character: the most usual one first, then what differs most. Doubtful ones, and
    those in many pieces, only where there is nothing else.
    """
    instances: dict[str, list[WrittenChar]] = defaultdict(list)
    for char in chars:
        if len(char.char) == 1 and char.strokes:
            instances[char.char].append(char)
    return {text: _choose_different(_keep_best(found)) for text, found in instances.items()}


def _keep_best(instances: Sequence[WrittenChar]) -> Sequence[WrittenChar]:
    sure = [char for char in instances if not char.is_doubtful] or instances
    return [char for char in sure if len(char.strokes) <= _MAX_LINES] or sure


def _choose_different(instances: Sequence[WrittenChar]) -> list[WrittenChar]:
    points = [center_points(char) for char in instances]
    distances = np.array([[measure_unlikeness(one, other) for other in points] for one in points])
    chosen = [int(np.median(distances, axis=1).argmin())]
    while len(chosen) < min(MAX_FORMS, len(instances)):
        nearest = distances[:, chosen].min(axis=1)
        nearest[chosen] = -1.0
        chosen.append(int(nearest.argmax()))
    return [instances[number] for number in chosen]


def trace_written(char: WrittenChar, scale: Scale) -> TracedLetter | None:
    """None for what cannot be meant: of no extent, or too large."""
    strokes = [scale.apply(stroke) for stroke in char.strokes if len(stroke) > 1]
    strokes = [even_points(stroke) for stroke in strokes if distances_along(stroke)[-1] > 0]
    if not strokes:
        return None
    points = np.concatenate(strokes)
    if np.abs(points[:, 1]).max() > _MAX_HEIGHT or np.ptp(points[:, 0]) > _MAX_WIDTH * len(char.char):
        return None
    return TracedLetter(tuple(_trace_line(number, strokes, scale.radius) for number in range(len(strokes))), 0.0)


def _trace_line(number: int, strokes: Sequence[Floats], radius: float) -> TracedLine:
    points = strokes[number]
    touches = [_touches(number, end, strokes, radius) for end in (0, -1)]
    loose = (not any(touches[0]), not any(touches[1]))
    if loose == (True, True) and distances_along(points)[-1] < _MAX_DOT_RADII * radius:
        return TracedLine(points, is_dot=True)
    gap = float(np.hypot(*(points[0] - points[-1])))
    is_round = touches[0][1] and touches[1][1] and gap < _ROUND_RADII * radius
    magnification = CENTERLINE_STEP / STEP
    corners = find_corners(points * magnification, radius * magnification)
    return TracedLine(points, tuple(corners), loose, is_round)


def keep_legible(char: str, letters: Sequence[TracedLetter]) -> list[TracedLetter]:
    """Without those whose ink ran together, if there are others: an e without its eye would be read as a c. Of signs
    none may be left.
    """
    whole = [letter for letter in letters if not char.isalpha() or _has_body(char, letter)]
    legible = [letter for letter in whole if _is_legible(char, letter)]
    return legible or [letter for letter in whole if char.isalnum()]


def _has_body(char: str, letter: TracedLetter) -> bool:
    """More than dots and bars."""
    return any(not line.is_dot and line_kind(char, line) is LineKind.BODY for line in letter.lines)


def _is_legible(char: str, letter: TracedLetter) -> bool:
    if char == '"':
        return len(letter.lines) > 1 and all(all(line.loose) for line in letter.lines)
    is_bare = len(letter.lines) == 1 and _measure_bulge(letter.points) < _MIN_BULGE
    if char.islower() and char not in _STRAIGHT_LETTERS and is_bare:
        return False
    return _count_eyes(letter) >= _NEEDED_EYES.get(char, 0)


def _measure_bulge(points: Floats) -> float:
    """How far the line is at most from the straight one between its ends."""
    across, rise = points[-1] - points[0]
    offset = points - points[0]
    distances: Floats = np.abs(across * offset[:, 1] - rise * offset[:, 0]) / max(float(np.hypot(across, rise)), 1e-9)
    return float(distances.max())


def _count_eyes(letter: TracedLetter) -> int:
    """Round how many white spots its lines go."""
    cells = np.floor((letter.points - letter.points.min(axis=0)) / _CELL).astype(np.int64) + 1
    drawn = np.zeros(cells.max(axis=0) + 2, np.bool_)
    drawn[cells[:, 0], cells[:, 1]] = True
    return int(label_parts(~drawn, has_diagonals=False).max()) - 1


def _touches(number: int, end: int, strokes: Sequence[Floats], radius: float) -> tuple[bool, bool]:
    """Does the end lie on another line, and on its own, a good way off?"""
    place, own = strokes[number][end], strokes[number]
    near = round(_SELF_TOUCH_RADII * radius / STEP)
    far_part = own[near:] if end == 0 else own[: max(len(own) - near, 0)]
    others = [stroke for other, stroke in enumerate(strokes) if other != number]

    def is_near(points: Floats) -> bool:
        distances = np.hypot(*(points - place).T)
        return bool(len(points)) and float(distances.min()) < max(_TOUCH_RADII * radius, STEP)

    return any(map(is_near, others)), is_near(far_part)


def upright_edges(points: Floats, slant: float) -> tuple[float, float]:
    """From where to where a letter goes if it did not lean, beside its neighbors."""
    x, y = points.T
    inside = (y > _BAND[0]) & (y < _BAND[1])
    upright = (x - slant * y)[inside] if inside.any() else x - slant * y
    return float(upright.min()), float(upright.max())


def make_forms(
    letters: Mapping[str, Sequence[TracedLetter]], slant: float, gap: float
) -> dict[str, tuple[Letterform, ...]]:
    """Each letter with half of the usual gap on either side."""
    return {
        char: tuple(make_form(char, _stand_free(letter, slant, gap), slant) for letter in found)
        for char, found in letters.items()
    }


def _stand_free(letter: TracedLetter, slant: float, gap: float) -> TracedLetter:
    left, right = upright_edges(letter.points, slant)
    shift = np.array([gap / 2 - left, 0.0])
    lines = tuple(
        TracedLine(line.points + shift, line.corners, line.loose, line.is_round, line.is_dot) for line in letter.lines
    )
    return TracedLetter(lines, right - left + gap)
