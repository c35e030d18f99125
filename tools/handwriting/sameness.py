"""How unlike each other the same word is when a hand writes it eight times: 0 is a rubber stamp."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np
from PIL import Image

from .pages import Floats, Pages, is_ink

# Each word with the number of its draw. Draws differ widely, so one is not enough.
DRAWS = (("yours", 0), ("yours", 1), ("morning", 2), ("thanks", 3))
TIMES = 8

_HEIGHT = 40  # pixels to which every word is scaled, so that large and small writing count alike
# A pen's width, and the shift allowed, in those pixels: what differs by less is the same shape to the eye.
_BLUR = 2.0
_MAX_ROW_SHIFT, _MAX_COLUMN_SHIFT = 6, 8


@dataclass(frozen=True, slots=True)
class Sameness:
    """Mean distances of all pairs, from 0, all the same, to 1: of each draw, and the mean of these."""

    mean: float
    by_draw: Mapping[str, float]


def measure_sameness(pages: Pages, style: int, manner: str) -> Sameness:
    by_draw = {
        f"{word}, draw {draw}": mean_distance(pages.draw_lines([word] * TIMES, style, manner, draw=draw))
        for word, draw in DRAWS
    }
    return Sameness(fmean(by_draw.values()), by_draw)


def mean_distance(words: Sequence[Floats]) -> float:
    """Over all pairs of words, each cropped to its ink."""
    shapes = [_blur(_scale(word)) for word in words]
    # With this much room around it, no shift brings a shape back in on the other side.
    height = max(shape.shape[0] for shape in shapes) + _MAX_ROW_SHIFT
    width = max(shape.shape[1] for shape in shapes) + _MAX_COLUMN_SHIFT
    spectra = [np.fft.rfft2(shape / np.linalg.norm(shape), (height, width)) for shape in shapes]
    rows = np.arange(-_MAX_ROW_SHIFT, _MAX_ROW_SHIFT + 1)[:, None]
    columns = np.arange(-_MAX_COLUMN_SHIFT, _MAX_COLUMN_SHIFT + 1)
    distances = []
    for first, second in combinations(spectra, 2):
        correlations = np.fft.irfft2(first * second.conj(), (height, width))
        distances.append(max(0.0, 1.0 - float(correlations[rows, columns].max())))  # rounding may pass 1
    return fmean(distances)


def _scale(word: Floats) -> Floats:
    """To one height, with its proportions; a pixel is ink or it is not."""
    mask = Image.fromarray(is_ink(word).astype(np.uint8) * 255)
    width = max(1, round(mask.width * _HEIGHT / mask.height))
    return (np.asarray(mask.resize((width, _HEIGHT), Image.Resampling.BOX)) > 90).astype(np.float64)


def _blur(shape: Floats) -> Floats:
    reach = int(3 * _BLUR)
    kernel = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * _BLUR**2))
    for axis in (0, 1):
        shape = np.apply_along_axis(np.convolve, axis, shape, kernel)
    return shape
