"""Whether a colour can be seen on a paper: contrast as WCAG reckons it."""

from quillpost.composition.content import Ink

READABLE = 3.0
VISIBLE = 1.3

_LINEAR_BELOW = 0.04045


def contrast(one: Ink, other: Ink) -> float:
    """From 1, the same, to 21, black on white."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Ink) -> float:
    red, green, blue = (_linear(channel) for channel in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= _LINEAR_BELOW else ((channel + 0.055) / 1.055) ** 2.4
