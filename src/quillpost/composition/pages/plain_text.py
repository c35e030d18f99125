"""Plain type set in a box: as large as it fits, and broken only where it must be."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from quillpost.composition.geometry import Box
from quillpost.composition.hands.hand import PLAIN_FONT
from quillpost.composition.hands.plain import Lettering
from quillpost.composition.pages.layout import DoesNotFit

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
