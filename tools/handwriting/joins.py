"""Whether words hold together: no path has a gap, and no end that should hide in ink sticks out of it."""

from dataclasses import dataclass, replace
from functools import cache
from random import Random

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.bent_letters import MANNERS
from quillpost.rendering.handwriting.letter_tables import LetterTables
from quillpost.rendering.handwriting.letterforms import read_forms
from quillpost.rendering.handwriting.models import STYLES
from quillpost.rendering.handwriting.noise import mix
from quillpost.rendering.handwriting.word_paths import PenPaths, shape_words

from .legibility import SENTENCES

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

WORDS = 10_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MADE_UP_SHARE = 0.5
# In x-heights. Knots of letters stand no farther apart than a third, but the longest stems of capitals are bent wide.
MAX_STEP = 1.5
MAX_HIDDEN_GAP = 0.16
"""A pen's width: an end that is so near to another line is drowned in its ink."""
_OWN_KNOTS = 3
_ENDS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class Joins:
    """How many words have a gap in a path, and how many an end that sticks out."""

    words: int
    gaps: int
    knobs: int


def measure_joins(style: int, manner: str, words: int = WORDS) -> Joins:
    """Words in forms that are dealt out; half of them are made up, so that all letters meet."""
    movement = STYLES[style - 1].movement
    assert movement is not None
    tables = LetterTables(read_forms(movement.forms))
    forms, owners = [], []
    for number, word in enumerate(_choose_words(words)):
        for place, char in enumerate(word):
            if char in tables.first_form:
                forms.append(tables.first_form[char] + (number + place) % len(tables.hand.forms[char]))
                owners.append(number)
    seeds = mix(np.arange(words, dtype=np.uint64) + np.uint64(style * 100_003))
    own = replace(MANNERS[manner], pace=MANNERS[manner].pace * movement.hurry, tremor=movement.tremor)
    paths = shape_words(
        tables, np.array(forms), np.array(owners), seeds, own,
        joining=movement.joining, spacing=movement.spacing,
    )  # fmt: skip
    return Joins(words, len(find_gaps(paths)), len(find_knobs(paths)))


@cache
def _choose_words(count: int) -> list[str]:
    """The same in every run."""
    dice = Random(1)
    known = [word for sentence in SENTENCES for word in sentence.split()]
    made_up = round(count * _MADE_UP_SHARE)
    words = ["".join(dice.choices(_LETTERS, k=dice.randint(3, 8))) for _ in range(made_up)]
    return words + dice.choices(known, k=count - made_up)


def find_gaps(paths: PenPaths) -> set[int]:
    """Words with a path whose knots are too far apart."""
    path = np.repeat(np.arange(len(paths.word)), np.diff(paths.starts))
    steps = np.hypot(*np.diff(paths.knots, axis=0).T)
    is_gap = (path[1:] == path[:-1]) & ~(steps <= MAX_STEP)  # a number that is none counts, too
    return set(paths.word[path[1:][is_gap]].tolist())


def find_knobs(paths: PenPaths) -> set[int]:
    """Words with a hidden end that is not near another path, nor another part of its own."""
    hidden = np.flatnonzero(~paths.stops_at.ravel())
    path, end = hidden // 2, hidden % 2
    tips = paths.starts[path + end] - end
    found: set[int] = set()
    for start in range(0, len(hidden), _ENDS_AT_ONCE):
        some = slice(start, start + _ENDS_AT_ONCE)
        sticks_out = _distances(paths, path[some], end[some], tips[some]) >= MAX_HIDDEN_GAP
        found.update(paths.word[path[some][sticks_out]].tolist())
    return found


def _distances(paths: PenPaths, path: Integers, end: Integers, tips: Integers) -> Floats:
    """How far each of these ends is from the rest of its word's strokes, the last knots of its own left out."""
    first = paths.starts[np.searchsorted(paths.word, paths.word[path])]
    last = paths.starts[np.searchsorted(paths.word, paths.word[path], side="right")]
    counts = last - first
    owner = np.repeat(np.arange(len(path)), counts)
    knot = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts) + first[owner]
    path_of_knot = np.repeat(np.arange(len(paths.word)), np.diff(paths.starts))
    # From each knot to the next of its path; the last one stands for itself.
    after = np.where(knot + 1 < paths.starts[path_of_knot[knot] + 1], knot + 1, knot)
    begin, step = paths.knots[knot], paths.knots[after] - paths.knots[knot]
    tip = paths.knots[tips][owner]
    along = np.clip(((tip - begin) * step).sum(axis=1) / np.maximum((step * step).sum(axis=1), 1e-12), 0, 1)
    distance = np.hypot(*(begin + along[:, None] * step - tip).T)
    from_tip = np.where(end[owner] == 1, tips[owner] - after, knot - tips[owner])
    distance[(path_of_knot[knot] == path[owner]) & (from_tip < _OWN_KNOTS)] = np.inf
    nearest = np.full(len(path), np.inf)
    np.minimum.at(nearest, owner, distance)
    return nearest
