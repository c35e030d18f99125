"""The middle of the stroke at every point of an outline, so that both its sides can be moved as one."""

import numpy as np

from quillpost.composition.hands.outline import Contour, Floats, Shape, sampled, signed_area

# Where the way through the ink is longer than this many usual ones, it runs along a stroke, not across.
_ACROSS_AT_MOST = 1.6
_EDGE_SPACING = 40.0
_UNIT = 1e-6


def middles(shape: Shape) -> list[Floats]:
    """For each contour the middles for its points, in the order start, control, start, control and so on."""
    points = [contour[:, :2].reshape(-1, 2) for contour in shape]
    inward = [_inward(contour, _turns_left(shape)) for contour in shape]
    depths = _depths(np.concatenate(points), np.concatenate(inward), shape)
    usual = float(np.median(depths[np.isfinite(depths)])) if np.isfinite(depths).any() else 0.0
    capped = np.minimum(depths, _ACROSS_AT_MOST * usual) / 2
    edges = np.cumsum([len(each) for each in points])[:-1]
    return [
        each + normal * _smooth(depth)[:, None]
        for each, normal, depth in zip(points, inward, np.split(capped, edges), strict=True)
    ]


def _turns_left(shape: Shape) -> bool:
    """Whether the ink lies to the left of its contours, holes and all."""
    return sum(signed_area(sampled(contour, _EDGE_SPACING)) for contour in shape) > 0


def _inward(contour: Contour, is_left: bool) -> Floats:
    """A unit vector into the ink for every point."""
    along = contour[:, 2] - contour[:, 0]
    along /= np.maximum(np.hypot(*along.T), _UNIT)[:, None]
    at_starts = along + np.roll(along, 1, axis=0)
    tangents = np.stack([at_starts, along], axis=1).reshape(-1, 2)
    tangents /= np.maximum(np.hypot(*tangents.T), _UNIT)[:, None]
    side = 1.0 if is_left else -1.0
    return side * np.stack([-tangents[:, 1], tangents[:, 0]], axis=1)


def _depths(points: Floats, inward: Floats, shape: Shape) -> Floats:
    """How far it is through the ink from each point; infinite where no other side is found."""
    rings = [sampled(contour, _EDGE_SPACING) for contour in shape]
    start = np.concatenate(rings)
    edge = np.concatenate([np.roll(ring, -1, axis=0) - ring for ring in rings])
    gap_x = start[:, 0] - points[:, 0, None]
    gap_y = start[:, 1] - points[:, 1, None]
    way_x, way_y = inward[:, 0, None], inward[:, 1, None]
    crossing = way_x * edge[:, 1] - way_y * edge[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        depth = (gap_x * edge[:, 1] - gap_y * edge[:, 0]) / crossing
        share = (gap_x * way_y - gap_y * way_x) / crossing
    is_hit = (share >= 0) & (share <= 1) & (depth > 4.0)  # nearer is the point's own side
    nearest: Floats = np.where(is_hit, depth, np.inf).min(axis=1)
    return nearest


def _smooth(depths: Floats) -> Floats:
    """Neighbours agree on the middle, or the outline would show the steps."""
    for _ in range(2):
        depths = (np.roll(depths, 1) + 2 * depths + np.roll(depths, -1)) / 4
    return depths
