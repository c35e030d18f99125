"""The rows of a file, and the recipient in each."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from quillpost.recipients.field_names import combine_street, normalize_date
from quillpost.recipients.imports.rules import (
    INTERNAL_FIELD_NAMES,
    MAX_CELL_LENGTH,
    MAX_COLUMNS,
    SINGLE_COLUMN_DELIMITER,
    FileLayout,
)
from quillpost.recipients.models import Person, get_distinguishing_key
from quillpost.recipients.rules import check_recipient, find_suppression_error
from quillpost.rendering.text.addresses import country_code_by_name

BROKEN_CHARACTER = "{} holds a broken character: save the file as UTF-8 and import this row again."
NUL_CHARACTER = "{} holds a NUL character, which cannot be printed or stored."
TOO_WIDE = (
    "The row has {} cells, and there are {} columns: a cell that holds the sign between them needs quotes around it."
)

ESCAPED_FORMULA = re.compile("'+[-=+@\t\r\n＝＋－＠]")
"""How an export begins a value that a spreadsheet would take for a formula."""
_UNSTORABLE = re.compile(r"[\ufffd\x00]")


@dataclass(frozen=True, slots=True)
class RowPlan:
    """The indexes of columns, and the fields that they hold."""

    fields: Sequence[tuple[int, str]]
    width: int
    suppress_by: str | None = None
    """None if the list is no suppression list."""

    @property
    def internal_fields(self) -> list[tuple[int, str]]:
        return [(index, INTERNAL_FIELD_NAMES.get(field, field)) for index, field in self.fields]


class RowReader:
    def __init__(self, plan: RowPlan) -> None:
        self._plan = plan
        self._fields = plan.internal_fields
        self._width = plan.width
        names = {field for _, field in self._fields}
        self._has_dates = bool(names & {"dob", "anniversary"})
        self._is_plain = not names & {"first_name", "last_name", "country", *INTERNAL_FIELD_NAMES.values()}

    def read_person(self, cells: Sequence[str]) -> Person | str:
        """Someone for a list; or why not, in one sentence."""
        fields = self.read_fields(cells)
        if isinstance(fields, str):
            return fields
        person, errors = check_recipient(fields, allow_incomplete=True)
        for field, sentences in errors.items():
            return f"{field}: {sentences[0]}"
        if (error := find_suppression_error(self._plan.suppress_by, person)) is not None:
            return ": ".join(error)
        return person

    def read_fields(self, cells: Sequence[str]) -> dict[str, str] | str:
        """The fields by our names, not validated yet; or why the row cannot be read."""
        count = len(cells)
        if count > self._width and any(map(str.strip, cells[self._width :])):
            return TOO_WIDE.format(count, self._width)
        fields: dict[str, str] = {}
        for index, field in self._fields:
            if index < count and (text := cells[index].strip()):
                if text[0] == "'" and ESCAPED_FORMULA.match(text):
                    text = text[1:]
                if (not text.isascii() or "\x00" in text) and (match := _UNSTORABLE.search(text)) is not None:
                    return (NUL_CHARACTER if match[0] == "\x00" else BROKEN_CHARACTER).format(
                        _PUBLIC_FIELD_NAMES.get(field, field)
                    )
                fields[field] = text
        self._complete_fields(fields)
        return fields

    def get_distinguishing_key(self, person: Person) -> str:
        return get_distinguishing_key(self._plan.suppress_by or "", person)

    def _complete_fields(self, fields: dict[str, str]) -> None:
        """By our names only, as in webhooks."""
        if not self._is_plain:
            first, last = fields.pop("first_name", None), fields.pop("last_name", None)
            if first and last:
                fields["name"] = f"{first} {last}"
            elif (first or last) and "name" not in fields:
                fields["name"] = first or last or ""
            if "country" in fields:
                fields["country"] = country_code_by_name(fields["country"])
        if not self._is_plain or "\n" in fields.get("address", "") or "  " in fields.get("address", ""):
            combine_street(fields)
        if self._has_dates:
            for name in ("dob", "anniversary"):
                if name in fields and (parsed_date := normalize_date(fields[name])) is not None:
                    fields[name] = parsed_date


_PUBLIC_FIELD_NAMES = {within: field for field, within in INTERNAL_FIELD_NAMES.items()}
UNCLOSED_QUOTE = 'A quote (") is opened here and not closed: nothing from here to the end of the file was read.'
MAX_ROW_LENGTH = 4_000_000
"""In quotes a row can go on for any number of lines."""
TOO_LONG = (
    f'A cell is longer than {MAX_CELL_LENGTH:,} characters, or the row than can be: perhaps a quote (") is not'
    " closed."
    " The lines to {last} were not read."
)
TOO_MANY_COLUMNS = f"The row has {{width:,}} columns, and may have {MAX_COLUMNS:,}. Leave some out."
READ_AHEAD_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One row: where it begins, its cells, and an error if it cannot be read."""

    line: int
    cells: list[str]
    error: str | None = None
    width: int = 0
    """The number of cells, where they were too many to be stored."""


