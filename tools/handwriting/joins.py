"""Whether words hold together: no path has a gap, and no end that should hide in ink sticks out of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.bent_letters import MANNERS
from quillpost.rendering.handwriting.letter_tables import LetterTables
from quillpost.rendering.handwriting.letterforms import read_forms
from quillpost.rendering.handwriting.models import STYLES, Style
from quillpost.rendering.handwriting.noise import mix
from quillpost.rendering.handwriting.word_paths import PenPaths, shape_words

Floats = npt.NDArray[np.float64]

# In x-heights. Knots of letters stand no farther apart than a third, but the longest stems of capitals are bent wide.
MAX_STEP = 1.5
MAX_HIDDEN_GAP = 0.16
"""A pen's width: an end that is so near to another line is drowned in its ink."""


@dataclass(frozen=True)
class JoinErrors:
    words: int
    gaps: int
    knobs: int


def measure_joins(style: Style, manner: str, words: Sequence[str]) -> JoinErrors:
    """Each word once, in forms that are dealt out."""
    assert style.movement is not None
    tables = LetterTables(read_forms(style.movement.forms))
    forms, owners = [], []
    for number, word in enumerate(words):
        for place, char in enumerate(word):
            forms.append(tables.first_form[char] + (number + place) % len(tables.hand.forms[char]))
            owners.append(number)
    seeds = mix(np.arange(len(words), dtype=np.uint64) + np.uint64(style.number * 100_003))
    paths = shape_words(
        tables, np.array(forms), np.array(owners), seeds, MANNERS[manner],
        joining=style.movement.joining, spacing=style.movement.spacing,
    )  # fmt: skip
    return JoinErrors(len(words), len(_words_with_gaps(paths)), len(_words_with_knobs(paths)))


def natural_styles() -> list[Style]:
    return [style for style in STYLES if style.movement is not None]


def _words_with_gaps(paths: PenPaths) -> set[int]:
    path = np.repeat(np.arange(len(paths.word)), np.diff(paths.starts))
    steps = np.hypot(*np.diff(paths.knots, axis=0).T)
    is_gap = (path[1:] == path[:-1]) & ~(steps <= MAX_STEP)  # a number that is none counts, too
    return set(paths.word[path[1:][is_gap]].tolist())


def _words_with_knobs(paths: PenPaths) -> set[int]:
    """Words with a hidden end that is not near another path, nor another part of its own."""
    found = set()
    bounds = np.searchsorted(paths.word[np.argsort(paths.word, kind="stable")], np.arange(paths.word.max() + 2))
    order = np.argsort(paths.word, kind="stable")
    for word in range(len(bounds) - 1):
        numbers = order[bounds[word] : bounds[word + 1]].tolist()
        lines = [paths.knots[paths.starts[number] : paths.starts[number + 1]] for number in numbers]
        for place, number in enumerate(numbers):
            for end in (0, 1):
                if not paths.stops_at[number, end] and not _is_hidden(lines, place, end):
                    found.add(word)
    return found


def _is_hidden(lines: Sequence[Floats], place: int, end: int) -> bool:
    tip = lines[place][-1 if end else 0]
    own = lines[place][:-3] if end else lines[place][3:]
    return any(_distance(tip, line) < MAX_HIDDEN_GAP for number, line in enumerate(lines) if number != place) or (
        len(own) > 1 and _distance(tip, own) < MAX_HIDDEN_GAP
    )


def _distance(point: Floats, line: Floats) -> float:
    if len(line) < 2:
        return float(np.hypot(*(line[0] - point)))
    start, step = line[:-1], np.diff(line, axis=0)
    along = np.clip(((point - start) * step).sum(axis=1) / np.maximum((step * step).sum(axis=1), 1e-12), 0, 1)
    return float(np.hypot(*(start + along[:, None] * step - point).T).min())
