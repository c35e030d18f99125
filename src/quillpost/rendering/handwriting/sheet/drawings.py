"""What was written on a sheet as SVG, so that a page can show each letter."""

import numpy as np

from quillpost.rendering.handwriting.sheet.models import WrittenChar

# All letters are as high, so that they stand on one line; x-heights.
_TOP, _BOTTOM = 2.7, -1.7
_MARGIN = 0.2
_UNITS = 100  # an x-height
_MIN_WIDTH, _MIN_PEN = 0.4, 0.04


def draw_as_svg(char: WrittenChar) -> str:
    """An `svg` element in the color of the text around it; it has a size only from the page's style."""
    points = np.concatenate([np.zeros((1, 2)), *char.strokes])
    width = max(float(points[:, 0].max()), _MIN_WIDTH) + 2 * _MARGIN
    bottom, top = min(_BOTTOM, float(points[:, 1].min()) - _MARGIN), max(_TOP, float(points[:, 1].max()) + _MARGIN)
    view_box = [-_MARGIN * _UNITS, -top * _UNITS, width * _UNITS, (top - bottom) * _UNITS]
    path = "".join(
        "M" + "L".join(f"{x:.0f} {-y:.0f}" for x, y in (stroke * _UNITS).tolist()) for stroke in char.strokes
    )
    pen = 2 * max(char.radius, _MIN_PEN) * _UNITS
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{" ".join(f"{edge:.0f}" for edge in view_box)}">'
        f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="{pen:.0f}"'
        ' stroke-linecap="round" stroke-linejoin="round"/></svg>'
    )
