"""Bytes of a carrier's file in, scans out: piece by piece, so that a large file takes no more memory than a
small one. A row that cannot be read is named and passed over; a file without any scan is refused."""

from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from typing import BinaryIO

from quillpost.fulfillment.tracking.fields import Columns, Unreadable, scan_of
from quillpost.fulfillment.tracking.json_rows import json_rows
from quillpost.fulfillment.tracking.rows import BadRow, NotScans, csv_rows, pieces_of
from quillpost.fulfillment.tracking.rules import Scan

__all__ = ["BadRow", "NotScans", "read", "read_bytes"]

MOST_SHAPES = 100
"""Sets of columns that are remembered; a file has one, or a few."""


def read(source: BinaryIO, *, json_alone: bool = False) -> Iterator[Scan | BadRow]:
    """Each row of the file, as a scan or as one that is not; `NotScans` as soon as that is certain."""
    pieces = pieces_of(source)
    begun = ""
    for piece in pieces:
        begun += piece
        if begun.strip():
            break
    is_json = begun.lstrip()[:1] in ("{", "[")
    if json_alone and not is_json:
        raise NotScans("This is not JSON: send an object with an array of events, or the array alone.")
    rows = (json_rows if is_json else csv_rows)(chain([begun], pieces))
    shapes: dict[tuple[str, ...], Columns] = {}
    seen_any, first_bad = False, None
    for row in rows:
        found: Scan | BadRow
        if isinstance(row, BadRow):
            found = row
        else:
            shape = tuple(row.columns)
            columns = shapes.get(shape)
            if columns is None:
                columns = Columns(shape)
                if len(shapes) < MOST_SHAPES:
                    shapes[shape] = columns
            try:
                found = scan_of(row.columns, columns, row.raw)
            except Unreadable as fault:
                found = BadRow(row.row, str(fault))
        if isinstance(found, BadRow):
            first_bad = first_bad or found
        else:
            seen_any = True
        yield found
    if first_bad and not seen_any:
        raise NotScans(f"No row of this file is a scan. Row {first_bad.row}: {first_bad.reason}.")


def read_bytes(data: bytes, *, json_alone: bool = False) -> Iterator[Scan | BadRow]:
    return read(BytesIO(data), json_alone=json_alone)
