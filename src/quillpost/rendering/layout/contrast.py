"""How well ink stands out from the art under it."""

from bisect import bisect_left
from dataclasses import dataclass

from quillpost.rendering.images.models import PictureTones
from quillpost.rendering.models import Box, Ink, contrast_ratio

HARD_TO_READ_SHARE = 0.1
"""A sender is warned where more than this share of a message is hard to read: words are lost long before all are."""

INVISIBLE_SHARE = 0.25
"""An order is held only if more of its message is nearly invisible: its sender was warned and meant it."""

_SAMPLES_PER_SIDE = 32


@dataclass(frozen=True, slots=True)
class ContrastSamples:
    """WCAG contrasts in places spread evenly over a box, the lowest first."""

    values: tuple[float, ...]

    def lowest(self, share: float) -> float:
        """That of which a share of the box has less."""
        return self.values[min(int(len(self.values) * share), len(self.values) - 1)]

    def share_below(self, contrast: float) -> float:
        return bisect_left(self.values, contrast) / len(self.values)


def measure_contrast(ink: Ink, tones: PictureTones, area: Box, box: Box) -> ContrastSamples:
    """The contrast in a box with a picture centered over the area."""
    scale = max(area.width / tones.width, area.height / tones.height)
    width, height = tones.width * scale, tones.height * scale
    left = area.left + (area.width - width) / 2
    top = area.top - (area.height - height) / 2
    fractions = [(index + 0.5) / _SAMPLES_PER_SIDE for index in range(_SAMPLES_PER_SIDE)]
    columns = [(box.left + fraction * box.width - left) / width for fraction in fractions]
    rows = [(top - box.top + fraction * box.height) / height for fraction in fractions]
    colors = [tones.color_at(across, down) for down in rows for across in columns]
    by_color = {color: contrast_ratio(ink, color) for color in dict.fromkeys(colors)}
    return ContrastSamples(tuple(sorted(map(by_color.__getitem__, colors))))
