"""Which pixels of a straightened page are ink, whatever light falls on it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.sheet import layout
from quillpost.rendering.handwriting.sheet.layout import BoxKind, SheetBox, SheetPage
from quillpost.rendering.handwriting.sheet.marks import Flags, Gray
from quillpost.rendering.handwriting.sheet.straighten import PIXELS_PER_POINT

Darkness = npt.NDArray[np.float32]  # 0 is paper, 1 is black
Labels = npt.NDArray[np.int64]

_TILE = 12 * PIXELS_PER_POINT
_PAPER_SHARE = 0.85  # so many pixels of a tile are no lighter than its paper

_INSET = 1.3  # points from the frame of a box to what is read of it

_GUIDE_REACH = 5  # pixels above and below where a guide should be
_GUIDE_PERCENTILE = 60.0  # dashes cover half of their line
_MAX_GUIDE_DARKNESS = 0.45
_GLARE_SHARE = 0.25  # of the usual darkness of guides
_MIN_VISIBLE_GUIDE = 0.04

_FAINTEST_INK = 0.2
_INK_PERCENTILE = 80.0
_THRESHOLD_SHARE = 0.5
_THRESHOLD_BOUNDS = (0.17, 0.5)
_MIN_INK_PIXELS = 40


@dataclass(frozen=True, eq=False)
class PageInk:
    """`boxes` are what is in the boxes of the page, without guides, with the lowest row of pixels first."""

    boxes: tuple[Darkness, ...]
    threshold: float
    hidden_boxes: tuple[SheetBox, ...]
    """Where not even the guides can be seen, though they can elsewhere."""


def find_ink(straight: Gray, page: SheetPage) -> PageInk:
    darkness = measure_darkness(straight)
    crops = [_crop_box(darkness, box) for box in page.boxes]
    guides = [_measure_guide(crop, _row_of(box, box.baseline)) for crop, box in zip(crops, page.boxes, strict=True)]
    usual = float(np.median([guide.max() for guide in guides]))
    hidden = tuple(box for box, guide in zip(page.boxes, guides, strict=True) if guide.max() < _GLARE_SHARE * usual)
    for crop, box in zip(crops, page.boxes, strict=True):
        _remove_guides(crop, box, min(1.5 * usual, _MAX_GUIDE_DARKNESS))
    return PageInk(tuple(crops), find_threshold(crops), hidden if usual > _MIN_VISIBLE_GUIDE else ())


def measure_darkness(gray: Gray) -> Darkness:
    """How much darker than the paper round about each pixel is."""
    height, width = gray.shape
    rows, columns = -(-height // _TILE), -(-width // _TILE)
    padded = np.pad(gray, ((0, rows * _TILE - height), (0, columns * _TILE - width)), mode="edge")
    tiles = padded.reshape(rows, _TILE, columns, _TILE)[:, ::3, :, ::3].swapaxes(1, 2).reshape(rows, columns, -1)
    rank = round(_PAPER_SHARE * (tiles.shape[2] - 1))
    paper = np.maximum(_median_of_neighbors(np.partition(tiles, rank, axis=2)[:, :, rank].astype(float)), 1.0)
    across, down = _interpolation_weights(width, columns), _interpolation_weights(height, rows)
    darkness: Darkness = gray.astype(np.float32)
    darkness /= down @ (paper.astype(np.float32) @ across.T)
    np.subtract(1, darkness, out=darkness)
    return np.clip(darkness, 0, 1, out=darkness)


def find_threshold(crops: list[Darkness]) -> float:
    """Half as dark as the ink is."""
    values = np.concatenate([crop[crop > _FAINTEST_INK] for crop in crops])
    if len(values) < _MIN_INK_PIXELS:
        return _THRESHOLD_BOUNDS[1]
    ink = float(np.percentile(values, _INK_PERCENTILE))
    return float(np.clip(_THRESHOLD_SHARE * ink, *_THRESHOLD_BOUNDS))


def label_parts(ink: Flags, *, has_diagonals: bool = True) -> Labels:
    """Number the connected parts from 1; 0 is what is not in any."""
    height, width = ink.shape
    pixels = np.flatnonzero(ink)
    places = np.full((height + 1) * (width + 2), -1)
    padded = pixels + pixels // width * 2 + 1  # one clear column on either side
    places[padded] = np.arange(len(pixels))
    steps = [1, width + 2, width + 1, width + 3] if has_diagonals else [1, width + 2]
    neighbors = [places[padded + step] if len(pixels) else pixels for step in steps]
    first = np.concatenate([np.flatnonzero(found >= 0) for found in neighbors])
    second = np.concatenate([found[found >= 0] for found in neighbors])
    roots = np.arange(len(pixels))
    while (roots[first] != roots[second]).any():
        low = np.minimum(roots[first], roots[second])
        np.minimum.at(roots, roots[first], low)
        np.minimum.at(roots, roots[second], low)
        while (roots[roots] != roots).any():
            roots = roots[roots]
    labels = np.zeros(height * width, np.int64)
    labels[pixels] = np.unique(roots, return_inverse=True)[1] + 1
    return labels.reshape(height, width)


def keep_sure_parts(labels: Labels, darkness: Darkness, threshold: float) -> Labels:
    """Without the parts that are nowhere as dark as this: shadows of guides, and what shows through the paper."""
    is_kept = np.zeros(int(labels.max()) + 1, bool)
    is_kept[labels[darkness >= threshold]] = True
    is_kept[0] = False
    return np.where(is_kept[labels], labels, 0)


def box_origin(box: SheetBox) -> tuple[float, float]:
    """The lower left corner of what is read of a box, in whole pixels of the page."""
    left = np.ceil((box.box.left + _INSET) * PIXELS_PER_POINT)
    bottom = np.ceil((box.box.bottom + _INSET) * PIXELS_PER_POINT)
    return float(left), float(bottom)


def _crop_box(darkness: Darkness, box: SheetBox) -> Darkness:
    left, bottom = map(int, box_origin(box))
    right, top = (int((edge - _INSET) * PIXELS_PER_POINT) for edge in (box.box.right, box.box.top))
    height = len(darkness)
    return darkness[height - top : height - bottom, left:right][::-1].copy()


def _row_of(box: SheetBox, height: float) -> int:
    return round(height * PIXELS_PER_POINT - box_origin(box)[1])


def _measure_guide(crop: Darkness, row: int) -> Floats:
    """How dark the rows near a guide are, apart from what is written there."""
    return np.percentile(crop[max(row - _GUIDE_REACH, 0) : row + _GUIDE_REACH + 1], _GUIDE_PERCENTILE, axis=1)


def _remove_guides(crop: Darkness, box: SheetBox, max_darkness: float) -> None:
    guides = [box.baseline] if box.kind is BoxKind.SIGNATURE else [box.baseline, box.baseline + layout.X_HEIGHT]
    for guide in guides:
        row = _row_of(box, guide)
        rows = crop[max(row - _GUIDE_REACH, 0) : row + _GUIDE_REACH + 1]
        printed = np.minimum(_measure_guide(crop, row), max_darkness).astype(np.float32)
        np.clip(rows - printed[:, None], 0, 1, out=rows)


def _median_of_neighbors(values: Floats) -> Floats:
    padded = np.pad(values, 1, mode="edge")
    height, width = values.shape
    shifted = [padded[top : top + height, left : left + width] for top in range(3) for left in range(3)]
    return np.median(shifted, axis=0)


def _interpolation_weights(size: int, count: int) -> Darkness:
    """How much each tile counts at each pixel: a straight line from middle to middle."""
    position = np.clip((np.arange(size) + 0.5) / _TILE - 0.5, 0, count - 1)
    return np.maximum(1 - np.abs(position[:, None] - np.arange(count)), 0).astype(np.float32)
