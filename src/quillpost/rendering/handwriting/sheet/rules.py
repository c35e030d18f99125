"""What several readings have to do with each other: letters that look unlike their siblings, pages that are missing."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.sheet.layout import sheet_pages
from quillpost.rendering.handwriting.sheet.models import (
    PageReading,
    ProblemCode,
    SheetProblem,
    SheetReading,
    UnreadableSheet,
    WrittenChar,
)

_MIN_SIBLINGS = 3
_MOST = 90  # of a hundred points
_UNLIKE_RATIO = 2.5  # how much farther from its siblings than the closest of them are from each other
_MIN_UNLIKENESS = 0.3  # x-heights; hands differ by less from one time to the next
_MAX_LISTED = 8

UNLIKE_OTHERS = "It looks different from the others."


def combine_pages(pictures: Sequence[Sequence[PageReading | UnreadableSheet]]) -> SheetReading:
    """The whole sheet from what each uploaded file shows; of a page that comes twice, the first counts."""
    readings: dict[int, PageReading] = {}
    problems: list[SheetProblem] = []
    for number, shown in enumerate(pictures, 1):
        for reading in _skip_other_pages(shown):
            if isinstance(reading, UnreadableSheet):
                problems.append(SheetProblem(reading.code, reading.message, number))
            elif reading.page in readings:
                message = f"Page {reading.page} is in your upload twice. We used the first picture of it."
                problems.append(SheetProblem(ProblemCode.PAGE_TWICE, message, number))
            else:
                readings[reading.page] = reading
                problems += [replace(problem, picture=number) for problem in reading.problems]
    for page in sheet_pages():
        if page.number not in readings:
            message = f"Page {page.number} is missing. Add a picture of it."
            problems.append(SheetProblem(ProblemCode.PAGE_MISSING, message))
    ordered = [readings[number] for number in sorted(readings)]
    return SheetReading(
        chars=tuple(char for reading in ordered for char in reading.chars),
        signature=next((reading.signature for reading in ordered if reading.signature is not None), None),
        missing=tuple(empty for reading in ordered for empty in reading.missing),
        problems=tuple(problems),
    )


def _skip_other_pages(shown: Sequence[PageReading | UnreadableSheet]) -> list[PageReading | UnreadableSheet]:
    """Scanners add empty backs: in a file with a page of the sheet, pages without any are no problem."""
    has_page = any(isinstance(reading, PageReading) for reading in shown)
    return [
        reading
        for reading in shown
        if not (has_page and isinstance(reading, UnreadableSheet) and reading.code is ProblemCode.NO_SHEET)
    ]


def flag_unlike_chars(chars: Iterable[WrittenChar]) -> list[WrittenChar]:
    """Doubtful where one of several siblings is far from what the others look like: a slip, or the wrong box."""
    chars = list(chars)
    siblings: dict[str, list[int]] = defaultdict(list)
    for index, char in enumerate(chars):
        if char.strokes:
            siblings[char.char].append(index)
    for indexes in siblings.values():
        if len(indexes) < _MIN_SIBLINGS:
            continue
        points = [center_points(chars[index]) for index in indexes]
        distances = np.array([[measure_unlikeness(one, other) for other in points] for one in points])
        for place, index in enumerate(indexes):
            others = np.delete(np.arange(len(indexes)), place)
            # One that is like any other is meant so: people write a letter in two ways.
            own = float(distances[place, others].min())
            closest = min(float(distances[one, other]) for one, other in combinations(others, 2))
            if own > max(_UNLIKE_RATIO * closest, _MIN_UNLIKENESS) and not chars[index].is_doubtful:
                chars[index] = replace(chars[index], is_doubtful=True, reason=UNLIKE_OTHERS)
    return chars


def list_texts(texts: Iterable[str]) -> str:
    """Each once: a, b and c; or the first few, and that there are more."""
    unique = list(dict.fromkeys(texts))
    if len(unique) > _MAX_LISTED:
        return f"{', '.join(unique[:_MAX_LISTED])} and {len(unique) - _MAX_LISTED} more"
    return f"{', '.join(unique[:-1])} and {unique[-1]}" if len(unique) > 1 else "".join(unique)


def center_points(char: WrittenChar) -> Floats:
    """Points of all strokes, moved sideways to a common middle: where a letter stands in its box tells nothing."""
    points = np.concatenate(char.strokes)
    middle = (points[:, 0].min() + points[:, 0].max()) / 2
    return points - [middle, 0.0]


def measure_unlikeness(one: Floats, other: Floats) -> float:
    """How far most points of either are at most from the nearest of the other."""
    distances = np.hypot(one[:, None, 0] - other[None, :, 0], one[:, None, 1] - other[None, :, 1])
    return max(float(np.percentile(distances.min(axis=axis), _MOST)) for axis in (0, 1))
