"""Words broken into lines, by their usual widths to find a size, and then by those with which they are written."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from quillpost.rendering.layout.models import Floats, Integers, Passage, PassageLayout

Thing = TypeVar("Thing")

# In font sizes. A person's lines are not quite level nor quite flush: the fit leaves them this room, and `WANDER_ROOM`.
LEAN_ROOM = 0.03
LINE_MARGIN = 0.1
FREE_OVERHANG = 0.08  # a word whose first letter reaches back farther needs a wider gap before it

# What a word gives that runs on past the edge: it is condensed, and so is the gap before it.
MAX_CONDENSED_PERCENT = 10
MAX_SQUEEZE = 0.5

_MAX_SLOW_ROWS = 8


class LineBreaker:
    """Passages in rows, words in columns; measures are in font sizes, and `breaks` counts the line ends before a word.

    A passage with fewer words than others stays on its last line.
    """

    def __init__(self, advance: Floats, left: Floats, right: Floats, gaps: Floats, breaks: Integers) -> None:
        # Columns one after the other in memory, as the walk along the lines reads them.
        advance, left, self._right_overhangs = (np.ascontiguousarray(measure.T) for measure in (advance, left, right))
        self._word_steps = np.where(advance > 0, advance + gaps.T, 0.0)
        self._first_word_widths = left + advance
        self._breaks = np.ascontiguousarray(breaks.T)
        self._has_breaks: list[bool] = np.asarray(self._breaks.any(axis=1)).tolist()

    @property
    def widest_words(self) -> Floats:
        widest: Floats = (self._first_word_widths + self._right_overhangs).max(axis=0, initial=0.0)
        return widest

    def break_lines(self, line_widths: Floats) -> Integers:
        """The line of every word; words in rows, passages in columns."""
        if len(line_widths) <= _MAX_SLOW_ROWS:
            row_lines = [self._break_lines_of_row(row, width) for row, width in enumerate(line_widths.tolist())]
            return np.array(row_lines, np.int64).T
        lines = np.zeros(self._word_steps.shape, np.int64)
        if not len(lines):
            return lines
        line, reach = lines[0], self._first_word_widths[0]
        for column in range(1, len(lines)):
            next_reach = reach + self._word_steps[column]
            wraps = next_reach + self._right_overhangs[column] > line_widths
            if self._has_breaks[column]:
                breaks = self._breaks[column]
                line = line + np.maximum(wraps, breaks)
                wraps = wraps | (breaks > 0)
            else:
                line = line + wraps
            reach = np.where(wraps, self._first_word_widths[column], next_reach)
            lines[column] = line
        return lines

    def _break_lines_of_row(self, row: int, line_width: float) -> list[int]:
        """The same for one passage, as in a preview: plain Python costs less than calls of numpy."""
        columns = (self._word_steps, self._first_word_widths, self._right_overhangs, self._breaks)
        steps, firsts, rights, breaks = (column[:, row].tolist() for column in columns)
        lines, line, reach = [0] * len(steps), 0, firsts[0] if firsts else 0.0
        for index in range(1, len(steps)):
            next_reach = reach + steps[index]
            wraps = next_reach + rights[index] > line_width
            line += max(wraps, breaks[index])
            reach = firsts[index] if wraps or breaks[index] else next_reach
            lines[index] = line
        return lines


def fill_lines(
    layout: PassageLayout,
    advance: Floats,
    left: Floats,
    right: Floats,
    *,
    gap_noise: Floats,
    overruns: Floats,
    margins: Floats,
) -> Integers:
    """Lines of the words as they are written: one that would pass the edge by little may stay, and another may not.

    `overruns` are shares of the line by which each word may pass the edge; it and the gap before it must be able to
    give as much. `margins` are what most lines of a passage need on their left. Never more lines than the fit found
    room for; where a long word is broken they are those of the fit.
    """
    if not layout.word_numbers.shape[1]:
        return layout.line_numbers
    gaps = (layout.word_gap + np.maximum(left - FREE_OVERHANG, 0.0)) * (1 + gap_noise)
    box_left, box_right, _, _ = box_edges(layout.passages)
    line_widths = (box_right - box_left) / layout.sizes - 2 * LEAN_ROOM - margins
    spared = MAX_CONDENSED_PERCENT / 100 * advance + MAX_SQUEEZE * gaps
    limits = right - np.minimum(overruns * line_widths[:, None], spared)
    lines = LineBreaker(advance, left, limits, gaps, layout.breaks).break_lines(line_widths).T
    last_words = np.maximum(layout.word_counts - 1, 0)[:, None]
    last_lines = np.take_along_axis(lines, last_words, 1)
    keeps_lines = layout.is_broken[:, None] | (last_lines > np.take_along_axis(layout.line_numbers, last_words, 1))
    return np.where(keeps_lines, layout.line_numbers, np.minimum(lines, last_lines))


def box_edges(passages: Sequence[Passage]) -> Floats:
    """Left, right, bottom and top of the passages' boxes."""
    boxes = [passage.box for passage in passages]
    return read_distinct(boxes, lambda box: (box.left, box.left + box.width, box.bottom, box.bottom + box.height))


def read_distinct(items: Sequence[Thing], read: Callable[[Thing], Sequence[float]]) -> Floats:
    """What is read of each item, in columns; one column where all items are the same object."""
    distinct = {id(item): item for item in items}
    table = np.array([read(item) for item in distinct.values()], np.float64)
    if len(distinct) != 1:
        column_by_id = {item_id: column for column, item_id in enumerate(distinct)}
        table = table[[column_by_id[id(item)] for item in items]]
    return table.T
