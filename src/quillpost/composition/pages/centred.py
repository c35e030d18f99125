"""Plain type in centred lines of about the same length, as large as its room allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quillpost.composition.hands.hand import PLAIN_FONT
from quillpost.composition.hands.plain import Lettering
from quillpost.composition.pages.plain_text import ASCENT

_DESCENT = 0.22


@dataclass(frozen=True, slots=True)
class Manner:
    """How a text is set: at most so large and in so many lines. Leading and spacing are in font sizes.

    Another line is begun only where the text would else be smaller than `least`; with all lines in
    use it is set as small as it must be.
    """

    size: float
    least: float
    lines: int = 1
    leading: float = 1.25
    spacing: float = 0.0


class Centred(NamedTuple):
    """Lines at the size at which they fit."""

    lines: Sequence[str]
    size: float
    manner: Manner

    @property
    def height(self) -> float:
        return _height(len(self.lines), self.manner) * self.size

    def draw(self, centre: float, top: float, colour: bytes, face: Lettering) -> bytes:
        size, spacing = self.size, self.manner.spacing
        shown = [b"BT %b rg %b %.4f Tf %.4f Tc\n" % (colour, PLAIN_FONT, size, spacing * size)]
        for place, line in enumerate(self.lines):
            wide = face.measure(line) + spacing * (len(line) - 1)
            baseline = top - (ASCENT + place * self.manner.leading) * size
            at = (centre - wide * size / 2, baseline, face.encode(line))
            shown.append(b"1 0 0 1 %.2f %.2f Tm%bTj\n" % at)
        return b"".join([*shown, b"0 Tc ET\n"])


def centred(text: str, width: float, height: float, manner: Manner, face: Lettering) -> Centred:
    """The text, which is not empty, in the fewest lines that do; no wider and no higher than that."""
    words = text.split(" ")
    best = Centred((), 0.0, manner)
    for count in range(1, min(manner.lines, len(words)) + 1):
        lines, widest = _balanced(words, count, manner.spacing, face)
        tallest = height / _height(len(lines), manner)
        size = min(manner.size, tallest, width / widest if widest else tallest)
        if size > best.size:
            best = Centred(lines, size, manner)
        if size >= manner.least:
            break
    return best


def _height(count: int, manner: Manner) -> float:
    return ASCENT + _DESCENT + (count - 1) * manner.leading


def _balanced(words: Sequence[str], count: int, spacing: float, face: Lettering) -> tuple[list[str], float]:
    """The words in at most so many lines, of which the widest is as narrow as can be; and its width."""
    widths = [face.measure(word) + spacing * len(word) for word in words]
    gap = face.measure(" ") + spacing
    width = max(max(widths), (sum(widths) + gap * (len(words) - count)) / count)
    while True:
        stops, next_width = _filled(widths, gap, width)
        if len(stops) <= count:
            starts = [0, *stops[:-1]]
            return [" ".join(words[start:stop]) for start, stop in zip(starts, stops, strict=True)], width
        width = next_width


def _filled(widths: Sequence[float], gap: float, width: float) -> tuple[list[int], float]:
    """Where lines of that width end, and the least width that would end any of them later."""
    stops: list[int] = []
    reach, least = widths[0], float("inf")
    for place, word in enumerate(widths[1:], start=1):
        longer = reach + gap + word
        if longer <= width:
            reach = longer
            continue
        stops.append(place)
        least = min(least, longer)
        reach = word
    return [*stops, len(widths)], least
