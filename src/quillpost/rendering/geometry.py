"""Plain geometry of the printed page. Points, from the lower left corner of the trim."""

from dataclasses import dataclass

INCH = 72.0

# The Intelligent Mail barcode as we draw it: 22 bars an inch, well inside what readers accept.
BAR_COUNT = 65
BAR_PITCH = INCH / 22
BAR_WIDTH = INCH / 50
BAR_HEIGHT = 0.145 * INCH

# Coordinates are printed with two digits; less than this is no difference.
_TOLERANCE = 0.005


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    bottom: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def top(self) -> float:
        return self.bottom + self.height

    def expand(self, margin: float) -> "Box":
        """The same box with a margin added (or, if negative, cut off) on every side."""
        return self.expand_sides(margin, margin)

    def expand_sides(self, horizontal: float, vertical: float) -> "Box":
        """The same box with one margin added on its left and right, another above and below."""
        return Box(
            self.left - horizontal, self.bottom - vertical, self.width + 2 * horizontal, self.height + 2 * vertical
        )

    def contains(self, other: "Box") -> bool:
        return (
            self.left <= other.left + _TOLERANCE
            and self.bottom <= other.bottom + _TOLERANCE
            and other.right <= self.right + _TOLERANCE
            and other.top <= self.top + _TOLERANCE
        )

    def overlaps(self, other: "Box") -> bool:
        """Whether the two share more than an edge; a line crosses a box without having an area."""
        return (
            self.left < other.right - _TOLERANCE
            and other.left < self.right - _TOLERANCE
            and self.bottom < other.top - _TOLERANCE
            and other.bottom < self.top - _TOLERANCE
        )
