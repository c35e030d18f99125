"""A sender's own hand: made of the letters of a sheet, kept as one file, and written with like any other style."""

import json
import string
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from quillpost.rendering.handwriting.letterforms import HandForms, Letterform, read_forms
from quillpost.rendering.handwriting.models import FIRST_PRIVATE_STYLE, Movement, Style
from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.own_habits import Habits, measure_habits
from quillpost.rendering.handwriting.own_hand_checks import MAX_NAME, VERSION, check_own_hand
from quillpost.rendering.handwriting.own_letters import (
    choose_instances,
    keep_legible,
    make_forms,
    measure_scale,
    trace_written,
    upright_edges,
)
from quillpost.rendering.handwriting.proportions import Fitting, Proportions, measure_proportions
from quillpost.rendering.handwriting.sheet.models import WrittenChar
from quillpost.rendering.handwriting.sheet.rules import list_texts
from quillpost.rendering.handwriting.traced_letters import LEANING_LETTERS, TracedLetter, even_points, measure_slant
from quillpost.rendering.handwriting.words import X_HEIGHT

MIN_SMALL_LETTERS = 22
_UNNAMED = "My handwriting"
_SMALL_LETTERS = string.ascii_lowercase

_SLANT_BOUNDS = (-0.5, 0.65)
_JOINS_TAKEN = 0.65  # of all neighbors: a hand that joins wherever it can still lifts the pen at the others
_MIN_JOINING, _JOINED_HAND = 0.25, 0.5  # fewer of the neighbors only touch

# What the sheet does not have is lent by one of our styles, one that joins or one that does not.
_JOINED_LENDER, _UNJOINED_LENDER = "camille", "ben"
_SAME_SIGNS = {"’": "'", "‘": "'", "”": '"', "“": '"'}  # people write them all alike

# How large a hand looks, and how much room its lines need, as measured in our own styles.
_SCALE_BOUNDS, _LINE_BOUNDS, _WORD_GAP_BOUNDS = (0.74, 0.95), (1.1, 1.32), (0.37, 0.56)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHand:
    """A style that is private to its sender. The values are those of `Style` and `Movement`."""

    name: str
    scale: float
    leading: float
    word_gap: float
    joining: float
    forms: HandForms
    spacing: float = 0.0
    pen: str = "ballpoint"

    def to_style(self, number: int) -> Style:
        if number < FIRST_PRIVATE_STYLE:
            raise ValueError(f"{number} is the number of a style that everybody has.")
        movement = Movement(forms="", joining=self.joining, spacing=self.spacing, pen=self.pen)
        return Style(
            number=number,
            name=self.name,
            kind="AI",
            scale=self.scale,
            leading=self.leading,
            word_gap=self.word_gap,
            movement=movement,
        )

    def to_bytes(self) -> bytes:
        """A line of values, then the forms as `HandForms` writes them."""
        head = {
            "version": VERSION,
            "name": self.name,
            "pen": self.pen,
            "scale": self.scale,
            "leading": self.leading,
            "word_gap": self.word_gap,
            "joining": self.joining,
            "spacing": self.spacing,
        }
        return json.dumps(head).encode() + b"\n" + self.forms.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises InvalidOwnHand for anything that `to_bytes` does not write: storage may have been changed."""
        values = check_own_hand(data)
        return cls(forms=HandForms.from_bytes(data.partition(b"\n")[2]), **values)


class TooFewLetters(ValueError):
    """`missing` are the small letters that the sheet does not have; the message is for the sender."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(
            f"A handwriting style needs at least {MIN_SMALL_LETTERS} of the 26 small letters."
            f" These are missing: {list_texts(missing)}. Write them on the sheet and upload it again."
        )
        self.missing = tuple(missing)


