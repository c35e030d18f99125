"""How a sender sets letters and words, measured in the words and the sentence of the sheet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, pairwise

import numpy as np

from quillpost.rendering.handwriting.letter_roles import line_kind
from quillpost.rendering.handwriting.letterforms import LineKind
from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.own_letters import upright_edges
from quillpost.rendering.handwriting.traced_letters import TracedLetter, TracedLine

_USUAL_GAP, _GAP_BOUNDS = 0.3, (0.05, 0.7)
_USUAL_WORD_GAP, _WORD_GAP_BOUNDS = 1.05, (0.75, 1.6)
_MIN_WORD_GAP_RATIO = 1.25  # to the widest gap in a word, or the words cannot be told apart
_TRIMMED = 0.06  # x-heights by which a gap looks wider where traced lines end before the ink does
_TOUCH = 0.05  # x-heights between lines that touch
_LETTERS_WITH_BARS = frozenset("tf")


@dataclass(frozen=True, slots=True)
class Habits:
    """`gap` is between neighboring letters, `word_gap` between words, in x-heights; `joined` the share of neighbors
    that share ink. None where the sheet does not show it.
    """

    gap: float
    word_gap: float
    joined: float | None


def measure_habits(
    letters: Mapping[str, Sequence[TracedLetter]], words: Sequence[tuple[str, TracedLetter]], slant: float
) -> Habits:
    """`words` are those of the sheet, and sentences, which have spaces."""
    single: list[tuple[str, Sequence[TracedLine]]] = []
    word_gaps: list[float] = []
    for text, letter in words:
        parts = text.split()
        groups = split_words(letter.lines, len(parts), slant)
        if groups:
            single += zip(parts, groups, strict=True)
            word_gaps += _gaps_between(groups)
    known = [(text, lines) for text, lines in single if text.isalpha() and len(text) > 1 and {*text} <= letters.keys()]
    gaps = [_usual_gap(text, lines, letters, slant) for text, lines in known]
    pairs = sum(len(text) - 1 for text, _ in known)
    joins = sum(_count_joins(text, lines, letters) for text, lines in known)
    return Habits(
        gap=_usual(gaps, _USUAL_GAP, _GAP_BOUNDS),
        word_gap=_usual(word_gaps, _USUAL_WORD_GAP, _WORD_GAP_BOUNDS),
        joined=joins / pairs if pairs else None,
    )


def _usual(gaps: Sequence[float], default: float, bounds: tuple[float, float]) -> float:
    return float(np.clip(np.median(gaps) - _TRIMMED if gaps else default, *bounds))


def split_words(lines: Sequence[TracedLine], count: int, slant: float) -> list[list[TracedLine]]:
    """The lines of each of so many words; none if the gaps do not tell where one ends."""
    if count == 1:
        return [list(lines)]
    edges = sorted((*upright_edges(line.points, slant), number) for number, line in enumerate(lines))
    groups: list[list[TracedLine]] = []
    starts: list[float] = []
    stops: list[float] = []
    for left, right, number in edges:
        if groups and left <= stops[-1]:
            groups[-1].append(lines[number])
            stops[-1] = max(stops[-1], right)
        else:
            groups.append([lines[number]])
            starts.append(left)
            stops.append(right)
    gaps = np.array(starts[1:]) - np.array(stops[:-1])
    if len(gaps) < count - 1:
        return []
    order = np.argsort(-gaps, kind="stable")
    cuts, others = np.sort(order[: count - 1]), gaps[order[count - 1 :]]
    if len(others) and gaps[cuts].min() < _MIN_WORD_GAP_RATIO * others.max():
        return []
    bounds = [0, *(cuts + 1).tolist(), len(groups)]
    return [[*chain.from_iterable(groups[first:last])] for first, last in pairwise(bounds)]


def _gaps_between(groups: Sequence[Sequence[TracedLine]]) -> Iterator[float]:
    edges = [upright_edges(_points(lines), 0.0) for lines in groups]
    for (_, right), (left, _) in pairwise(edges):
        yield left - right


def _usual_gap(
    text: str, lines: Sequence[TracedLine], letters: Mapping[str, Sequence[TracedLetter]], slant: float
) -> float:
    """What the width of the word leaves between its letters."""
    left, right = upright_edges(_points(lines), slant)
    widths = sum(_usual_width(letters[char], slant) for char in text)
    return (right - left - widths) / (len(text) - 1)


def _usual_width(found: Sequence[TracedLetter], slant: float) -> float:
    edges = [upright_edges(letter.points, slant) for letter in found]
    return float(np.median([right - left for left, right in edges]))


def _count_joins(text: str, lines: Sequence[TracedLine], letters: Mapping[str, Sequence[TracedLetter]]) -> int:
    """By how many parts the word has less than its letters, written alone, have."""
    alone = sum(round(float(np.median([_count_parts(char, one.lines) for one in letters[char]]))) for char in text)
    return int(np.clip(alone - _count_parts(text, lines), 0, len(text) - 1))


def _count_parts(text: str, lines: Sequence[TracedLine]) -> int:
    """Lines that hang together, without bars and dots: a bar may touch the next letter in any hand."""
    char = next((char for char in text if char in _LETTERS_WITH_BARS), "i")
    bodies = [line.points for line in lines if not line.is_dot and line_kind(char, line) is LineKind.BODY]
    roots = [*range(len(bodies))]
    for one, other in combinations(range(len(bodies)), 2):
        if roots[one] != roots[other] and _is_touching(bodies[one], bodies[other]):
            old = roots[other]
            roots = [roots[one] if root == old else root for root in roots]
    return max(len(set(roots)), 1)


def _is_touching(one: Floats, other: Floats) -> bool:
    if (one.min(axis=0) > other.max(axis=0) + _TOUCH).any() or (other.min(axis=0) > one.max(axis=0) + _TOUCH).any():
        return False
    return bool(np.hypot(*(one[:, None] - other[None]).transpose(2, 0, 1)).min() < _TOUCH)


def _points(lines: Sequence[TracedLine]) -> Floats:
    return np.concatenate([line.points for line in lines])
