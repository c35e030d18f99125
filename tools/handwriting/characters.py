"""Which characters a hand draws as themselves, which it spells in others, and which it drops without a word.

All is seen on pictures: a character stands three times between two letters, and is compared with those letters alone
and with what it could be spelled as. What is dropped is sure. A character that looks like its spelling counts as
spelled; where a manner never writes alike, about two in a hundred change places between drawn and spelled.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median

import numpy as np
from anyascii import anyascii

from .pages import CARD, Floats, Pages, is_ink

CHINESE_NAMES = "王伟李娜张敏刘洋陈静杨丽赵强黄磊周杰吴刚徐明孙芳"
_TYPED_MARKS = "‘’‚“”„–—…•‹›€™№−"
_RANGES = ((0x21, 0x7E), (0xA1, 0xFF), (0x100, 0x17F), (0x370, 0x3FF), (0x400, 0x45F))
_VISIBLE_CATEGORIES = ("L", "N", "P", "S")
_GREEK = range(0x370, 0x400)

_LETTER = "n"
_REPEATS = 3  # as one accent or dot is hardly more than the difference between two words
_LINES = 5  # in a manner that never writes alike, their mean and their spread say what is chance
# Of the width of two letters alone: what lies farther in than half of it and a little is neither of them.
_LETTER_SHARE = 0.58
_STAND_IN = "?"

# Differences of two means that are no difference: in standard errors, and in shares of all the ink or of the width.
_MAX_ERRORS, _MAX_SHARE = 5.0, 0.01


@dataclass(frozen=True, slots=True)
class Characters:
    drawn: str
    spelled: str
    dropped: str


@dataclass(frozen=True, slots=True)
class _Traits:
    """Of the same text on several lines, one row each."""

    table: Floats

    def look_like(self, other: "_Traits") -> bool:
        means, other_means = self.table.mean(axis=0), other.table.mean(axis=0)
        errors = np.sqrt((self.table.var(axis=0) + other.table.var(axis=0)) / _LINES)
        return bool((abs(means - other_means) <= _MAX_ERRORS * errors + _MAX_SHARE * other_means).all())


def all_chars() -> list[str]:
    """Those that people type or paste, and that can be seen."""
    found = [chr(code) for first, last in _RANGES for code in range(first, last + 1)]
    return [char for char in (*found, *_TYPED_MARKS, *CHINESE_NAMES) if _is_measured(char)]


def _is_measured(char: str) -> bool:
    category = unicodedata.category(char)
    return category in ("Lu", "Ll") if ord(char) in _GREEK else category.startswith(_VISIBLE_CATEGORIES)


def measure_characters(pages: Pages, style: int, manner: str) -> Characters:
    sampler = _Sampler(pages, style, manner)
    groups: Mapping[str, list[str]] = {"drawn": [], "spelled": [], "dropped": []}
    for char in all_chars():
        groups[sampler.find_group(char)].append(char)
    return Characters(**{group: "".join(chars) for group, chars in groups.items()})


class _Sampler:
    """Characters between two letters, in one style and manner."""

    def __init__(self, pages: Pages, style: int, manner: str) -> None:
        self._pages, self._style, self._manner = pages, style, manner
        self._letter_width = round(_LETTER_SHARE * median(line.shape[1] for line in self._draw("")))
        self._traits_of_text = cache(lambda text: self._traits(self._draw(text)))

    def find_group(self, char: str) -> str:
        lines = self._draw(char)
        if not has_ink_between(lines, self._letter_width):
            return "dropped"
        traits = self._traits(lines)
        is_spelled = any(traits.look_like(self._traits_of_text(text)) for text in _spellings(char))
        return "spelled" if is_spelled else "drawn"

    def _draw(self, text: str) -> list[Floats]:
        line = f"{_LETTER}{text * _REPEATS}{_LETTER}"
        return self._pages.draw_lines([line] * _LINES, self._style, self._manner, side=CARD)

    def _traits(self, lines: list[Floats]) -> _Traits:
        return _Traits(np.array([line_traits(line, self._letter_width) for line in lines]))


def has_ink_between(lines: list[Floats], letter_width: int) -> bool:
    """Whether most lines have ink between their first letter and their last one."""
    return 2 * sum(bool(is_ink(line[:, letter_width:-letter_width]).any()) for line in lines) > len(lines)


def line_traits(line: Floats, letter_width: int) -> tuple[float, ...]:
    """In pixels: its width, and of what lies between its letters all ink, the edges, and how often lines cross it.

    The upper edge is counted from the foot of the first letter, the lower one from its head.
    """
    letter_rows = np.flatnonzero(is_ink(line[:, : round(0.8 * letter_width)]).any(axis=1))
    between = line[:, letter_width:-letter_width]
    ink = is_ink(between)
    rows = np.flatnonzero(ink.any(axis=1))
    top, bottom = (float(rows[0]), float(rows[-1])) if len(rows) else (0.0, 0.0)
    crossings = (float((np.diff(ink.astype(np.int8), axis=axis) > 0).sum()) for axis in (0, 1))
    return float(line.shape[1]), float(between.sum()), letter_rows[-1] - top, bottom - letter_rows[0], *crossings


def _spellings(char: str) -> Iterator[str]:
    """What an engine may write in its place, if that is something else."""
    latin = "".join(anyascii(char).split())
    yield from (text for text in (latin, _STAND_IN) if text and text != char)
