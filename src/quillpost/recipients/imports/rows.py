"""The rows of a file, and the recipient in each."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from quillpost.recipients.imports.columns import LONGEST_CELL, MOST_COLUMNS, ONE_COLUMN, PARTS, Layout
from quillpost.recipients.rules import Person, examine_alone, told_apart
from quillpost.recipients.suppression import in_vain
from quillpost.recipients.webhooks.values import day_said, put_street
from quillpost.rendering.text.countries import country_code

BROKEN = "{} holds a broken character: save the file as UTF-8 and import this row again."
NUL = "{} holds a NUL character, which cannot be printed or stored."
TOO_WIDE = (
    "The row has {} cells, and there are {} columns: a cell that holds the sign between them needs quotes"
    " around it."
)

ESCAPED = re.compile("'+[-=+@\t\r\n＝＋－＠]")
"""How a value begins that an export has kept from being taken for a formula."""
_FEW = re.compile(r"[\ufffd\x00]")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to read of each row: the places of columns and the fields that they hold."""

    fields: Sequence[tuple[int, str]]
    width: int
    suppress_by: str | None = None
    """How the list bars people; nothing: it is no suppression list."""

    @property
    def within(self) -> list[tuple[int, str]]:
        return [(place, PARTS.get(field, field)) for place, field in self.fields]


class RowReader:
    """Makes people of rows."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._fields = plan.within
        self._width = plan.width
        names = {field for _, field in self._fields}
        self._has_days = bool(names & {"dob", "anniversary"})
        self._is_plain = not names & {"first_name", "last_name", "country", *PARTS.values()}

    def person(self, cells: Sequence[str]) -> Person | str:
        """Someone for a list; or why not, in one sentence."""
        given = self.given(cells)
        if isinstance(given, str):
            return given
        person, faults = examine_alone(given, may_lack=True)
        for field, sentences in faults.items():
            return f"{field}: {sentences[0]}"
        if (fault := in_vain(self._plan.suppress_by, person)) is not None:
            return ": ".join(fault)
        return person

    def given(self, cells: Sequence[str]) -> dict[str, str] | str:
        """What the row says of someone, by our names, not examined yet; or why it cannot be read."""
        count = len(cells)
        if count > self._width and any(map(str.strip, cells[self._width :])):
            return TOO_WIDE.format(count, self._width)
        given: dict[str, str] = {}
        for place, field in self._fields:
            if place < count and (text := cells[place].strip()):
                if text[0] == "'" and ESCAPED.match(text):
                    text = text[1:]
                if (not text.isascii() or "\x00" in text) and (found := _FEW.search(text)) is not None:
                    return (NUL if found[0] == "\x00" else BROKEN).format(_SHOWN.get(field, field))
                given[field] = text
        self._finish(given)
        return given

    def told_apart(self, person: Person) -> str:
        """What tells those of one address on the list apart."""
        return told_apart(self._plan.suppress_by or "", person)

    def _finish(self, given: dict[str, str]) -> None:
        """By our names alone, as people of hooks are."""
        if not self._is_plain:
            first, last = given.pop("first_name", None), given.pop("last_name", None)
            if first and last:
                given["name"] = f"{first} {last}"
            elif (first or last) and "name" not in given:
                given["name"] = first or last or ""
            if "country" in given:
                given["country"] = country_code(given["country"])
        if not self._is_plain or "\n" in given.get("address", "") or "  " in given.get("address", ""):
            put_street(given)
        if self._has_days:
            for name in ("dob", "anniversary"):
                if name in given and (day := day_said(given[name])) is not None:
                    given[name] = day


_SHOWN = {within: field for field, within in PARTS.items()}


UNCLOSED = 'A quote (") is opened here and not closed: nothing from here to the end of the file was read.'
LONGEST_ROW = 4_000_000
"""Characters; in quotes a row can go on for as many lines as it likes."""
TOO_LONG = (
    f'A cell is longer than {LONGEST_CELL:,} characters, or the row than can be: perhaps a quote (") is not'
    " closed."
    " The lines to {last} were not read."
)
TOO_MANY_COLUMNS = f"The row has {{width:,}} columns, and may have {MOST_COLUMNS:,}. Leave some out."
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
            yield Record(
                row if is_workbook else line, [], TOO_MANY_COLUMNS.format(width=len(cells)), len(cells)
            )
        elif any(map(str.strip, cells)):
            # Only within quotes does the reader ask for a line beyond the last.
            fault = UNCLOSED if lines.ended else None
            yield Record(row if is_workbook else line, cells, fault)