class _LineReader:
    """The lines of a text, and whether more were requested than there are."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self.has_ended = False
        self.length = 0
        """Characters since it was last set to nothing."""

    def __iter__(self) -> "_LineReader":
        return self

    def __next__(self) -> str:
        line = self._text.readline()
        if not line:
            self.has_ended = True
            raise StopIteration
        self.length += len(line)
        if self.length > MAX_ROW_LENGTH:
            raise csv.Error
        return line


def read_records(source: IO[bytes], layout: FileLayout) -> Iterator[FileRecord]:
    """The rows below the header that are not blank. A broken character becomes U+FFFD. The source is closed with
    them."""
    records = _read_all_records(source, layout)
    if layout.has_header:
        next(records, None)
    return records


def _read_all_records(source: IO[bytes], layout: FileLayout) -> Iterator[FileRecord]:
    text = io.TextIOWrapper(source, encoding=layout.encoding, errors="replace", newline="")
    return parse_records(text, layout.delimiter, is_workbook=layout.is_workbook)


def parse_records(text: io.TextIOWrapper, delimiter: str, *, is_workbook: bool = False) -> Iterator[FileRecord]:
    """Every row of a text that is not blank, including the header."""
    lines = _LineReader(text)
    reader = csv.reader(lines, delimiter=delimiter or SINGLE_COLUMN_DELIMITER)
    row_number = 0
    while True:
        line_number = reader.line_num + 1
        row_number += 1
        lines.length = 0
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield FileRecord(row_number if is_workbook else line_number, [], TOO_LONG.format(last=reader.line_num))
            continue
        if len(cells) > MAX_COLUMNS:  # not kept: a short line of commas would be a long list
            yield FileRecord(
                row_number if is_workbook else line_number, [], TOO_MANY_COLUMNS.format(width=len(cells)), len(cells)
            )
        elif any(map(str.strip, cells)):
            # Only within quotes does the reader ask for a line beyond the last.
            error = UNCLOSED_QUOTE if lines.has_ended else None
            yield FileRecord(row_number if is_workbook else line_number, cells, error)


@dataclass(frozen=True, slots=True)
class RowChunk:
    """Consecutive rows, the number of the first and the lines where they begin."""

    first_row: int
    lines: list[int]
    rows: list[list[str]]
    errors: dict[int, str]
    """By index in the chunk, for rows that could not be read."""
    bytes_read: int

    @property
    def row_count(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class ExaminedChunk:
    """A chunk's rows in the format of COPY."""

    chunk: RowChunk
    accepted_data: bytes
    rejected_data: bytes
    accepted_count: int
    rejected_count: int


NULL = "\\N"
_NULL_PLACEHOLDER = "\x1f"
_QUOTED_NULL_PLACEHOLDER = f'"{_NULL_PLACEHOLDER}"'
_COPY_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_ARRAY_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"'})


def examine_rows(
    reader: RowReader,
    import_id: int,
    first_row: int,
    lines: Sequence[int],
    rows: Sequence[Sequence[str]],
    errors: dict[int, str],
) -> tuple[list[str], list[str]]:
    """Lines for the staging table, and for the table of rejected rows."""
    people, rejects = [], []
    for index, cells in enumerate(rows):
        row_number, line = first_row + index, lines[index]
        person_or_reason = errors[index] if index in errors else reader.read_person(cells)
        if isinstance(person_or_reason, str):
            rejects.append(f"{import_id}\t{row_number}\t{line}\t{_escape_copy_value(person_or_reason)}\n")
        else:
            people.append(
                _format_copy_line(row_number, line, person_or_reason, reader.get_distinguishing_key(person_or_reason))
            )
    return people, rejects


def _format_copy_line(row_number: int, line: int, person: Person, distinguishing_key: str) -> str:
    """In the order of the staging table's columns."""
    values = (
        str(row_number), str(line),
        person.name, person.company, person.address, person.address2, person.city, person.province,
        person.postal_code, person.country, person.email, person.phone,
        str(person.dob) if person.dob else None, str(person.anniversary) if person.anniversary else None,
        *person.custom, person.surname, person.address_key, _format_array(person.standard),
        person.deliverability, _format_array(person.reasons), distinguishing_key,
    )  # fmt: skip
    # Nearly every line is plain: one look at the whole tells, and one pass writes what is null.
    line_text = "\t".join([_NULL_PLACEHOLDER if value is None else value for value in values])
    is_plain = line_text.count("\t") == len(values) - 1 and line_text.count(_NULL_PLACEHOLDER) == values.count(None)
    if is_plain and not ("\\" in line_text or "\n" in line_text or "\r" in line_text):
        return line_text.replace(_NULL_PLACEHOLDER, NULL) + "\n"
    return "\t".join(map(_escape_copy_value, values)) + "\n"


def _escape_copy_value(text: str | None) -> str:
    return NULL if text is None else text.translate(_COPY_ESCAPES)


def _format_array(texts: Sequence[str | None] | None) -> str | None:
    if texts is None:
        return None
    if not texts:
        return "{}"
    inner = '","'.join([_NULL_PLACEHOLDER if text is None else text for text in texts])
    if "\\" not in inner and inner.count('"') == 2 * len(texts) - 2:
        return f'{{"{inner}"}}'.replace(_QUOTED_NULL_PLACEHOLDER, "NULL")
    quoted = ["NULL" if text is None else f'"{text.translate(_ARRAY_ESCAPES)}"' for text in texts]
    return f"{{{','.join(quoted)}}}"
