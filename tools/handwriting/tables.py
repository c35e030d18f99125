"""What was measured, as tables that people read."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TypeVar

from .characters import Characters
from .edges import Edges
from .joins import Joins
from .legibility import Errors
from .sameness import Sameness

StyleManner = tuple[str, str]
"""The names of a style and of a manner: the key of everything that is measured."""

Measured = TypeVar("Measured")
Cells = Sequence[str]

_CHARS_PER_LINE = 90


def print_sameness(found: Mapping[StyleManner, Sameness]) -> None:
    print("Sameness: mean distance of a word from itself, written eight times; 0 is a rubber stamp")
    _print_by_manner(found, ("distance",), lambda sameness: (sameness.mean,), "{:.3f}")


def print_edges(found: Mapping[StyleManner, Edges]) -> None:
    print("Edges: spread of the left edge and of the baseline in x-heights, of the lines' slopes in percent")
    _print_by_manner(
        found, ("left", "baseline", "slope"), lambda edges: (edges.left, edges.baseline, edges.slope), "{:.3f}"
    )


def print_joins(found: Mapping[StyleManner, Joins]) -> None:
    words = max(joins.words for joins in found.values())
    print(f"Joins: of {words:,} words those with a gap in a stroke, and those with an end that sticks out")
    _print_by_manner(found, ("gaps", "knobs"), lambda joins: (joins.gaps, joins.knobs), "{:g}")


def print_legibility(found: Mapping[StyleManner, Errors]) -> None:
    print("Legibility: what a reader program gets wrong in unseen notes; of those cut short it skipped a line")
    rows = [(style, manner, *_error_cells(errors)) for (style, manner), errors in found.items()]
    by_manner: dict[str, Errors] = defaultdict(Errors)
    for (_, manner), errors in found.items():
        by_manner[manner] += errors
    rows += [("all", manner, *_error_cells(errors)) for manner, errors in by_manner.items()]
    _print_rows(("style", "manner", "notes", "cut short", "words", "word errors", "character errors"), rows)


def print_characters(found: Mapping[StyleManner, Characters]) -> None:
    print("Characters: drawn as themselves, spelled in others (or alike), dropped without a word")
    rows = [
        (style, manner, *(str(len(chars)) for chars in (counts.drawn, counts.spelled, counts.dropped)))
        for (style, manner), counts in found.items()
    ]
    _print_rows(("style", "manner", "drawn", "spelled", "dropped"), rows)
    _print_chars("Dropped", {key: counts.dropped for key, counts in found.items()})
    _print_chars("Spelled", {key: counts.spelled for key, counts in found.items()})


def _error_cells(errors: Errors) -> Cells:
    counts = (errors.notes, errors.cut_notes, errors.words)
    return *map(str, counts), f"{errors.word_rate:.1%}", f"{errors.char_rate:.1%}"


def _print_by_manner(
    found: Mapping[StyleManner, Measured],
    names: Cells,
    values_of: Callable[[Measured], Sequence[float]],
    value_format: str,
) -> None:
    """A row for each style, the manners side by side, and their means."""
    manners = list(dict.fromkeys(manner for _, manner in found))
    styles = list(dict.fromkeys(style for style, _ in found))
    table = [[value for manner in manners for value in values_of(found[style, manner])] for style in styles]
    means = [fmean(column) for column in zip(*table, strict=True)]
    header = ["style", *(f"{name}, {manner}" for manner in manners for name in names)]
    rows = [
        (name, *map(value_format.format, values))
        for name, values in zip([*styles, "mean"], [*table, means], strict=True)
    ]
    _print_rows(header, rows)


def _print_rows(header: Cells, rows: Sequence[Cells]) -> None:
    """Words to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        cells = (
            cell.ljust(width) if name in ("style", "manner") else cell.rjust(width)
            for name, cell, width in zip(header, row, widths, strict=True)
        )
        print("  " + "  ".join(cells).rstrip())
    print(flush=True)


def _print_chars(title: str, chars_by_key: Mapping[StyleManner, str]) -> None:
    """Those in all styles and manners first; then who has others, the same others together."""
    common = set.intersection(*map(set, chars_by_key.values()))
    _print_list(f"{title} in all", "".join(sorted(common)))
    keys_by_others = defaultdict(list)
    for (style, manner), chars in chars_by_key.items():
        keys_by_others["".join(char for char in chars if char not in common)].append(f"{style} ({manner})")
    for others, keys in keys_by_others.items():
        if others:
            _print_list(f"{title} in {', '.join(keys)}", others)
    print(flush=True)


def _print_list(title: str, chars: str) -> None:
    print(f"  {title}:" if chars else f"  {title}: none")
    for start in range(0, len(chars), _CHARS_PER_LINE):
        print(f"    {chars[start : start + _CHARS_PER_LINE]}")