def make_own_hand(chars: Sequence[WrittenChar], *, name: str) -> OwnHand:
    """Of the letters, words and sentences that the sender accepted."""
    chosen = choose_instances(chars)
    _check_letters(chosen)
    scale = measure_scale([char for instances in chosen.values() for char in instances])
    traced = {
        text: [letter for char in instances if (letter := trace_written(char, scale))]
        for text, instances in chosen.items()
    }
    letters = {text: kept for text, found in traced.items() if (kept := keep_legible(text, found))}
    _check_letters(letters)
    slant = float(np.clip(measure_slant(_join_instances(letters)), *_SLANT_BOUNDS))
    words = [
        (char.char, letter)
        for char in chars
        if len(char.char) > 1 and char.strokes and not char.is_doubtful and (letter := trace_written(char, scale))
    ]
    habits = measure_habits(letters, words, slant)
    joining = _measure_joining(habits)
    own = HandForms(make_forms(letters, slant, habits.gap), scale.radius, slant)
    proportions = _measure_forms(own)
    size = float(np.clip(_usual_scale(proportions), *_SCALE_BOUNDS))
    line = float(np.clip(1.01 + 0.07 * proportions.above + 0.12 * proportions.below, *_LINE_BOUNDS))
    return OwnHand(
        name="".join(filter(str.isprintable, name)).strip()[:MAX_NAME] or _UNNAMED,
        scale=round(size, 3),
        leading=round(line / size, 3),
        word_gap=round(float(np.clip(habits.word_gap * X_HEIGHT, *_WORD_GAP_BOUNDS)), 3),
        joining=round(joining, 2),
        forms=_complete(own, proportions, habits.gap, _JOINED_LENDER if joining >= _JOINED_HAND else _UNJOINED_LENDER),
    )


def _check_letters(chars: Container[str]) -> None:
    missing = [char for char in _SMALL_LETTERS if char not in chars]
    if len(_SMALL_LETTERS) - len(missing) < MIN_SMALL_LETTERS:
        raise TooFewLetters(missing)


def _usual_scale(proportions: Proportions) -> float:
    """Hands with tall or wide letters are written smaller."""
    return (
        1.064
        - 0.016 * proportions.above
        - 0.034 * proportions.below
        - 0.094 * proportions.capitals
        - 0.095 * proportions.width
    )


def _measure_joining(habits: Habits) -> float:
    share = float(np.clip((habits.joined or 0.0) / _JOINS_TAKEN, 0.0, 1.0))
    return share if share >= _MIN_JOINING else 0.0


def _join_instances(letters: Mapping[str, Sequence[TracedLetter]]) -> dict[str, TracedLetter]:
    """All lines of all instances of the letters that show the lean."""
    return {
        char: TracedLetter(tuple(line for letter in letters[char] for line in letter.lines), 0.0)
        for char in LEANING_LETTERS
        if char in letters
    }


def _complete(own: HandForms, proportions: Proportions, gap: float, lender_name: str) -> HandForms:
    """With the lender's letters and signs for what the sheet does not have, in the measure of the hand."""
    lender = read_forms(lender_name)
    fitting = Fitting(_measure_forms(lender), proportions)
    forms = dict(own.forms)
    forms |= {sign: forms[alike] for sign, alike in _SAME_SIGNS.items() if alike in forms}
    for char, lent in lender.forms.items():
        if char not in forms:
            forms[char] = tuple(_bring(char, form, fitting, own.slant, gap) for form in lent)
    return replace(own, forms=forms)


def _bring(char: str, form: Letterform, fitting: Fitting, slant: float, gap: float) -> Letterform:
    moved = [replace(line, knots=fitting.move(char, line.knots)) for line in form.lines]
    if not char.isalnum():
        return replace(form, lines=tuple(moved), advance=form.advance * fitting.widening)
    left, right = upright_edges(_dense(moved_line.knots for moved_line in moved), slant)
    shift = np.array([gap / 2 - left, 0.0])
    lines = tuple(replace(line, knots=line.knots + shift) for line in moved)
    return replace(form, lines=lines, advance=right - left + gap)


def _measure_forms(hand: HandForms) -> Proportions:
    points = {char: _dense(line.knots for line in forms[0].lines) for char, forms in hand.forms.items()}
    return measure_proportions(points, hand.slant)


def _dense(lines: Iterable[Floats]) -> Floats:
    return np.concatenate([even_points(knots) for knots in lines])
