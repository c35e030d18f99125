"""Scans as lines of columns: with a header, or in the postal service's older form without one."""

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import chain, islice
from typing import Protocol

import orjson

from quillpost.tracking.fields import LEGACY, SHORTEST, Columns
from quillpost.tracking.source import LONGEST_ROW, BadRow, NotScans, RawRow

DELIMITERS = ",;\t|"
LOOKED_AT = 20
"""Lines at the start among which one must be a header or a scan."""

UNKNOWN = (
    "This is no file of scans: it is neither JSON with events, nor lines with a header that names a barcode"
    " and a time, nor lines of facility ZIP, operation, time, routing and tracking code."
)


def csv_rows(pieces: Iterator[str]) -> Iterator[RawRow | BadRow]:
    lines = _lines(pieces)
    head = list(islice(lines, LOOKED_AT))
    first = next((line for line in head if line.strip()), "")
    reader = csv.reader(chain(head, lines), delimiter=max(DELIMITERS, key=first.count))
    beginning: list[Sequence[str]] = []
    for number, row in _numbered(reader):
        if isinstance(row, str) or not any(row):
            continue
        if not beginning and Columns(row).can_be_scans:
            yield from _with_names([name.strip() for name in row], reader)
            return
        beginning.append(row)
        if _is_legacy(row):
            for skipped in range(1, number):
                yield BadRow(skipped, "it is not a scan")
            yield _raw(number, LEGACY, row)
            yield from _with_names(LEGACY, reader)
            return
        if len(beginning) >= LOOKED_AT:
            break
    if beginning or first:
        raise NotScans(UNKNOWN)
    raise NotScans("The file is empty.")


def _is_legacy(row: Sequence[str]) -> bool:
    if len(row) < len(LEGACY):
        return False
    zip_code, operation, _, _, tracking = (cell.strip() for cell in row[: len(LEGACY)])
    is_code = tracking.isdigit() and SHORTEST <= len(tracking) <= 20
    return len(operation) == 3 and operation.isdigit() and zip_code.isdigit() and is_code


class _Reader(Protocol):
    """What the standard library's reader is, which has no public name."""

    line_num: int

    def __next__(self) -> list[str]: ...


def _with_names(names: Sequence[str], reader: _Reader) -> Iterator[RawRow | BadRow]:
    for number, row in _numbered(reader):
        if isinstance(row, str):
            yield BadRow(number, row)
        elif len(row) > len(names):
            yield BadRow(number, f"it has {len(row)} columns instead of {len(names)}")
        elif row:
            yield _raw(number, names, row)


def _raw(number: int, names: Sequence[str], row: Sequence[str]) -> RawRow:
    columns = dict(zip(names, row, strict=False))
    return RawRow(number, columns, orjson.dumps(columns).decode())


def _numbered(reader: _Reader) -> Iterator[tuple[int, list[str] | str]]:
    """Each row with the line it ends on, or with why it cannot be read."""
    while True:
        try:
            yield reader.line_num + 1, next(reader)
        except csv.Error:
            yield reader.line_num, "its quotes or its length are wrong"
        except StopIteration:
            return


def _lines(pieces: Iterator[str]) -> Iterator[str]:
    """Lines that end somewhere: one that does not is cut, and will not be a scan."""
    rest = ""
    for piece in pieces:
        # Unlike `splitlines` it breaks at ends of lines alone, not at form feeds and their like.
        whole = list(StringIO(rest + piece, newline=""))
        rest = whole.pop() if whole and not whole[-1].endswith("\n") else ""
        yield from whole
        while len(rest) > LONGEST_ROW:
            yield rest[:LONGEST_ROW] + "\n"
            rest = rest[LONGEST_ROW:]
    if rest:
        yield rest
