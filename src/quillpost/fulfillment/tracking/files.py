"""Bytes of a carrier's file in, scans out: piece by piece, so that a large file takes no more memory than a
small one. A row that cannot be read is named and passed over; a file without any scan is refused."""

from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from typing import BinaryIO

from quillpost.fulfillment.tracking.fields import ScanColumns, UnreadableScan, parse_scan
from quillpost.fulfillment.tracking.json_rows import read_json_rows
from quillpost.fulfillment.tracking.rows import BadScanRow, InvalidScanFile, read_csv_rows, read_text_chunks
from quillpost.fulfillment.tracking.rules import Scan

__all__ = ["BadScanRow", "InvalidScanFile", "read_scans", "read_scans_from_bytes"]

MAX_COLUMN_SETS = 100
"""Sets of columns that are remembered; a file has one, or a few."""


def read_scans(source: BinaryIO, *, json_only: bool = False) -> Iterator[Scan | BadScanRow]:
    """Each row of the file, as a scan or as one that is not; `NotScans` as soon as that is certain."""
    chunks = read_text_chunks(source)
    beginning = ""
    for chunk in chunks:
        beginning += chunk
        if beginning.strip():
            break
    is_json = beginning.lstrip()[:1] in ("{", "[")
    if json_only and not is_json:
        raise InvalidScanFile("This is not JSON: send an object with an array of events, or the array alone.")
    rows = (read_json_rows if is_json else read_csv_rows)(chain([beginning], chunks))
    columns_by_names: dict[tuple[str, ...], ScanColumns] = {}
    has_scan, first_bad = False, None
    for row in rows:
        result: Scan | BadScanRow
        if isinstance(row, BadScanRow):
            result = row
        else:
            column_names = tuple(row.columns)
            columns = columns_by_names.get(column_names)
            if columns is None:
                columns = ScanColumns(column_names)
                if len(columns_by_names) < MAX_COLUMN_SETS:
                    columns_by_names[column_names] = columns
            try:
                result = parse_scan(row.columns, columns, row.raw)
            except UnreadableScan as error:
                result = BadScanRow(row.row, str(error))
        if isinstance(result, BadScanRow):
            first_bad = first_bad or result
        else:
            has_scan = True
        yield result
    if first_bad and not has_scan:
        raise InvalidScanFile(f"No row of this file is a scan. Row {first_bad.row}: {first_bad.reason}.")


def read_scans_from_bytes(data: bytes, *, json_only: bool = False) -> Iterator[Scan | BadScanRow]:
    return read_scans(BytesIO(data), json_only=json_only)
