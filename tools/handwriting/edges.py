"""How far a hand's lines leave a straight margin and a level line."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, pstdev

import numpy as np

from .pages import Floats, Pages, darkness, ink_box, is_ink, split_lines

# All begin with the same letter, and none has one that goes below the line: what differs is the hand's doing.
LINES = (
    "we sent the letter out on time",
    "we were out in the rain at noon",
    "we moved the chairs to the lawn",
    "we watched the sun come down",
    "we cleaned the windows and doors",
    "we saw that the roses are out",
    "we can meet at ten or at noon",
    "we met the mail carrier here",
    "we wrote it down in a notebook",
    "we wish all the best to them all",
)
DRAWS = 4

_FLAT_LETTERS = "acemnorsuvwx"
_MAX_RISE = 0.5  # in x-heights; what ends higher above the line is a dot, a bar or a stroke on its way up


@dataclass(frozen=True, slots=True)
class Edges:
    """Standard deviations: of where lines begin and of where letters stand, in x-heights; of slopes, in percent."""

    left: float
    baseline: float
    slope: float


def measure_edges(pages: Pages, style: int, manner: str) -> Edges:
    """The mean of some notes."""
    x_height = _measure_x_height(pages, style, manner)
    notes = [
        edges_of_page(darkness(pages.draw("\n".join(LINES), style, manner, draw=draw)), len(LINES), x_height)
        for draw in range(DRAWS)
    ]
    return Edges(*(fmean(getattr(note, name) for note in notes) for name in ("left", "baseline", "slope")))


def edges_of_page(picture: Floats, line_count: int, x_height: float) -> Edges:
    """`x_height` is in pixels."""
    lines = split_lines(picture, line_count)
    baselines = [_baseline_points(line, x_height) for line in lines]
    return Edges(
        left=pstdev(ink_box(line)[0] for line in lines) / x_height,
        baseline=fmean(float(bottoms.std()) for _, bottoms in baselines) / x_height,
        slope=100 * pstdev(_slope(places, bottoms) for places, bottoms in baselines),
    )


def _measure_x_height(pages: Pages, style: int, manner: str) -> float:
    letters = pages.draw_lines(list(_FLAT_LETTERS), style, manner)
    return float(median(letter.shape[0] for letter in letters))


def _baseline_points(line: Floats, x_height: float) -> tuple[Floats, Floats]:
    """Where the ink ends below, once for each stretch as wide as a letter; lower is larger."""
    left, _, right, _ = ink_box(line)
    ink = is_ink(line)
    edges = np.arange(left, right + 1, max(1, round(x_height)))
    places, bottoms = [], []
    for start, end in zip(edges, [*edges[1:], right], strict=True):
        rows = np.flatnonzero(ink[:, start:end].any(axis=1))
        if len(rows):
            places.append((start + end) / 2)
            bottoms.append(float(rows[-1]))
    found = np.array(bottoms)
    is_low = found > median(bottoms) - _MAX_RISE * x_height
    return np.array(places)[is_low], found[is_low]


def _slope(places: Sequence[float] | Floats, bottoms: Floats) -> float:
    """Rise per run."""
    return -float(np.polyfit(places, bottoms, 1)[0])
