"""Whether a picture has pixels enough for the size at which it prints."""

import math

from quillpost.composition.geometry import INCH, Box

SHARP_DPI = 300

# Sizes are exact in inches and not quite in floating point.
_HAIR = 1e-6


def printed_dpi(width: int, height: int, area: Box) -> float:
    """The resolution of an upright picture that covers the area."""
    return min(width / area.width, height / area.height) * INCH


def whole_dpi(width: int, height: int, area: Box) -> int:
    """The same in whole dots."""
    return math.floor(printed_dpi(width, height, area) + _HAIR)


def resolution_note(
    width: int, height: int, area: Box, *, what: str, where: str = "this piece"
) -> str | None:
    """A warning when the picture will look soft; `what` names it and `where` its piece: "a 4x6 postcard"."""
    dpi = whole_dpi(width, height, area)
    if dpi >= SHARP_DPI:
        return None
    across, up = (math.ceil(side / INCH * SHARP_DPI - _HAIR) for side in (area.width, area.height))
    return (
        f"{what} is {width} x {height} pixels: on {where} that prints at {dpi} dpi"
        f" and will look soft; {across} x {up} pixels give {SHARP_DPI} dpi."
    )
