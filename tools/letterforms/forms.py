"""Traced letters as forms of a hand: those of its own face, and borrowed ones brought to its measure."""

from dataclasses import replace

import numpy as np

from quillpost.rendering.handwriting.letter_roles import make_form
from quillpost.rendering.handwriting.letterforms import Letterform
from quillpost.rendering.handwriting.proportions import Fitting, Proportions, measure_edges, measure_proportions
from quillpost.rendering.handwriting.traced_letters import TracedLetter

from .trace import TracedFace


def own_form(char: str, face: TracedFace) -> Letterform:
    return make_form(char, face.letters[char], face.slant)


def borrow_form(char: str, lender: TracedFace, host: TracedFace) -> Letterform:
    """The lender's letter with the host's slant, width and limbs, where the host's own stands."""
    fitting = Fitting(measure_face(lender), measure_face(host))
    letter = lender.letters[char]
    lines = tuple(replace(line, points=fitting.move(char, line.points)) for line in letter.lines)
    moved = TracedLetter(lines, letter.advance * fitting.widening)
    own = host.letters.get(char)
    if own is not None:
        my_left, my_right = measure_edges(own.points)
        left, right = measure_edges(moved.points)
        shift = my_left - left
        lines = tuple(replace(line, points=line.points + np.array([shift, 0])) for line in lines)
        moved = TracedLetter(lines, right + shift + own.advance - my_right)
    return make_form(char, moved, host.slant)


def measure_face(face: TracedFace) -> Proportions:
    return measure_proportions({char: letter.points for char, letter in face.letters.items()}, face.slant)
