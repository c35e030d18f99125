"""Plain type in a box: as large as fits, flush or centered."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from quillpost.rendering.handwriting.hand import PLAIN_FONT
from quillpost.rendering.handwriting.text import CachedFace
from quillpost.rendering.layout.paragraphs import DoesNotFit
from quillpost.rendering.models import Box

# In font sizes: how far capitals rise from the baseline, and letters hang below it.
ASCENT = 0.75
_DESCENT = 0.2

TextSettings = Sequence[tuple[float, float]]


class TextBlock(NamedTuple):
    """Lines at the size at which they fit; `leading` is in font sizes."""

    size: float
    leading: float
    lines: Sequence[str]

    @property
    def height(self) -> float:
        return _lines_height(len(self.lines), self.leading) * self.size

    def measure_width(self, face: CachedFace) -> float:
        return max(map(face.text_width, self.lines)) * self.size


def clean_line(text: str, face: CachedFace) -> str:
    """The text in one line of legible letters, with a fast path for most text."""
    text = text.strip()
    if text.isascii() and text.isprintable() and "  " not in text:
        return text
    return face.make_legible(" ".join(text.split()))


def clean_capitals(text: str, face: CachedFace) -> str:
    """The same in capitals; one that the face lacks is transliterated."""
    upper_text = clean_line(text, face).upper()
    return upper_text if upper_text.isascii() else clean_line(upper_text, face)


def fit_lines(lines: Sequence[str], box: Box, settings: TextSettings, face: CachedFace) -> TextBlock | None:
    """The lines at the first setting (size and leading) that fits; broken only if too wide at every setting."""
    widest = max(map(face.text_width, lines))
    for size, leading in settings:
        if widest * size <= box.width and _lines_height(len(lines), leading) * size <= box.height:
            return TextBlock(size, leading, lines)
    for size, leading in settings:
        wrapped = [part for line in lines for part in _wrap(face, line, box.width / size)]
        if _lines_height(len(wrapped), leading) * size <= box.height:
            return TextBlock(size, leading, wrapped)
    return None


def draw_if_short(lines: Sequence[str], box: Box, setting: tuple[float, float], face: CachedFace) -> bytes:
    """The lines at that setting if they clearly fit, as nearly all addresses do; else b""."""
    size, leading = setting
    if _lines_height(len(lines), leading) * size > box.height:
        return b""
    max_width = box.width / size
    operators = [_text_prefix(size, leading, box.left, box.top)]
    for line in lines:
        if face.max_width(line) > max_width:
            return b""
        operators.append(face.encode(line))
        operators.append(b"'\n")
    operators.append(b"ET\n")
    return b"".join(operators)


def too_long_error(
    lines: Iterable[str], box: Box, settings: TextSettings, face: CachedFace, text_name: str
) -> DoesNotFit:
    """The error for lines that fit at no setting."""
    size, leading = settings[-1]
    wrapped = [part for line in lines for part in _wrap(face, line, box.width / size)]
    excess = _lines_height(len(wrapped), leading) * size - box.height
    overflow = max(1, ceil(excess / (leading * size)))
    return DoesNotFit(overflow, f"The {text_name} is too long for the piece; shorten its lines.")


def draw_block(block: TextBlock, box: Box, face: CachedFace) -> bytes:
    operators = [_text_prefix(block.size, block.leading, box.left, box.top)]
    for line in block.lines:
        operators.append(face.encode(line))
        operators.append(b"'\n")
    operators.append(b"ET\n")
    return b"".join(operators)


@lru_cache(maxsize=256)
def _text_prefix(size: float, leading: float, left: float, top: float) -> bytes:
    """Cached: the blocks of a batch stand in few places and sizes."""
    return b"BT 0 g %b %.1f Tf %.2f TL %.2f %.2f Td\n" % (
        PLAIN_FONT,
        size,
        size * leading,
        left,
        # The operator that shows a line first moves down to it.
        top - size * ASCENT + size * leading,
    )


def _lines_height(count: int, leading: float) -> float:
    return ASCENT + _DESCENT + (count - 1) * leading


def _wrap(face: CachedFace, text: str, width: float) -> Iterator[str]:
    """Lines no wider than that; a wider word is broken."""
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if face.text_width(longer) <= width:
            line = longer
            continue
        if line:
            yield line
        *filled, line = _chop_word(face, word, width)
        yield from filled
    if line:
        yield line


def _chop_word(face: CachedFace, word: str, width: float) -> list[str]:
    parts, start, width_so_far = [], 0, 0.0
    for index, char in enumerate(word):
        advance = face.text_width(char)
        if width_so_far + advance > width and index > start:
            parts.append(word[start:index])
            start, width_so_far = index, 0.0
        width_so_far += advance
    return [*parts, word[start:]]


_CENTERED_DESCENT = 0.22


@dataclass(frozen=True, slots=True)
class TextStyle:
    """Leading and spacing are in font sizes. A further line begins only where text would be smaller than `least`."""

    size: float
    least: float
    lines: int = 1
    leading: float = 1.25
    spacing: float = 0.0


class CenteredText(NamedTuple):
    lines: Sequence[str]
    size: float
    style: TextStyle

    @property
    def height(self) -> float:
        return _centered_height(len(self.lines), self.style) * self.size

    def draw(self, center: float, top: float, color: bytes, face: CachedFace) -> bytes:
        size, spacing = self.size, self.style.spacing
        operators = [b"BT %b rg %b %.4f Tf %.4f Tc\n" % (color, PLAIN_FONT, size, spacing * size)]
        for index, line in enumerate(self.lines):
            line_width = face.text_width(line) + spacing * (len(line) - 1)
            baseline = top - (ASCENT + index * self.style.leading) * size
            position = (center - line_width * size / 2, baseline, face.encode(line))
            operators.append(b"1 0 0 1 %.2f %.2f Tm%bTj\n" % position)
        return b"".join([*operators, b"0 Tc ET\n"])


def fit_centered(text: str, width: float, height: float, style: TextStyle, face: CachedFace) -> CenteredText:
    """A nonempty text in the fewest lines, no wider and no higher than that."""
    words = text.split(" ")
    best = CenteredText((), 0.0, style)
    for count in range(1, min(style.lines, len(words)) + 1):
        lines, widest = _balance_lines(words, count, style.spacing, face)
        max_size = height / _centered_height(len(lines), style)
        size = min(style.size, max_size, width / widest if widest else max_size)
        if size > best.size:
            best = CenteredText(lines, size, style)
        if size >= style.least:
            break
    return best


def _centered_height(count: int, style: TextStyle) -> float:
    return ASCENT + _CENTERED_DESCENT + (count - 1) * style.leading


def _balance_lines(words: Sequence[str], count: int, spacing: float, face: CachedFace) -> tuple[list[str], float]:
    """At most so many lines of which the widest is as narrow as possible, and its width."""
    widths = [face.text_width(word) + spacing * len(word) for word in words]
    gap = face.text_width(" ") + spacing
    width = max(max(widths), (sum(widths) + gap * (len(words) - count)) / count)
    while True:
        stops, next_width = _fill_lines(widths, gap, width)
        if len(stops) <= count:
            starts = [0, *stops[:-1]]
            return [" ".join(words[start:stop]) for start, stop in zip(starts, stops, strict=True)], width
        width = next_width


def _fill_lines(widths: Sequence[float], gap: float, width: float) -> tuple[list[int], float]:
    """Where lines of that width end, and the least width that would end any of them later."""
    stops: list[int] = []
    line_width, next_width = widths[0], float("inf")
    for index, word_width in enumerate(widths[1:], start=1):
        longer_width = line_width + gap + word_width
        if longer_width <= width:
            line_width = longer_width
            continue
        stops.append(index)
        next_width = min(next_width, longer_width)
        line_width = word_width
    return [*stops, len(widths)], next_width
