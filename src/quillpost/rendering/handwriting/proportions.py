"""How wide and how tall the letters of a hand are, and letters of one hand brought to the measure of another."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from quillpost.rendering.handwriting.letter_roles import CAPITALS, FIGURES
from quillpost.rendering.handwriting.outlines import Floats

_MAX_WIDENING, _MIN_WIDENING = 1.3, 0.75
_MAX_LIMB, _MIN_LIMB = 1.5, 0.6
_USUAL_WIDTH, _USUAL_RISE = 0.75, 0.9  # of hands that have none of the letters that are measured


@dataclass(frozen=True, slots=True)
class Proportions:
    """In x-heights; what rises, rises so far over the x-height."""

    slant: float
    width: float
    above: float
    below: float
    capitals: float
    figures: float

    def above_of(self, char: str) -> float:
        if char in CAPITALS:
            return self.capitals
        return self.figures if char in FIGURES else self.above


def measure_proportions(points: Mapping[str, Floats], slant: float) -> Proportions:
    """The mean width of round letters, how far others rise over the x-height, and how far tails hang under the line."""

    def rise(chars: str) -> float:
        return _median(float(points[char][:, 1].max() - 1) for char in chars if char in points)

    widths = [float(np.ptp(_middle_band(points[char])[:, 0])) for char in "aceou" if char in points]
    width = float(np.mean(widths)) if widths else _USUAL_WIDTH
    below = _median(float(-points[char][:, 1].min()) for char in "gjpqy" if char in points)
    return Proportions(slant, width, rise("bdhkl"), below, rise(CAPITALS), rise(FIGURES))


def _median(values: Iterable[float]) -> float:
    known = [*values]
    return float(np.median(known)) if known else _USUAL_RISE


class Fitting:
    """Brings letters of a lender to the slant, the width and the limbs of a host."""

    def __init__(self, lender: Proportions, host: Proportions) -> None:
        self._lender, self._host = lender, host
        self.widening = float(np.clip(host.width / lender.width, _MIN_WIDENING, _MAX_WIDENING))

    def move(self, char: str, points: Floats) -> Floats:
        lender, host = self._lender, self._host
        up = float(np.clip(host.above_of(char) / max(lender.above_of(char), 0.1), _MIN_LIMB, _MAX_LIMB))
        down = float(np.clip(host.below / max(lender.below, 0.1), _MIN_LIMB, _MAX_LIMB))
        x, y = points.T
        x = (x - lender.slant * y) * self.widening
        y = np.clip(y, 0, 1) + up * np.maximum(y - 1, 0) + down * np.minimum(y, 0)
        return np.stack([x + host.slant * y, y], axis=1)


def measure_edges(points: Floats) -> Floats:
    """Where a letter begins and ends, between the line and the x-height, which all letters have."""
    edges: Floats = np.percentile(_middle_band(points)[:, 0], [4, 96])
    return edges


def _middle_band(points: Floats) -> Floats:
    inside = points[(points[:, 1] > 0.05) & (points[:, 1] < 0.95)]
    return inside if len(inside) > 3 else points
