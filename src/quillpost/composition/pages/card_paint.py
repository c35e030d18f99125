"""The colours of a gift card, all made from its brand's one, and the shapes that they are laid on in."""

from quillpost.composition.content import Ink
from quillpost.composition.geometry import Box
from quillpost.composition.pages.contrast import READABLE, VISIBLE, contrast

_WHITE: Ink = (1.0, 1.0, 1.0)
_DARK: Ink = (0.1, 0.11, 0.16)
_FRAME: Ink = (0.78, 0.72, 0.62)

_GLOW, _BRIGHT_GLOW, _FOLD, _RIBBON, _KNOT = 0.06, 0.12, 0.16, 0.26, 0.36
_LIGHT_NEEDS = 2.2

# How far a curve's handles reach so that it looks like a quarter of a circle.
_ROUND = 0.5523

# Drawn by hand around the knot: both ends, both loops, the shade inside them, and the knot itself.
_BOW = (
    b"%b rg -2 2 m -6 -12 -14 -25 -28 -34 c -22 -34 -18 -35 -15 -36 c -14 -39 -14 -42 -14 -46 c"
    b" -4 -34 2 -18 4 0 c h f 2 2 m 6 -12 14 -25 28 -34 c 22 -34 18 -35 15 -36 c 14 -39 14 -42 14 -46 c"
    b" 4 -34 -2 -18 -4 0 c h f"
    b" %b rg 0 1 m -10 22 -36 34 -43 22 c -50 8 -30 -12 0 -3 c h f"
    b" 0 1 m 10 22 36 34 43 22 c 50 8 30 -12 0 -3 c h f"
    b" %b rg -6 1 m -14 15 -31 23 -35 17 c -39 8 -24 -3 -6 -1 c h f"
    b" 6 1 m 14 15 31 23 35 17 c 39 8 24 -3 6 -1 c h f"
    b" %b rg -6 -6 m -8 -2 -8 4 -6 8 c -2 10 2 10 6 8 c 8 4 8 -2 6 -6 c 2 -8 -2 -8 -6 -6 c h f"
)


class Paint:
    """What is readable and what is pretty on a card of a brand's colour, as operands."""

    def __init__(self, accent: Ink) -> None:
        is_seen = contrast(accent, _WHITE) >= VISIBLE
        # White paper is no card: what is as pale is made a little darker, and has an edge.
        ground = accent if is_seen else _mixed(accent, _FRAME, 0.18)
        is_dark = contrast(_mixed(ground, _WHITE, _BRIGHT_GLOW), _WHITE) >= READABLE
        self.ground = _operands(ground)
        self.edge = None if is_seen else _operands(_FRAME)
        self.ink = _operands(_WHITE if is_dark else _DARK)
        # On a light ground it takes more white to be noticed.
        self.glow, self.bright_glow, self.fold, self.ribbon, self.knot = (
            _operands(_mixed(ground, _WHITE, share if is_dark else _LIGHT_NEEDS * share))
            for share in (_GLOW, _BRIGHT_GLOW, _FOLD, _RIBBON, _KNOT)
        )


def rounded(box: Box, radius: float) -> bytes:
    """The path of a rectangle with round corners."""
    left, bottom, right, top = box.left, box.bottom, box.right, box.top
    handle = radius * (1 - _ROUND)
    corners = (
        (right - radius, bottom, right - handle, bottom, right, bottom + handle, right, bottom + radius),
        (right, top - radius, right, top - handle, right - handle, top, right - radius, top),
        (left + radius, top, left + handle, top, left, top - handle, left, top - radius),
        (left, bottom + radius, left, bottom + handle, left + handle, bottom, left + radius, bottom),
    )
    path = b" ".join(b"%.2f %.2f l %.2f %.2f %.2f %.2f %.2f %.2f c" % corner for corner in corners)
    return b"%.2f %.2f m %b h" % (left + radius, bottom, path)


def circle(across: float, up: float, radius: float) -> bytes:
    """The path of a circle around that place."""
    return rounded(Box(across - radius, up - radius, 2 * radius, 2 * radius), radius)


def draw_bow(paint: Paint, knot: tuple[float, float], scale: float) -> bytes:
    """A bow of ribbon, its knot at that place; at scale 1 it is about 90 points wide."""
    bow = _BOW % (paint.fold, paint.ribbon, paint.fold, paint.knot)
    return b"q %.3f 0 0 %.3f %.2f %.2f cm %b Q\n" % (scale, scale, *knot, bow)


def _operands(colour: Ink) -> bytes:
    return b"%.3f %.3f %.3f" % colour


def _mixed(colour: Ink, other: Ink, share: float) -> Ink:
    red, green, blue = (a + (b - a) * share for a, b in zip(colour, other, strict=True))
    return red, green, blue
