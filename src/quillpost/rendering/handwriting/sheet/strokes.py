"""Pen strokes of what is written in a box."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quillpost.rendering.handwriting.centerlines import trace_strokes
from quillpost.rendering.handwriting.junctions import Branch, trace_pen_paths
from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.sheet import layout
from quillpost.rendering.handwriting.sheet.ink import Darkness, Labels, box_origin, keep_sure_parts, label_parts
from quillpost.rendering.handwriting.sheet.layout import BoxKind, SheetBox
from quillpost.rendering.handwriting.sheet.marks import Flags
from quillpost.rendering.handwriting.sheet.models import WrittenChar
from quillpost.rendering.handwriting.sheet.straighten import PIXELS_PER_POINT
from quillpost.rendering.handwriting.strokes import thin_ink, trace_paths

_ZOOM = 2  # thinning is straighter with more pixels
_PIXELS_PER_X_HEIGHT = layout.X_HEIGHT * PIXELS_PER_POINT * _ZOOM
_UNITS_PER_X_HEIGHT = 400.0  # tracing has its lengths in thousandths of an em
_UNITS_PER_PIXEL = _UNITS_PER_X_HEIGHT / _PIXELS_PER_X_HEIGHT

_SURE_INK = 1.12  # times the threshold: somewhere a part must be as dark
_PALE_INK, _SURE_PALE_INK = 0.65, 0.85
_MAX_PALE_DOT = 200  # pixels
_DOT_NOISE_RATIO = 6.5  # so many times the usual deviation of paper from its mean is no accident
_MIN_PART_DISCS = 0.18  # the area of a part, in dots of the pen
_MAX_PARTS = {BoxKind.CHAR: 8, BoxKind.WORD: 16, BoxKind.SENTENCE: 80, BoxKind.SIGNATURE: 80}
_MAX_INK_SHARE = 0.4  # of the box
_STRANGER_SHARE = 0.25  # a part that comes in from outside the box, and has less of its ink, is another box's
_MAX_EYE_PERIMETER = 12.0  # in pen radii: holes that may have been larger before the ink ran
_POINT_SPACING = 0.03  # x-heights
_DECIMALS = 4

TOO_MUCH_INK = "There is too much ink in this box."
OUTSIDE_BOX = "It reaches beyond its box."


@dataclass(frozen=True, eq=False)
class BoxInk:
    """What is written in a box, as pixels twice as fine as the page's; rows grow upward."""

    box: SheetBox
    darkness: Darkness
    threshold: float
    labels: Labels

    @cached_property
    def pixel_counts(self) -> Labels:
        return np.bincount(self.labels.reshape(-1))

    @property
    def has_too_much(self) -> bool:
        return bool(self.pixel_counts[1:].sum() > _MAX_INK_SHARE * self.labels.size)


def find_box_ink(box: SheetBox, darkness: Darkness, threshold: float) -> BoxInk:
    fine = _double(darkness)
    sure = keep_sure_parts(label_parts(fine >= threshold), fine, _SURE_INK * threshold) > 0
    # A dot is paler than a line of the same pen in a picture that is not quite sharp.
    pale = label_parts(fine >= _PALE_INK * threshold)
    is_dot = np.bincount(pale.reshape(-1)) <= _MAX_PALE_DOT
    is_dot[0] = False
    is_dot[pale[sure]] = False
    paper, noisy_paper = np.percentile(fine[::3, ::3], [50, 84])
    dot_threshold = max(_SURE_PALE_INK * threshold, float(paper + _DOT_NOISE_RATIO * (noisy_paper - paper)))
    dots = keep_sure_parts(np.where(is_dot[pale], pale, 0), fine, dot_threshold) > 0
    return BoxInk(box, fine, threshold, label_parts(sure | dots))


def estimate_pen_radius(inks: list[BoxInk]) -> float:
    """Half the usual width of strokes, in pixels; 0 without ink."""
    radii = []
    for ink in inks:
        written = ink.labels > 0
        edges = int((written[1:] != written[:-1]).sum() + (written[:, 1:] != written[:, :-1]).sum())
        if edges and not ink.has_too_much:
            radii.append(float(written.sum()) / (edges * np.pi / 4))
    return float(np.median(radii)) if radii else 0.0


def read_char(ink: BoxInk, pen_radius: float) -> WrittenChar | None:
    """The strokes in a box; None when it is empty. `pen_radius` is in pixels."""
    if ink.has_too_much:
        return WrittenChar(ink.box.text, ink.box.instance_number, (), 0.0, True, TOO_MUCH_INK)
    parts, is_cut = _choose_parts(ink, pen_radius)
    if not parts:
        return None
    strokes: list[Floats] = []
    radii: list[Floats] = []
    left = np.inf
    for part in parts:
        part_strokes, part_radii, edge = _trace_part(ink, part, pen_radius)
        strokes += part_strokes
        radii += part_radii
        left = min(left, edge)
    if not strokes:
        return None
    origin = np.array([left, (ink.box.baseline * PIXELS_PER_POINT - box_origin(ink.box)[1]) * _ZOOM])
    scaled = tuple(np.round(_thin_out((stroke - origin) / _PIXELS_PER_X_HEIGHT), _DECIMALS) for stroke in strokes)
    radius = round(float(np.median(np.concatenate(radii))) / _PIXELS_PER_X_HEIGHT, _DECIMALS)
    return WrittenChar(ink.box.text, ink.box.instance_number, scaled, radius, is_cut, OUTSIDE_BOX if is_cut else "")


