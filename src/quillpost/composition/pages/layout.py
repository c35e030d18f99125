"""Line breaking and fitting: which words share a line, and how large they can be."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from quillpost.composition.hands.faces import Face
from quillpost.composition.hands.hand import Hand
from quillpost.composition.pages.paragraph import Line, Paragraph, paragraph_of
from quillpost.composition.pages.pieces import Box

LARGEST, SMALLEST = 26.0, 11.0
FIXED_SIZES = {"large": 22.0, "medium": 17.0, "small": 13.0}

_HALF_POINTS = tuple(half / 2 for half in range(int(SMALLEST * 2), int(LARGEST * 2) + 1))

# In font sizes. A person's margin and baseline wander; the fit leaves room for the most.
LEADING = 1.1
MARGIN_WANDER = 0.28
BASELINE_WANDER = 0.055
_USUAL_TOP = 0.66


class DoesNotFit(Exception):
    """A text is too long for its place on the piece; `message` tells the sender what to do."""

    def __init__(self, overflow_lines: int, message: str) -> None:
        super().__init__(message)
        self.overflow_lines = overflow_lines
        self.message = message


@dataclass(frozen=True, slots=True)
class Setting:
    """A message broken into lines at the size at which it fits; an empty line is a blank one."""

    size: float
    lines: tuple[Line, ...]

    @property
    def first_baseline(self) -> float:
        """How far under the top of the box the first line stands."""
        highest = max((word.top for word in self.lines[0]), default=0.0)
        return (max(_USUAL_TOP, highest) + BASELINE_WANDER) * self.size

    @property
    def height(self) -> float:
        deepest = max((word.bottom for word in self.lines[-1]), default=0.0)
        below = (LEADING * (len(self.lines) - 1) + deepest + BASELINE_WANDER) * self.size
        return self.first_baseline + below


def set_message(hand: Hand, text: str, box: Box, font_size: str, title: str) -> Setting:
    """The message as large as `font_size` asks for, or DoesNotFit. `title` names the piece."""
    paragraphs = [paragraph_of(hand, line) for line in text.strip().splitlines()]
    sizes = _HALF_POINTS if font_size == "auto" else (FIXED_SIZES[font_size],)
    # Whatever does not fit at one size does not fit at a larger one either.
    first_too_large = bisect_left(
        sizes, True, key=lambda size: _set(paragraphs, box.width, size).height > box.height
    )
    if first_too_large:
        return _set(paragraphs, box.width, sizes[first_too_large - 1])
    raise _overflow(_set(paragraphs, box.width, sizes[0]), box, font_size, title)


def wrap_lines(face: Face, lines: Iterable[str], width: float) -> list[str]:
    """The lines, none wider than `width` font sizes; a word that is wider is broken."""
    return [part for line in lines for part in _wrapped(face, line, width)]


def set_plain(
    face: Face, lines: Sequence[str], box: Box, sizes: Iterable[float], leading: float
) -> tuple[float, list[str]] | None:
    """The first of the sizes at which the lines, wrapped, fit the box, and the lines so wrapped."""
    for size in sizes:
        wrapped = wrap_lines(face, lines, box.width / size)
        if len(wrapped) * leading * size <= box.height:
            return size, wrapped
    return None


def _set(paragraphs: Sequence[Paragraph], width: float, size: float) -> Setting:
    usable = width / size - MARGIN_WANDER
    lines = [line for paragraph in paragraphs for line in paragraph.lines(usable)]
    return Setting(size, tuple(lines) or ((),))


def _wrapped(face: Face, text: str, width: float) -> Iterator[str]:
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


def _chopped(face: Face, word: str, width: float) -> list[str]:
    parts, start, reach = [], 0, 0.0
    for place, letter in enumerate(word):
        advance = face.measure(letter)
        if reach + advance > width and place > start:
            parts.append(word[start:place])
            start, reach = place, 0.0
        reach += advance
    return [*parts, word[start:]]


def _overflow(setting: Setting, box: Box, font_size: str, title: str) -> DoesNotFit:
    excess = setting.height - box.height
    lines = max(1, ceil(excess / (LEADING * setting.size)))
    letters = sum(len(word.text) + 1 for line in setting.lines for word in line)
    per_line = letters / len(setting.lines)
    too_much = max(10, round(lines * per_line / 10) * 10)
    plural = "line" if lines == 1 else "lines"
    at_size = "even at the smallest size" if font_size == "auto" else f"at the {font_size} size"
    return DoesNotFit(
        lines,
        f"The message is {lines} {plural} too long for a {title} {at_size};"
        f" shorten it by about {too_much} characters.",
    )
