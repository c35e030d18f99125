"""Where each point of the page is in the picture, and the page as seen straight from above."""

from dataclasses import dataclass, replace

import numpy as np

from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.sheet import layout
from quillpost.rendering.handwriting.sheet.layout import Point, SheetPage
from quillpost.rendering.handwriting.sheet.marks import FoundMarks, Gray, box_mean
from quillpost.rendering.handwriting.sheet.models import ProblemCode, UnreadableSheet

PIXELS_PER_POINT = 3

_MIN_PIXELS_PER_POINT = 1.2
_ROWS_AT_ONCE = 128
_DRAWN_MARGIN = 24.0  # points above and below the boxes: the paper there shows how light it is

# How paper bends: polynomials across and up the page.
_ACROSS_POWERS, _UP_POWERS = 3, 4
_SMALL_RIDGE = 1e-3
_MIN_TICKS = 14
_MAX_TICK_MISS = 1.2  # points beside the bent page; a tick that is farther off is something else

_CODE_SHIFTS = (0.0, 3.0, -3.0, 6.0, -6.0, 9.0, -9.0)  # points

_TICK_WINDOW = 7.5  # points on either side of where a tick should be
_MIN_TICK_CONTRAST = 30.0  # of 255 gray values
_MIN_TICK_FILL = 0.7


def _flat_page() -> Floats:
    """Points of an even page as polynomials of shares from -1 to 1, and the depth of all, which is 1."""
    page = np.zeros((3, _UP_POWERS, _ACROSS_POWERS))
    page[0, 0, :2] = layout.PAGE_WIDTH / 2
    page[1, :2, 0] = layout.PAGE_HEIGHT / 2
    page[2, 0, 0] = 1.0
    return page


_FLAT_PAGE = _flat_page()