def _double(values: Darkness) -> Darkness:
    """Twice as many pixels each way, and a little smoother."""
    for axis in (0, 1):
        padded = np.concatenate([values.take([0], axis), values, values.take([-1], axis)], axis)
        size = values.shape[axis]
        before, middle, after = (padded.take(range(start, start + size), axis) for start in range(3))
        halves = np.stack([0.25 * before + 0.75 * middle, 0.75 * middle + 0.25 * after], axis + 1)
        shape = list(values.shape)
        shape[axis] *= _ZOOM
        values = halves.reshape(shape)
    return values


def _choose_parts(ink: BoxInk, pen_radius: float) -> tuple[list[int], bool]:
    """The parts that belong to the box, the largest first, and whether one of them is cut off by its edge."""
    counts = ink.pixel_counts.copy()
    counts[0] = 0
    edges = np.concatenate([ink.labels[0], ink.labels[-1], ink.labels[:, 0], ink.labels[:, -1]])
    is_cut = np.isin(np.arange(len(counts)), edges)
    counts[is_cut & (counts < _STRANGER_SHARE * counts.sum())] = 0
    counts[counts < _MIN_PART_DISCS * np.pi * pen_radius**2] = 0
    parts = [int(part) for part in np.argsort(-counts, kind="stable") if counts[part]][: _MAX_PARTS[ink.box.kind]]
    return parts, any(bool(is_cut[part]) for part in parts)


def _trace_part(ink: BoxInk, part: int, pen_radius: float) -> tuple[list[Floats], list[Floats], float]:
    """Strokes and their radii in pixels of the box, and the left edge of the ink."""
    rows, columns = np.nonzero(ink.labels == part)
    bottom, left = int(rows.min()) - 2, int(columns.min()) - 2
    height, width = int(rows.max()) - bottom + 3, int(columns.max()) - left + 3
    written = np.zeros((height, width), bool)
    written[rows - bottom, columns - left] = True
    values = np.zeros((height, width))
    values[rows - bottom, columns - left] = ink.darkness[rows, columns]
    around = np.s_[max(bottom, 0) : bottom + height, max(left, 0) : left + width]
    inside = ink.darkness[around]
    values[max(-bottom, 0) : max(-bottom, 0) + len(inside), max(-left, 0) : max(-left, 0) + inside.shape[1]] = inside
    edge, eyes = _find_edge(written, values, ink.threshold, pen_radius)
    pixel_paths = trace_paths(thin_ink(written.astype(np.uint8)), width, written.size)
    branches = [
        Branch(
            (np.stack([np.array(path.pixels) % width, np.array(path.pixels) // width], axis=1) + 0.5)
            * _UNITS_PER_PIXEL,
            path.pixels[0],
            path.pixels[-1],
            path.is_closed,
        )
        for path in pixel_paths
    ]
    pen = pen_radius * _UNITS_PER_PIXEL
    edge_units, eye_units = edge * _UNITS_PER_PIXEL, eyes * _UNITS_PER_PIXEL
    strokes = trace_strokes(trace_pen_paths(branches, edge_units, pen), edge_units, eye_units, pen)
    corner = np.array([left, bottom], float)
    paths = [stroke.path / _UNITS_PER_PIXEL + corner for stroke in strokes]
    return paths, [stroke.radii / _UNITS_PER_PIXEL for stroke in strokes], float(edge[:, 0].min()) + left


def _find_edge(written: Flags, values: Floats, threshold: float, pen_radius: float) -> tuple[Floats, Floats]:
    """Points where the darkness crosses the threshold round a part, and those of them round small holes."""
    holes = label_parts(~written, has_diagonals=False)
    points, labels = [], []
    for axis in (0, 1):
        first = np.s_[:-1] if axis == 0 else np.s_[:, :-1]
        second = np.s_[1:] if axis == 0 else np.s_[:, 1:]
        rows, columns = np.nonzero(written[first] != written[second])
        one, other = values[first][rows, columns], values[second][rows, columns]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.clip(np.nan_to_num((one - threshold) / (one - other), nan=0.5), 0.05, 0.95)
        point = np.stack([columns + 0.5, rows + 0.5], axis=1)
        point[:, 1 - axis] += share
        points.append(point)
        labels.append(np.maximum(holes[first][rows, columns], holes[second][rows, columns]))
    edge, hole_labels = np.concatenate(points), np.concatenate(labels)
    perimeters = np.bincount(hole_labels, minlength=2) * np.pi / 4
    is_eye = perimeters < _MAX_EYE_PERIMETER * pen_radius
    is_eye[holes[0, 0]] = False  # what surrounds the part
    return edge, edge[is_eye[hole_labels]]


def _thin_out(path: Floats) -> Floats:
    """Fewer points, evenly spaced; both ends stay."""
    distances = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(path, axis=0).T))])
    count = max(2, round(distances[-1] / _POINT_SPACING) + 1)
    if count >= len(path):
        return path
    positions = np.linspace(0, distances[-1], count)
    return np.stack([np.interp(positions, distances, path[:, 0]), np.interp(positions, distances, path[:, 1])], axis=1)
