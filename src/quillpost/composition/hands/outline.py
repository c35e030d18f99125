"""Letter shapes as closed quadratic curves, in thousandths of an em."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Contour = Floats
"""A closed curve of shape (n, 3, 2): the start, the control and the end of each quadratic segment."""

Shape = list[Contour]


def sampled(contour: Contour, spacing: float) -> Floats:
    """Points along the curve, `spacing` apart at most; the last is not the first again."""
    start, control, end = contour[:, 0], contour[:, 1], contour[:, 2]
    lengths = np.hypot(*(control - start).T) + np.hypot(*(end - control).T)
    steps = np.maximum(np.ceil(lengths / spacing), 1).astype(np.int64)
    segment = np.repeat(np.arange(len(contour)), steps)
    step = np.arange(len(segment)) - np.repeat(np.cumsum(steps) - steps, steps)
    t = (step / steps[segment])[:, None]
    return (1 - t) ** 2 * start[segment] + 2 * (1 - t) * t * control[segment] + t * t * end[segment]


def signed_area(points: Floats) -> float:
    """Positive when the polygon runs anticlockwise."""
    following = np.roll(points, -1, axis=0)
    return float(np.sum(points[:, 0] * following[:, 1] - following[:, 0] * points[:, 1])) / 2


def perimeter(points: Floats) -> float:
    return float(np.hypot(*(np.roll(points, -1, axis=0) - points).T).sum())


def extents(shape: Shape) -> tuple[float, float, float, float]:
    """Left, bottom, right and top of the ink; the shape must have some."""
    points = np.concatenate([sampled(contour, 10.0) for contour in shape])
    (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
    return float(left), float(bottom), float(right), float(top)


def through_controls(controls: Floats) -> Contour:
    """The closed curve whose segments meet half way between one control and the next.

    TrueType leaves such meeting points out, so that a control is all that a segment costs.
    """
    ends = (controls + np.roll(controls, -1, axis=0)) / 2
    return np.stack([np.roll(ends, 1, axis=0), controls, ends], axis=1)


def distances_to(edge: Floats, points: Floats) -> Floats:
    """From each point to the nearest one of the edge."""
    across = points[:, None, 0].astype(np.float32) - edge[None, :, 0].astype(np.float32)
    along = points[:, None, 1].astype(np.float32) - edge[None, :, 1].astype(np.float32)
    nearest: Floats = np.sqrt((across * across + along * along).min(axis=1)).astype(np.float64)
    return nearest