@dataclass(frozen=True, eq=False)
class PageMap:
    """From points of the page to pixels: first the bend, in points, then the perspective."""

    perspective: Floats
    bend: Floats  # for x, y and depth, which has none: a coefficient for each power up the page and across it

    def grid_pixels(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Columns and rows in the picture, for a grid of points."""
        across = _powers(x, layout.PAGE_WIDTH, _ACROSS_POWERS)
        up = _powers(y, layout.PAGE_HEIGHT, _UP_POWERS)
        # All three coordinates are polynomials, so each is one product of small matrices.
        columns, rows, depths = (
            (up @ polynomial).astype(np.float32) @ across.T.astype(np.float32)
            for polynomial in np.tensordot(self.perspective, _FLAT_PAGE + self.bend, 1)
        )
        return columns / depths, rows / depths


def map_page(gray: Gray, marks: FoundMarks) -> tuple[PageMap, int, int]:
    """The map, and the version and the page that the sheet itself says it is. It may lie any way up."""
    lengths = np.hypot(*(np.roll(marks.centers, -1, axis=0) - marks.centers).T)
    corners = np.array(layout.MARK_CENTERS)
    sides = np.hypot(*(np.roll(corners, -1, axis=0) - corners).T)
    if lengths.sum() < _MIN_PIXELS_PER_POINT * sides.sum():
        raise UnreadableSheet(
            ProblemCode.TOO_SMALL,
            "The page is too small in this picture to read it. Move closer, or scan it at 150 dpi or more.",
        )
    for first in marks.first_candidates:
        page_map = PageMap(
            solve_perspective(corners, np.roll(marks.centers, -first, axis=0)), np.zeros_like(_FLAT_PAGE)
        )
        identity = _read_code(gray, page_map)
        if identity is not None:
            return page_map, *identity
    raise UnreadableSheet(
        ProblemCode.PAGE_UNKNOWN,
        "We can't tell which page this is. Make sure that the squares at the foot of the page are sharp and uncovered.",
    )


def fit_bend(gray: Gray, page_map: PageMap, page: SheetPage) -> PageMap:
    """The map with the bend that the page's ticks show; without one where too few of them are seen."""
    for _ in range(2):  # ticks that lie far off are found only once the page is about right
        found = [(tick, place) for tick in page.ticks if (place := _find_tick(gray, page_map, tick)) is not None]
        if len(found) < _MIN_TICKS:
            return page_map
        ticks, seen = np.array([*found, *((center, center) for center in layout.MARK_CENTERS)]).swapaxes(0, 1)
        moves = seen - ticks
        change = _fit_moves(ticks, moves)
        misses = np.hypot(*(moves - _evaluate(change, ticks)).T)
        is_kept = misses < max(_MAX_TICK_MISS, 2 * float(np.median(misses)))
        page_map = replace(page_map, bend=page_map.bend + _fit_moves(ticks[is_kept], moves[is_kept]))
    return page_map


def draw_straight(gray: Gray, page_map: PageMap, page: SheetPage) -> Gray:
    """The page, PIXELS_PER_POINT, from its upper left corner; white above and below all boxes."""
    width, height = (round(side * PIXELS_PER_POINT) for side in (layout.PAGE_WIDTH, layout.PAGE_HEIGHT))
    x = (np.arange(width) + 0.5) / PIXELS_PER_POINT
    y = layout.PAGE_HEIGHT - (np.arange(height) + 0.5) / PIXELS_PER_POINT
    straight = np.full((height, width), 255, np.uint8)
    first = int((layout.PAGE_HEIGHT - max(box.box.top for box in page.boxes) - _DRAWN_MARGIN) * PIXELS_PER_POINT)
    last = int((layout.PAGE_HEIGHT - min(box.box.bottom for box in page.boxes) + _DRAWN_MARGIN) * PIXELS_PER_POINT)
    for top in range(first, last, _ROWS_AT_ONCE):
        rows = slice(top, min(top + _ROWS_AT_ONCE, last))
        straight[rows] = np.rint(sample_pixels(gray, *page_map.grid_pixels(x, y[rows])))
    return straight


def measure_sharpness(gray: Gray, page_map: PageMap) -> float:
    """How light the light ring of the marks is: 1 as paper, 0 as ink."""
    shares = []
    for x, y in layout.MARK_CENTERS:
        steps = np.array([-2.0, 0.0, 2.0]) * layout.MARK_MODULE
        samples = sample_pixels(gray, *page_map.grid_pixels(x + steps, y + steps))
        outside = np.array([-5.0, 5.0]) * layout.MARK_MODULE
        paper = float(np.median(sample_pixels(gray, *page_map.grid_pixels(x + outside, y + outside))))
        dark = float(samples[1, 1])
        ring = float(np.median(samples[[0, 0, 1, 1, 2, 2, 0, 2], [0, 2, 0, 2, 0, 2, 1, 1]]))
        shares.append((ring - dark) / max(paper - dark, 1.0))
    return float(np.median(shares))


def solve_perspective(points: Floats, pixels: Floats) -> Floats:
    """The matrix that takes these four points to these pixels."""
    rows, values = [], []
    for (x, y), (column, row) in zip(points.tolist(), pixels.tolist(), strict=True):
        rows.append([x, y, 1, 0, 0, 0, -column * x, -column * y])
        rows.append([0, 0, 0, x, y, 1, -row * x, -row * y])
        values += [column, row]
    return np.append(np.linalg.solve(np.array(rows), np.array(values)), 1.0).reshape(3, 3)


def sample_pixels(gray: Gray, columns: Floats, rows: Floats) -> Floats:
    """Between the middles of pixels, in a straight line; beyond the picture, its edge."""
    height, width = gray.shape
    x = np.clip(columns - 0.5, 0, width - 1.001).astype(np.float32)
    y = np.clip(rows - 0.5, 0, height - 1.001).astype(np.float32)
    left, top = x.astype(np.int32), y.astype(np.int32)
    across, down = x - left, y - top
    index = top * width + left
    flat = gray.reshape(-1)
    upper = flat[index] + across * (flat[index + 1].astype(np.float32) - flat[index])
    lower = flat[index + width] + across * (flat[index + width + 1].astype(np.float32) - flat[index + width])
    return upper + down * (lower - upper)


def _powers(values: Floats, size: float, count: int) -> Floats:
    return (values[:, None] / size * 2 - 1) ** np.arange(count)


def _terms(points: Floats) -> Floats:
    up = _powers(points[:, 1], layout.PAGE_HEIGHT, _UP_POWERS)
    across = _powers(points[:, 0], layout.PAGE_WIDTH, _ACROSS_POWERS)
    return (up[:, :, None] * across[:, None, :]).reshape(len(points), -1)


def _fit_moves(points: Floats, moves: Floats) -> Floats:
    terms = _terms(points)
    normal = terms.T @ terms + _SMALL_RIDGE * len(points) * np.eye(terms.shape[1])
    bend = np.zeros_like(_FLAT_PAGE)
    bend[:2] = np.linalg.solve(normal, terms.T @ moves).T.reshape(2, _UP_POWERS, _ACROSS_POWERS)
    return bend


def _evaluate(bend: Floats, points: Floats) -> Floats:
    return _terms(points) @ bend[:2].reshape(2, -1).T


def _read_code(gray: Gray, page_map: PageMap) -> tuple[int, int] | None:
    """Where the paper is bent, the row lies a little above or below the line between the marks."""
    steps = np.array([-2.0, 0.0, 2.0])
    for shift in _CODE_SHIFTS:
        values = np.array(
            [
                sample_pixels(gray, *page_map.grid_pixels(x + steps, y + steps + shift)).mean()
                for x, y in layout.code_centers()
            ]
        )
        middle = (values.max() + values.min()) / 2
        identity = layout.decode_page(tuple(int(value < middle) for value in values))
        if identity is not None:
            return identity
    return None


def _find_tick(gray: Gray, page_map: PageMap, tick: Point) -> Point | None:
    """Where the square is that should be at `tick`, in the points of this map; None where there is none."""
    count = round(2 * _TICK_WINDOW * PIXELS_PER_POINT) + 1
    steps = np.linspace(-_TICK_WINDOW, _TICK_WINDOW, count)
    x, y = tick[0] + steps, tick[1] + steps
    values = sample_pixels(gray, *page_map.grid_pixels(x, y)).astype(float)
    light, dark = np.percentile(values, [80, 2])
    if light - dark < _MIN_TICK_CONTRAST:
        return None
    darkness = np.clip((light - values) / (light - dark), 0, 1)
    fill = box_mean(darkness, round(layout.TICK_SIDE / 2 * PIXELS_PER_POINT))
    row, column = np.unravel_index(int(fill.argmax()), fill.shape)
    if fill[row, column] < _MIN_TICK_FILL:
        return None
    reach = round(0.75 * layout.TICK_SIDE * PIXELS_PER_POINT)
    rows = slice(max(row - reach, 0), row + reach + 1)
    columns = slice(max(column - reach, 0), column + reach + 1)
    weights = np.where(darkness[rows, columns] > 0.4, darkness[rows, columns], 0.0)
    total = float(weights.sum())
    return float(weights.sum(axis=0) @ x[columns]) / total, float(weights.sum(axis=1) @ y[rows]) / total
