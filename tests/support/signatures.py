"""Signatures as people draw them: a flowing one, a flat one with a stroke under it, and a name in a natural hand."""

from functools import cache
from itertools import pairwise

import numpy as np

from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.sheet.models import Signature
from quillpost.rendering.handwriting.sheet.signature import outline_drawn_signature
from support.natural_writing import natural_hand, shape_paths

# Through these points a pen goes; y is upward, an x-height is about 10.
_BARTON = (
    # J: a loop from the line up, down far below it and back up.
    [(8, 2), (16, 16), (26, 34), (24, 43), (17, 40), (16, 24), (14, 4), (8, -14), (0, -18), (-3, -11), (6, -2),
     (20, 5)],
    # B, and "arton" running on from it into a long end.
    [(36, 36), (34, 18), (32, 1), (33, 14), (37, 34), (48, 41), (56, 35), (50, 25), (41, 21), (53, 19), (59, 9),
     (49, 0), (38, 2), (46, 3), (58, 2), (68, 8), (73, 11), (66, 10), (63, 4), (68, 1), (74, 9), (75, 2), (79, 4),
     (83, 10), (85, 8), (86, 3), (90, 3), (97, 22), (96, 8), (98, 1), (103, 5), (107, 10), (105, 3), (110, 2),
     (113, 8), (109, 9), (115, 9), (118, 2), (121, 8), (125, 9), (127, 2), (138, 3), (158, 9), (182, 8)],
    # The bar of the t.
    [(88, 17), (98, 18), (112, 21)],
)  # fmt: skip
_FLAT = (
    [(0, 4), (8, 26), (12, 30), (10, 12), (9, 1), (18, 14), (27, 3), (36, 11), (44, 3), (55, 9), (66, 4), (80, 8),
     (98, 4), (125, 8), (150, 5)],
    [(162, -4), (110, -2), (50, -7), (20, -12), (70, -9), (140, -8)],
)  # fmt: skip


@cache
def flowing_signature() -> Signature:
    """About three heights wide, with a letter below the line."""
    return _draw(_BARTON)


@cache
def flat_signature() -> Signature:
    return _draw(_FLAT)


@cache
def written_signature(hand: int, name: str) -> Signature:
    """A name as this natural hand writes it, closely."""
    strokes, at = list[Floats](), 0.0
    for word in name.split():
        paths = shape_paths(natural_hand(hand), [word], seed=3, joining=1.0)
        strokes += [10 * paths.knots[start:stop] + (at, 0) for start, stop in pairwise(paths.starts)]
        at = max(float(line[:, 0].max()) for line in strokes) + 5
    signature = outline_drawn_signature(strokes, 0.6)
    assert signature
    return signature


def _draw(strokes: tuple[list[tuple[int, int]], ...]) -> Signature:
    signature = outline_drawn_signature([_curve_through(np.array(points, float)) for points in strokes], 0.75)
    assert signature
    return signature


def _curve_through(points: Floats) -> Floats:
    """Catmull and Rom's spline."""
    padded = np.concatenate([2 * points[:1] - points[1:2], points, 2 * points[-1:] - points[-2:-1]])
    t = np.linspace(0, 1, 12, endpoint=False)[:, None, None]
    a, b, c, d = padded[:-3], padded[1:-2], padded[2:-1], padded[3:]
    curve = 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
    return np.concatenate([curve.transpose(1, 0, 2).reshape(-1, 2), points[-1:]])


@cache
def busy_signature() -> Signature:
    """A scribble that crosses itself everywhere: more points than a file may have, were they all kept."""
    x = np.linspace(0, 1, 2_000)
    turn = 2 * np.pi * 57 * x
    scribble = np.stack([300 * x + 14 * np.cos(turn), 50 + 45 * np.sin(turn * 1.31)], axis=1)
    signature = outline_drawn_signature([scribble], 0.5)
    assert signature
    return signature
