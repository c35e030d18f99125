"""Whether a colour can be seen on a paper: contrast as WCAG reckons it."""

from quillpost.rendering.geometry import Box
from quillpost.rendering.images.tones import Tones
from quillpost.rendering.models import Ink

READABLE = 3.0
VISIBLE = 1.3

WHITE: Ink = (1.0, 1.0, 1.0)

_LINEAR_BELOW = 0.04045

# Looked at in so many places across and up: words are lost long before all of them are.
_PLACES = 16
_LOST_SHARE = 4


def contrast(one: Ink, other: Ink) -> float:
    """From 1, the same, to 21, black on white."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def contrast_over(ink: Ink, tones: Tones, area: Box, box: Box) -> float:
    """The contrast with a picture that is laid over the area, centered, where words fill the box: what a
    quarter of them does not reach."""
    scale = max(area.width / tones.width, area.height / tones.height)
    width, height = tones.width * scale, tones.height * scale
    left = area.left + (area.width - width) / 2
    top = area.top - (area.height - height) / 2
    shares = [(place + 0.5) / _PLACES for place in range(_PLACES)]
    found = sorted(
        contrast(
            ink,
            tones.at((box.left + a * box.width - left) / width, (top - box.top + d * box.height) / height),
        )
        for a in shares
        for d in shares
    )
    return found[len(found) // _LOST_SHARE]


def _luminance(colour: Ink) -> float:
    red, green, blue = (_linear(channel) for channel in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= _LINEAR_BELOW else ((channel + 0.055) / 1.055) ** 2.4
