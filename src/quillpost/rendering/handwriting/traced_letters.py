"""Letters as the center lines of their ink, before it is known what each line is for."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from quillpost.rendering.handwriting.outlines import Floats

STEP = 0.035
"""X-heights between two samples of a line."""
LEANING_LETTERS = "bdhklpqtfjgy"
FLAT_LETTERS = "acemnorsuvwxz"


@dataclass(frozen=True)
class TracedLine:
    """One movement. An end is loose where the pen came down or went up, not where it meets another line."""

    points: Floats
    corners: tuple[int, ...] = ()
    loose: tuple[bool, bool] = (True, True)
    is_round: bool = False
    is_dot: bool = False


@dataclass(frozen=True)
class TracedLetter:
    lines: tuple[TracedLine, ...]
    advance: float

    @property
    def points(self) -> Floats:
        return np.concatenate([line.points for line in self.lines])


def even_points(points: Floats, step: float = STEP) -> Floats:
    """The same line with samples about `step` apart."""
    along = distances_along(points)
    at = np.linspace(0, along[-1], max(3, round(along[-1] / step) + 1))
    return np.stack([np.interp(at, along, points[:, axis]) for axis in (0, 1)], axis=1)


def distances_along(points: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])


def measure_slant(letters: Mapping[str, TracedLetter]) -> float:
    """The lean of the long downstrokes, as a tangent."""
    steps = [
        np.diff(line.points, axis=0) for char in LEANING_LETTERS if char in letters for line in letters[char].lines
    ]
    step = np.concatenate([np.zeros((0, 2)), *steps])
    steep = np.abs(step[:, 1]) > 1.5 * np.abs(step[:, 0])
    return float(np.median(step[steep, 0] / step[steep, 1])) if steep.any() else 0.0
