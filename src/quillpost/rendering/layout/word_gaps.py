"""Where the words of each line stand: margins and gaps, wider where there is room and closer where there is not."""

from typing import NamedTuple

import numpy as np

from quillpost.rendering.layout.line_breaks import (
    FREE_OVERHANG,
    LEAN_ROOM,
    MAX_CONDENSED_PERCENT,
    MAX_SQUEEZE,
    box_edges,
)
from quillpost.rendering.layout.models import Floats, Integers, PassageLayout

_SQUEEZE_FOR_MARGIN = 0.2  # of the gaps of a line, so that it begins where it should


class SpacedWords(NamedTuple):
    """Distances from the box's left in font sizes, and by how many per cent each word is narrower."""

    starts: Floats
    condensed: Integers


def space_words(
    layout: PassageLayout, gap_noise: Floats, margins: Floats, advance: Floats, left: Floats, right: Floats
) -> SpacedWords:
    """Wide gaps take only the spare room of a line, and a line that came out too long is set closer."""
    rows, columns = layout.word_numbers.shape
    if not columns:
        return SpacedWords(advance, np.zeros((rows, 0), np.int64))
    is_first = np.ones((rows, columns), np.bool_)
    is_first[:, 1:] = layout.line_numbers[:, 1:] != layout.line_numbers[:, :-1]
    count = margins.shape[1]
    line_ids = (np.arange(rows)[:, None] * count + layout.line_numbers).ravel()

    def sum_by_line(values: Floats) -> Floats:
        return np.bincount(line_ids, values.ravel(), rows * count).astype(np.float64)

    is_word = layout.word_numbers >= 0
    gap = np.where(is_first | ~is_word, 0.0, layout.word_gap + np.maximum(left - FREE_OVERHANG, 0.0))
    wider = gap * np.maximum(gap_noise, 0)
    narrower = gap * np.minimum(gap_noise, 0)
    natural_widths = sum_by_line(advance + gap + narrower + np.where(is_first, left, 0.0))
    # The last word of each line remains.
    last_words = np.zeros(rows * count, np.int64)
    last_words[line_ids[is_word.ravel()]] = np.flatnonzero(is_word)
    has_words = np.bincount(line_ids, is_word.ravel(), rows * count) > 0
    last_right = np.where(has_words, right.ravel()[last_words], 0.0)
    box_left, box_right, _, _ = box_edges(layout.passages)
    spare = np.repeat((box_right - box_left) / layout.sizes, count) - natural_widths - last_right - 2 * LEAN_ROOM
    requested = sum_by_line(wider)
    granted_share = np.clip((spare - margins.ravel()) / np.where(requested > 0, requested, 1.0), 0.0, 1.0)

    # Somebody sees the edge come near at the end of a line: its last word gives first, then all gaps, then the margin.
    excess = np.maximum(margins.ravel() - spare, 0.0)
    condensed = np.zeros(rows * columns, np.int64)
    last_advance = np.where(has_words, advance.ravel()[last_words], 0.0)
    full = np.flatnonzero((excess > 0) & has_words)
    shares = np.ceil(100 * excess[full] / np.maximum(last_advance[full], 1e-9))
    condensed[last_words[full]] = np.minimum(shares, MAX_CONDENSED_PERCENT).astype(np.int64)
    saved = last_advance * condensed[last_words] / 100
    gap_widths = np.maximum(sum_by_line(gap), 1e-9)
    most_given = np.clip((-spare - saved) / gap_widths, _SQUEEZE_FOR_MARGIN, MAX_SQUEEZE)
    given_up = np.minimum(np.maximum(excess - saved, 0.0) / gap_widths, most_given)
    margin = np.clip(spare + saved + given_up * gap_widths, 0.0, margins.ravel())

    closer = gap * given_up[line_ids].reshape(rows, columns)
    gap = gap + narrower - closer + wider * granted_share[line_ids].reshape(rows, columns)
    indent = np.where(is_first, left + LEAN_ROOM + margin[line_ids].reshape(rows, columns), 0.0)
    reach = np.cumsum(gap + advance, axis=1) - advance
    line_starts = np.maximum.accumulate(np.where(is_first, np.arange(columns), 0), axis=1)
    indent = np.take_along_axis(indent, line_starts, 1)
    starts = reach - np.take_along_axis(reach, line_starts, 1) + indent
    return SpacedWords(starts, condensed.reshape(rows, columns))
