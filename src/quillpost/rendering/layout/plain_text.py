"""Plain type in a box: as large as it fits, flush or centered."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from quillpost.rendering.geometry import Box
from quillpost.rendering.handwriting.hand import PLAIN_FONT
from quillpost.rendering.handwriting.plain import Lettering
from quillpost.rendering.layout.paragraphs import DoesNotFit

# In font sizes: how far capitals rise from the baseline, and letters hang below it.
ASCENT = 0.75
_DESCENT = 0.2

Settings = Sequence[tuple[float, float]]


class Block(NamedTuple):
    """Lines at the size at which they fit; `leading` is in font sizes."""

    size: float
    leading: float
    lines: Sequence[str]

    @property
    def height(self) -> float:
        return _height(len(self.lines), self.leading) * self.size

    def width(self, face: Lettering) -> float:
        return max(map(face.measure, self.lines)) * self.size


def tidy(text: str, face: Lettering) -> str:
    """The text in one line of legible letters. Most text is, and is told so quickly."""
    text = text.strip()
    if text.isascii() and text.isprintable() and "  " not in text:
        return text
    return face.legible(" ".join(text.split()))


def capitals(text: str, face: Lettering) -> str:
    """The same in capitals; one that the face lacks is spelt as other letters are."""
    shown = tidy(text, face).upper()
    return shown if shown.isascii() else tidy(shown, face)


def fit(lines: Sequence[str], box: Box, settings: Settings, face: Lettering) -> Block | None:
    """The lines at the first setting, a size and its leading, at which they fit the box.

    They are broken only if they are too wide at every one of the settings.
    """
    widest = max(map(face.measure, lines))
    for size, leading in settings:
        if widest * size <= box.width and _height(len(lines), leading) * size <= box.height:
            return Block(size, leading, lines)
    for size, leading in settings:
        wrapped = [part for line in lines for part in _wrapped(face, line, box.width / size)]
        if _height(len(wrapped), leading) * size <= box.height:
            return Block(size, leading, wrapped)
    return None


def show_if_short(lines: Sequence[str], box: Box, setting: tuple[float, float], face: Lettering) -> bytes:
    """The lines at that setting where they clearly fit, as nearly all addresses do; else nothing."""
    size, leading = setting
    if _height(len(lines), leading) * size > box.height:
        return b""
    room = box.width / size
    shown = [_begin(size, leading, box.left, box.top)]
    for line in lines:
        if face.at_most(line) > room:
            return b""
        shown.append(face.encode(line))
        shown.append(b"'\n")
    shown.append(b"ET\n")
    return b"".join(shown)


def too_long(lines: Iterable[str], box: Box, settings: Settings, face: Lettering, what: str) -> DoesNotFit:
    """What to raise for lines that no setting takes in."""
    size, leading = settings[-1]
    wrapped = [part for line in lines for part in _wrapped(face, line, box.width / size)]
    excess = _height(len(wrapped), leading) * size - box.height
    overflow = max(1, ceil(excess / (leading * size)))
    return DoesNotFit(overflow, f"The {what} is too long for the piece; shorten its lines.")


def show(block: Block, box: Box, face: Lettering) -> bytes:
    """The block's lines from the top of the box, with one left margin."""
    shown = [_begin(block.size, block.leading, box.left, box.top)]
    for line in block.lines:
        shown.append(face.encode(line))
        shown.append(b"'\n")
    shown.append(b"ET\n")
    return b"".join(shown)


@lru_cache(maxsize=256)
def _begin(size: float, leading: float, left: float, top: float) -> bytes:
    """Sets the face; remembered, as the blocks of a batch stand in few places and sizes."""
    return b"BT 0 g %b %.1f Tf %.2f TL %.2f %.2f Td\n" % (
        PLAIN_FONT,
        size,
        size * leading,
        left,
        # The operator that shows a line first moves down to it.
        top - size * ASCENT + size * leading,
    )


def _height(count: int, leading: float) -> float:
    return ASCENT + _DESCENT + (count - 1) * leading


def _wrapped(face: Lettering, text: str, width: float) -> Iterator[str]:
    """The text in lines no wider than that; a word that is wider is broken."""
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if face.measure(longer) <= width:
            line = longer
            continue
        if line:
            yield line
        *filled, line = _chopped(face, word, width)
        yield from filled
    if line:
        yield line


def _chopped(face: Lettering, word: str, width: float) -> list[str]:
    parts, start, reach = [], 0, 0.0
    for place, letter in enumerate(word):
        advance = face.measure(letter)
        if reach + advance > width and place > start:
            parts.append(word[start:place])
            start, reach = place, 0.0
        reach += advance
    return [*parts, word[start:]]


_CENTERED_DESCENT = 0.22


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
        return _centered_height(len(self.lines), self.manner) * self.size

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
        tallest = height / _centered_height(len(lines), manner)
        size = min(manner.size, tallest, width / widest if widest else tallest)
        if size > best.size:
            best = Centred(lines, size, manner)
        if size >= manner.least:
            break
    return best


def _centered_height(count: int, manner: Manner) -> float:
    return ASCENT + _CENTERED_DESCENT + (count - 1) * manner.leading


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
