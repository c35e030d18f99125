"""A map of a radius search without any map: where the addresses lie around the middle. Dots along a street
draw it by themselves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SIZE: Final = 600
MARGIN: Final = 40
MILES_A_DEGREE: Final = 69.0
"""Of latitude; of longitude there are fewer towards the poles."""
SCALES: Final = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 50, 100)
LEAST_MILES: Final = 0.02

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Map:
    """In the units of a drawing `SIZE` wide and high, north up, with the middle in its middle."""

    dots: str
    """One path of strokes without length, each of which is a dot."""
    shown: int
    miles: float
    """To the farthest."""
    ring: float
    scale: float
    """Miles that the bar at the edge stands for."""
    bar: float

    @property
    def size(self) -> int:
        return SIZE

    @property
    def middle(self) -> int:
        return SIZE // 2


def map_of(middle: Place, places: Sequence[Place | None]) -> Map | None:
    """Nothing where the source tells no places."""
    known = [_miles(middle, place) for place in places if place is not None]
    if not known:
        return None
    miles = max(math.hypot(east, north) for east, north in known)
    a_mile = (SIZE / 2 - MARGIN) / max(miles, LEAST_MILES)
    dots = {(round(SIZE / 2 + east * a_mile), round(SIZE / 2 - north * a_mile)) for east, north in known}
    scale = max([each for each in SCALES if each * a_mile <= SIZE / 3], default=SCALES[0])
    return Map(
        dots="".join(f"M{x} {y}h0" for x, y in sorted(dots)),
        shown=len(known),
        miles=miles,
        ring=round(miles * a_mile, 1),
        scale=scale,
        bar=round(scale * a_mile, 1),
    )


def _miles(middle: Place, place: Place) -> tuple[float, float]:
    """How far east and north of the middle it is. Over so short a way the earth is flat."""
    east = (place[1] - middle[1]) * MILES_A_DEGREE * math.cos(math.radians(middle[0]))
    return east, (place[0] - middle[0]) * MILES_A_DEGREE
