"""All letterforms of a hand as flat arrays, to write many words at once."""

import unicodedata
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from quillpost.rendering.handwriting.letterforms import HandForms, Letterform, LineKind, PenLine
from quillpost.rendering.handwriting.noise import Integers
from quillpost.rendering.handwriting.outlines import Floats

_TALL_LETTERS = frozenset("bdhklt")
_STEM_LETTERS = frozenset("vwxyz")
"""Which half-joined hands begin anew."""

# How high on its left side a joining stroke meets a letter without an entry: low on loops, over the shoulder of bowls.
_MEETING_HEIGHTS = (
    dict.fromkeys("bhklf", 0.36) | dict.fromkeys("acdgoq", 0.62) | dict.fromkeys("ijmnprtuvwxyz", 0.78) | {"e": 0.4}
)
_HIGH_MEETING = 0.82
_MAX_EXIT_OF_R = 0.61
_MIN_RING_KNOTS, _MAX_LAP, _MIN_RING_END = 7, 3, 0.7


_HIDDEN = 0.07  # x-heights: from farther away, a letter that bends bares an end
_OWN_KNOTS = 3
MAX_TRIMMED_KNOTS = 3
"""So many knots of a letter's tail a join may cut off."""


class LetterTables:
    """All forms of a hand in flat arrays, a row a form, a line or a knot."""

    def __init__(self, hand: HandForms) -> None:
        self.hand = hand
        forms = [form for char in hand.forms for form in hand.forms[char]]
        chars = [char for char in hand.forms for _ in hand.forms[char]]
        self.first_form: dict[str, int] = {}
        number = 0
        for char, char_forms in hand.forms.items():
            self.first_form[char] = number
            number += len(char_forms)
        lines = [line for form in forms for line in form.lines]
        self.line_starts = _starts([len(form.lines) for form in forms])
        self.knot_starts = _starts([len(line.knots) for line in lines])
        self.knots = np.concatenate([line.knots for line in lines])
        self.kinds = np.array([line.kind for line in lines], np.int64)
        self.loose = ~np.array(
            [[_is_hidden(form, line, end) for end in (0, -1)] for form in forms for line in form.lines]
        )
        self.advances = np.array([form.advance for form in forms])
        self.entries = np.array([-1 if form.entry is None else form.entry for form in forms])
        self.exits = np.array([_exit_line(char, form) for char, form in zip(chars, forms, strict=True)])
        self.codes = np.array([ord(char) for char in chars], np.int64)
        self.is_tall = np.array([char in _TALL_LETTERS for char in chars])
        self.is_letter = np.array([char.isalpha() for char in chars])
        self.is_alnum = np.array([char.isalnum() for char in chars])
        self.is_tight = np.array([char in "'’\"”“-" for char in chars])
        self.is_stem = np.array([char in _STEM_LETTERS for char in chars])
        self.is_i = np.array([char == "I" for char in chars])
        self.has_bar = np.array([char in "tf" for char in chars])
        self.is_s = np.array([char == "s" for char in chars])
        self.hides_at_entry = np.array([_hides_at_entry(form) for form in forms])
        self.can_be_met = np.array([char.islower() for char in chars])
        axes = np.array([_limb_axes(form) for form in forms])
        self.axis_above, self.axis_below = axes.T
        meetings = [_meeting_place(form, _meeting_height(char)) for char, form in zip(chars, forms, strict=True)]
        high_meetings = [_meeting_place(form, _HIGH_MEETING) for form in forms]
        # A row for each form: where it is met as usual, and where by a letter that leads on from its top.
        self.meeting_low, self.meeting_high, self.meeting_share = (
            np.array([[usual[part], high[part]] for usual, high in zip(meetings, high_meetings, strict=True)])
            for part in range(3)
        )
        rings = [_ring_end(form) if char == "o" else (-1, 0) for char, form in zip(chars, forms, strict=True)]
        self.ring, self.ring_lap = np.array(rings, np.int64).T


def _starts(lengths: Sequence[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(np.array(lengths, np.int64))])


