"""From a latitude and longitude to a point on our map of the States: the Albers projection, with Alaska,
smaller than it is, and Hawaii below the south-west.

The parameters are those of the picture `states.svg` (see `tools/draw_states.py`), which is 975 units wide
and 610 high.
"""

from dataclasses import dataclass
from math import cos, radians, sin, sqrt
from typing import Final

WIDTH: Final = 975
HEIGHT: Final = 610
_SCALE, _MIDDLE = 1300.0, (487.5, 305.0)

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Conic:
    """An equal-area projection onto a cone that touches the Earth at two parallels. `meridian` is straight
    up, and `centre`, in degrees from it and from the equator, comes to lie at `at`."""

    parallels: tuple[float, float]
    meridian: float
    centre: tuple[float, float]
    at: Point
    scale: float

    def point(self, latitude: float, longitude: float) -> Point:
        x, y = self._raw(longitude - self.meridian, latitude)
        middle_x, middle_y = self._raw(*self.centre)
        return self.at[0] + self.scale * (x - middle_x), self.at[1] - self.scale * (y - middle_y)

    def _raw(self, east: float, north: float) -> Point:
        first, second = (sin(radians(parallel)) for parallel in self.parallels)
        n = (first + second) / 2
        c = 1 + first * (2 * n - first)
        radius = sqrt(c - 2 * n * sin(radians(north))) / n
        turn = n * radians(east)
        return radius * sin(turn), sqrt(c) / n - radius * cos(turn)


def _inset(right: float, down: float) -> Point:
    return _MIDDLE[0] + right * _SCALE, _MIDDLE[1] + down * _SCALE


_MAINLAND: Final = Conic((29.5, 45.5), -96, (-0.6, 38.7), _MIDDLE, _SCALE)
_ALASKA: Final = Conic((55, 65), -154, (-2, 58.5), _inset(-0.307, 0.201), _SCALE * 0.35)
_HAWAII: Final = Conic((8, 18), -157, (-3, 19.9), _inset(-0.205, 0.212), _SCALE)


def on_map(latitude: float, longitude: float) -> Point | None:
    """Where on the map this is; None where it is not on it, as Puerto Rico and Guam."""
    if 50 < latitude < 72 and (longitude < -129 or longitude > 170):
        return _ALASKA.point(latitude, longitude if longitude < 0 else longitude - 360)
    if 18 < latitude < 23 and -161 < longitude < -154:
        return _HAWAII.point(latitude, longitude)
    if 24 < latitude < 50 and -125 < longitude < -66:
        return _MAINLAND.point(latitude, longitude)
    return None
