"""`.venv/bin/python -m tools.handwriting`: measure all styles in all manners, and print a table for each measure."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from quillpost import __version__

from .characters import Characters, measure_characters
from .edges import Edges, measure_edges
from .joins import Joins, measure_joins
from .legibility import READER, Errors, has_reader, measure_legibility
from .pages import MANNERS, Pages, build_pages
from .sameness import Sameness, measure_sameness
from .tables import StyleManner, print_characters, print_edges, print_joins, print_legibility, print_sameness

NOTES = 300
MEASURES = ("sameness", "edges", "joins", "characters", "legibility")

Measured = TypeVar("Measured", Sameness, Edges, Joins, Characters, Errors)


def main(arguments: Sequence[str]) -> None:
    options = _parse(arguments)
    pages = build_pages()
    styles = {number: name for number, name in pages.styles.items() if not options.styles or number in options.styles}
    if not styles:
        raise SystemExit("None of these styles is installed and of kind AI.")
    report: dict[str, Any] = {"version": __version__}
    if "sameness" in options.only:
        report["sameness"] = _run(measure_sameness, print_sameness, pages, styles, options.manners)
    if "edges" in options.only:
        report["edges"] = _run(measure_edges, print_edges, pages, styles, options.manners)
    if "joins" in options.only:
        report["joins"] = _run(
            lambda _, style, manner: measure_joins(style, manner), print_joins, pages, styles, options.manners
        )
    if "characters" in options.only:
        report["characters"] = _run(measure_characters, print_characters, pages, styles, options.manners)
    if "legibility" in options.only:
        report["legibility"] = run_legibility(pages, styles, options.read, options.notes)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _run(
    measure: Callable[[Pages, int, str], Measured],
    show: Callable[[Mapping[StyleManner, Measured]], None],
    pages: Pages,
    styles: Mapping[int, str],
    manners: Sequence[str],
) -> list[dict[str, Any]]:
    """Print the table, and return it as values for JSON."""
    found = {(name, manner): measure(pages, number, manner) for number, name in styles.items() for manner in manners}
    show(found)
    return [{"style": style, "manner": manner, **asdict(value)} for (style, manner), value in found.items()]


def run_legibility(
    pages: Pages, styles: Mapping[int, str], manners: Sequence[str], notes: int
) -> list[dict[str, Any]] | None:
    if not has_reader():
        print(f"Legibility is not measured: {READER} is not installed on this machine.\n")
        return None
    share, rest = divmod(notes, len(styles))
    notes_by_style = {number: share + (place < rest) for place, number in enumerate(styles)}

    def measure(pages: Pages, style: int, manner: str) -> Errors:
        return measure_legibility(pages, style, manner, notes_by_style[style])

    return _run(measure, print_legibility, pages, styles, manners)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    first_manner = next(iter(MANNERS))
    parser = argparse.ArgumentParser(prog="python -m tools.handwriting", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=MEASURES, help="measures to take")
    parser.add_argument("--styles", nargs="+", type=int, metavar="NUMBER", help="styles to measure")
    parser.add_argument("--manners", nargs="+", choices=list(MANNERS), default=list(MANNERS), help="manners to measure")
    parser.add_argument(
        "--read", nargs="+", choices=list(MANNERS), default=[first_manner], help="manners to read for legibility"
    )
    parser.add_argument("--notes", type=int, default=NOTES, help="how many notes to read in each of these, in all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to this file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