def _exit_line(char: str, form: Letterform) -> int:
    """The line that runs on, or -1. An r that ends with its arm is left there: joined on, it would read as n."""
    if form.exit is None or (char == "r" and form.lines[form.exit].knots[-1, 1] > _MAX_EXIT_OF_R):
        return -1
    return form.exit


def _is_hidden(form: Letterform, line: PenLine, end: int) -> bool:
    """Whether an end that is not loose stays in ink, whatever becomes of the letter.

    Bars and dots move by themselves, and a join may cut the tail of an exit.
    """
    if line.loose[end]:
        return False
    lasting = [
        (other, other.knots[:-MAX_TRIMMED_KNOTS] if number == form.exit else other.knots)
        for number, other in enumerate(form.lines)
        if other.kind is LineKind.BODY
    ]
    own = [knots[_OWN_KNOTS:] if end == 0 else knots[:-_OWN_KNOTS] for other, knots in lasting if other is line]
    others = [knots for other, knots in lasting if other is not line]
    return any(_distance(line.knots[end], knots) < _HIDDEN for knots in (*own, *others) if len(knots) > 1)


def _hides_at_entry(form: Letterform) -> bool:
    """Whether an end lies hidden where the letter begins."""
    if form.entry is None:
        return False
    tips = [line.knots[end] for line in form.lines for end in (0, -1) if not line.loose[end]]
    return any(_distance(tip, form.lines[form.entry].knots[:3]) < _HIDDEN for tip in tips)


def _distance(point: Floats, line: Floats) -> float:
    start, step = line[:-1], np.diff(line, axis=0)
    along = np.clip(((point - start) * step).sum(axis=1) / np.maximum((step * step).sum(axis=1), 1e-12), 0, 1)
    return float(np.hypot(*(start + along[:, None] * step - point).T).min())


def _limb_axes(form: Letterform) -> tuple[float, float]:
    """The middles of what rises over the x-height and of what hangs under the line."""
    points = np.concatenate([line.knots for line in form.lines])
    above, below = np.maximum(points[:, 1] - 1, 0), np.maximum(-points[:, 1], 0)
    return tuple(  # type: ignore[return-value]
        float(np.average(points[:, 0], weights=weights)) if weights.any() else 0.0 for weights in (above, below)
    )


def _ring_end(form: Letterform) -> tuple[int, int]:
    """The line that goes round to where it began, if it has no exit, and how many knots it goes on; -1 if none."""
    line = form.lines[0]
    if form.exit is not None or line.kind is not LineKind.BODY or any(line.loose) or len(line.knots) < _MIN_RING_KNOTS:
        return -1, 0
    last = line.knots[: -_MAX_LAP - 2 : -1]
    lap = int(np.hypot(*(last - line.knots[0]).T).argmin())
    return (0, lap) if last[lap, 1] > _MIN_RING_END else (-1, 0)


def _meeting_height(char: str) -> float | None:
    return _MEETING_HEIGHTS.get(unicodedata.normalize("NFD", char)[0])


def _meeting_place(form: Letterform, height: float | None) -> tuple[int, int, float]:
    """Two knots, counted in the form, and how far from the lower to the higher a join meets it; -1 if none does."""
    best, place = np.inf, (-1, -1, 0.0)
    if height is None:
        return place
    first = 0
    for number, line in enumerate(form.lines):
        if line.kind is LineKind.BODY:
            knots = line.knots[:-MAX_TRIMMED_KNOTS] if number == form.exit else line.knots
            for index, (start, stop) in enumerate(pairwise(knots)):
                low, high = (start, stop) if start[1] < stop[1] else (stop, start)
                if low[1] <= height < high[1]:
                    share = (height - low[1]) / (high[1] - low[1])
                    x = low[0] + share * (high[0] - low[0])
                    if x < best:
                        numbers = (index, index + 1) if start[1] < stop[1] else (index + 1, index)
                        best, place = x, (first + numbers[0], first + numbers[1], float(share))
        first += len(line.knots)
    return place


def expand(starts: Integers, rows: Integers) -> tuple[Integers, Integers]:
    """All items of these rows, and for each which of `rows` it is of."""
    counts = starts[rows + 1] - starts[rows]
    owner = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return starts[rows][owner] + within, owner
