"""Whether a color can be seen on a paper: contrast as WCAG reckons it."""

from quillpost.rendering.geometry import Box
from quillpost.rendering.images.tones import PictureTones
from quillpost.rendering.models import Ink

MIN_READABLE_CONTRAST = 3.0
MIN_VISIBLE_CONTRAST = 1.3

WHITE: Ink = (1.0, 1.0, 1.0)

_LINEAR_LIMIT = 0.04045

# Looked at in so many places across and up: words are lost long before all of them are.
_SAMPLES_PER_SIDE = 16
_UNREADABLE_QUOTIENT = 4


def contrast_ratio(first: Ink, second: Ink) -> float:
    """From 1, the same, to 21, black on white."""
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def contrast_over(ink: Ink, tones: PictureTones, area: Box, box: Box) -> float:
    """The contrast with a picture that is laid over the area, centered, where words fill the box: what a
    quarter of them does not reach."""
    scale = max(area.width / tones.width, area.height / tones.height)
    width, height = tones.width * scale, tones.height * scale
    left = area.left + (area.width - width) / 2
    top = area.top - (area.height - height) / 2
    fractions = [(index + 0.5) / _SAMPLES_PER_SIDE for index in range(_SAMPLES_PER_SIDE)]
    contrasts = sorted(
        contrast_ratio(
            ink,
            tones.color_at(
                (box.left + across * box.width - left) / width, (top - box.top + down * box.height) / height
            ),
        )
        for across in fractions
        for down in fractions
    )
    return contrasts[len(contrasts) // _UNREADABLE_QUOTIENT]


def _luminance(color: Ink) -> float:
    red, green, blue = (_to_linear(channel) for channel in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _to_linear(channel: float) -> float:
    return channel / 12.92 if channel <= _LINEAR_LIMIT else ((channel + 0.055) / 1.055) ** 2.4
