"""The rows of a file, one after the other, whatever is wrong with some of them."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from quillpost.audience.importing.layout import LONGEST_CELL, MOST_COLUMNS, ONE_COLUMN, Layout

UNCLOSED = 'A quote (") is opened here and not closed: nothing from here to the end of the file was read.'
LONGEST_ROW = 4_000_000
"""Characters; in quotes a row can go on for as many lines as it likes."""
TOO_LONG = (
    f'A cell is longer than {LONGEST_CELL:,} characters, or the row than can be: perhaps a quote (") is not'
    " closed."
    " The lines to {last} were not read."
)
TOO_WIDE = f"The row has {{width:,}} columns, and may have {MOST_COLUMNS:,}. Leave some out."
READ_AHEAD = 256 * 1024


@dataclass(frozen=True, slots=True)
class Record:
    """One row: where it begins, its cells, and what keeps it from being read, if anything does."""

    line: int
    cells: list[str]
    fault: str | None = None
    width: int = 0
    """How many cells there were, where they were too many to be kept."""


class _Lines:
    """The lines of a text, and whether somebody has asked for more than there are."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self.ended = False
        self.length = 0
        """Characters since it was last set to nothing."""

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._text.readline()
        if not line:
            self.ended = True
            raise StopIteration
        self.length += len(line)
        if self.length > LONGEST_ROW:
            raise csv.Error
        return line


def records(source: IO[bytes], layout: Layout) -> Iterator[Record]:
    """The rows below the header that are not blank. A broken character is U+FFFD in its cell.

    The source is closed with them, if it is not before.
    """
    found = _all_records(source, layout)
    if layout.has_header:
        next(found, None)
    return found


def _all_records(source: IO[bytes], layout: Layout) -> Iterator[Record]:
    text = io.TextIOWrapper(source, encoding=layout.encoding, errors="replace", newline="")
    return rows_of(text, layout.delimiter, is_workbook=layout.is_workbook)


def rows_of(text: io.TextIOWrapper, delimiter: str, *, is_workbook: bool = False) -> Iterator[Record]:
    """Every row of a text that is not blank, the header among them."""
    lines = _Lines(text)
    reader = csv.reader(lines, delimiter=delimiter or ONE_COLUMN)
    row = 0
    while True:
        line = reader.line_num + 1
        row += 1
        lines.length = 0
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield Record(row if is_workbook else line, [], TOO_LONG.format(last=reader.line_num))
            continue
        if len(cells) > MOST_COLUMNS:  # not kept: a short line of commas would be a long list
            yield Record(row if is_workbook else line, [], TOO_WIDE.format(width=len(cells)), len(cells))
        elif any(map(str.strip, cells)):
            # Only within quotes does the reader ask for a line beyond the last.
            fault = UNCLOSED if lines.ended else None
            yield Record(row if is_workbook else line, cells, fault)
