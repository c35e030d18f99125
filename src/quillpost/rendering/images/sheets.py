"""Where a page of any size, turned any way, goes on a letter sheet."""

import math
from dataclasses import dataclass

import pikepdf

from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.images.limits import BadPdf

SHEET = Box(0, 0, 8.5 * INCH, 11 * INCH)

# Programs round 8.5 x 11 in to whole points, millimetres or pixels.
_SAME_SIZE = 3.0
_LONGEST_SIDE = 200 * INCH
_SHORTEST_SIDE = 1.0

Matrix = tuple[float, float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class Sheet:
    """One page's place: `seen` is the part of it that shows, in its own units, before any turn.

    `width` and `height` are what its reader sees of it, in points; `turn` is clockwise, in degrees.
    """

    seen: Box
    rotate: int
    turn: int
    width: float
    height: float
    placed: Box

    @property
    def is_letter(self) -> bool:
        return self.turn == self.rotate and _is_letter(self.width, self.height)

    @property
    def matrix(self) -> Matrix:
        """From the page's own units to its place on the sheet."""
        across, up = self.seen.width, self.seen.height
        a, b, c, d, e, f = {
            0: (1.0, 0.0, 0.0, 1.0, 0.0, 0.0),
            90: (0.0, -1.0, 1.0, 0.0, 0.0, across),
            180: (-1.0, 0.0, 0.0, -1.0, across, up),
            270: (0.0, 1.0, -1.0, 0.0, up, 0.0),
        }[self.turn]
        scale = self.placed.width / (across if self.turn % 180 == 0 else up)
        left, bottom = self.seen.left, self.seen.bottom
        return (
            a * scale,
            b * scale,
            c * scale,
            d * scale,
            (e - a * left - c * bottom) * scale + self.placed.left,
            (f - b * left - d * bottom) * scale + self.placed.bottom,
        )

    @property
    def size_note(self) -> str | None:
        """What was done to make it fit, if anything was."""
        if self.is_letter:
            return None
        size = f"{round(self.width / INCH, 2):g} x {round(self.height / INCH, 2):g} in"
        if _is_letter(self.height, self.width):
            return f"{size}, turned to lie along the sheet"
        turned = "turned and " if self.turn != self.rotate else ""
        return f"{size}, {turned}scaled to fit 8.5 x 11 in"


def read_sheet(page: pikepdf.Page, number: int) -> Sheet:
    """The page's place by its boxes, rotation and unit; BadPdf when it has no sensible size."""
    seen = _seen(page, number)
    rotate = _rotation(page)
    unit = _user_unit(page)
    across, up = (seen.width, seen.height) if rotate % 180 == 0 else (seen.height, seen.width)
    width, height = across * unit, up * unit
    if not (min(width, height) >= _SHORTEST_SIDE and max(width, height) <= _LONGEST_SIDE):
        raise BadPdf(f"Page {number} of the PDF has no size that can be printed.")
    # A page that lies on its side is printed along the sheet.
    lies = width > height
    turn = (rotate + 270) % 360 if lies else rotate
    return Sheet(seen, rotate, turn, width, height, _placed(*((height, width) if lies else (width, height))))


def _placed(width: float, height: float) -> Box:
    scale = 1.0 if _is_letter(width, height) else min(SHEET.width / width, SHEET.height / height)
    width, height = width * scale, height * scale
    return Box((SHEET.width - width) / 2, (SHEET.height - height) / 2, width, height)


def _is_letter(width: float, height: float) -> bool:
    return abs(width - SHEET.width) <= _SAME_SIZE and abs(height - SHEET.height) <= _SAME_SIZE


def _seen(page: pikepdf.Page, number: int) -> Box:
    """The trim box inside the crop box inside the media box, as far as there are any."""
    box = _box_of(page, "/MediaBox")
    if box is None:
        raise BadPdf(f"Page {number} of the PDF has no size.")
    for name in ("/CropBox", "/TrimBox"):
        inner = _box_of(page, name)
        box = (_shared(box, inner) if inner else None) or box
    return box


def _box_of(page: pikepdf.Page, name: str) -> Box | None:
    try:
        corners = [float(corner) for corner in page.obj[name]]
        left, right = sorted(corners[0::2])
        bottom, top = sorted(corners[1::2])
    except (KeyError, TypeError, ValueError):
        return None
    if not all(map(math.isfinite, corners)) or right <= left or top <= bottom:
        return None
    return Box(left, bottom, right - left, top - bottom)


def _shared(one: Box, other: Box) -> Box | None:
    left, bottom = max(one.left, other.left), max(one.bottom, other.bottom)
    right, top = min(one.right, other.right), min(one.top, other.top)
    return Box(left, bottom, right - left, top - bottom) if left < right and bottom < top else None


def _rotation(page: pikepdf.Page) -> int:
    try:
        rotation = int(page.obj.get("/Rotate", 0))
    except (TypeError, ValueError):
        return 0
    return rotation % 360 if rotation % 90 == 0 else 0


def _user_unit(page: pikepdf.Page) -> float:
    try:
        unit = float(page.obj.get("/UserUnit", 1))
    except (TypeError, ValueError):
        return 1.0
    return unit if math.isfinite(unit) and unit > 0 else 1.0
