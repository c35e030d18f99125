"""Outlines of glyphs: closed curves, and what can be measured of them."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Contour = Floats  # a closed curve of shape (n, 3, 2): the start, the control and the end of each quadratic segment

Shape = list[Contour]


def sample_contour(contour: Contour, spacing: float) -> Floats:
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
    next_points = np.roll(points, -1, axis=0)
    return float(np.sum(points[:, 0] * next_points[:, 1] - next_points[:, 0] * points[:, 1])) / 2


def perimeter(points: Floats) -> float:
    return float(np.hypot(*(np.roll(points, -1, axis=0) - points).T).sum())


def ink_extents(shape: Shape) -> tuple[float, float, float, float]:
    """Left, bottom, right and top of the ink; the shape must have some."""
    points = np.concatenate([sample_contour(contour, 10.0) for contour in shape])
    (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
    return float(left), float(bottom), float(right), float(top)


def contour_through_controls(controls: Floats) -> Contour:
    """The closed curve whose segments meet half way between controls, where TrueType needs no point."""
    ends = (controls + np.roll(controls, -1, axis=0)) / 2
    return np.stack([np.roll(ends, 1, axis=0), controls, ends], axis=1)


def distances_to_outline(outline_points: Floats, points: Floats) -> Floats:
    x_distances = points[:, None, 0].astype(np.float32) - outline_points[None, :, 0].astype(np.float32)
    y_distances = points[:, None, 1].astype(np.float32) - outline_points[None, :, 1].astype(np.float32)
    nearest: Floats = np.sqrt((x_distances * x_distances + y_distances * y_distances).min(axis=1)).astype(np.float64)
    return nearest
