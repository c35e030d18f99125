"""Reads carrier files as scans, in chunks: text, gzip, CSV or JSON."""

import codecs
import csv
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO, StringIO
from itertools import chain, islice
from typing import BinaryIO, Protocol

import orjson

from quillpost.fulfillment.tracking import rules
from quillpost.fulfillment.tracking.json_rows import read_json_rows
from quillpost.fulfillment.tracking.rules import BadScanRow, InvalidScanFile, RawScanRow, Scan

CHUNK_BYTES = 262_144
MAX_FILE_BYTES = 1_000_000_000  # unpacked: some millions of scans
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def read_text_chunks(source: BinaryIO) -> Iterator[str]:
    """Invalid bytes become replacement characters; NULs, which cannot be stored, are removed."""
    chunks = _unpack(source)
    first = next(chunks, b"")
    decoder = codecs.getincrementaldecoder(BYTE_ORDER_MARKS.get(first[:2], "utf-8-sig"))("replace")
    total = len(first)
    yield decoder.decode(first).replace("\x00", "")
    for chunk in chunks:
        total += len(chunk)
        if total > MAX_FILE_BYTES:
            raise InvalidScanFile(f"The file is larger than {MAX_FILE_BYTES:,} bytes: send it in parts.")
        yield decoder.decode(chunk).replace("\x00", "")
    yield decoder.decode(b"", final=True).replace("\x00", "")


def _unpack(source: BinaryIO) -> Iterator[bytes]:
    first = _read_chunk(source)
    if first[:2] != GZIP_MAGIC:
        while first:
            yield first
            first = _read_chunk(source)
        return
    yield from _gunzip(source, first)


def _gunzip(source: BinaryIO, packed: bytes) -> Iterator[bytes]:
    """In small chunks, however large the content. A file may have several gzip members."""
    decompressor = zlib.decompressobj(wbits=31)
    try:
        while packed:
            yield decompressor.decompress(packed, CHUNK_BYTES)
            if decompressor.eof:
                packed = decompressor.unused_data or _read_chunk(source)
                if packed[:2] != GZIP_MAGIC:  # what follows is padding
                    return
                decompressor = zlib.decompressobj(wbits=31)
            else:
                packed = decompressor.unconsumed_tail or _read_chunk(source)
    except zlib.error:
        raise InvalidScanFile("The file is packed with gzip, and damaged: send it again.") from None
    if not decompressor.eof:
        raise InvalidScanFile("The file is packed with gzip, and ends too early: send it again.")


def _read_chunk(source: BinaryIO) -> bytes:
    return source.read(CHUNK_BYTES) or b""


DELIMITERS = ",;\t|"
MAX_HEADER_LINES = 20  # among which one must be a header or a scan
UNKNOWN_FORMAT = (
    "This is no file of scans: it is neither JSON with events, nor lines with a header that names a barcode"
    " and a time, nor lines of facility ZIP, operation, time, routing and tracking code."
)


def read_csv_rows(chunks: Iterator[str]) -> Iterator[RawScanRow | BadScanRow]:
    lines = _split_lines(chunks)
    first_lines = list(islice(lines, MAX_HEADER_LINES))
    first = next((line for line in first_lines if line.strip()), "")
    reader = csv.reader(chain(first_lines, lines), delimiter=max(DELIMITERS, key=first.count))
    unrecognized: list[Sequence[str]] = []
    for number, row in _number_rows(reader):
        if isinstance(row, str) or not any(row):
            continue
        if not unrecognized and rules.ScanColumns(row).has_scan_columns:
            yield from _read_named_rows([name.strip() for name in row], reader)
            return
        unrecognized.append(row)
        if _is_legacy(row):
            for skipped in range(1, number):
                yield BadScanRow(skipped, "it is not a scan")
            yield _build_raw_row(number, rules.LEGACY_COLUMNS, row)
            yield from _read_named_rows(rules.LEGACY_COLUMNS, reader)
            return
        if len(unrecognized) >= MAX_HEADER_LINES:
            break
    if unrecognized or first:
        raise InvalidScanFile(UNKNOWN_FORMAT)
    raise InvalidScanFile("The file is empty.")


def _is_legacy(row: Sequence[str]) -> bool:
    if len(row) < len(rules.LEGACY_COLUMNS):
        return False
    zip_code, operation, _, _, tracking = (cell.strip() for cell in row[: len(rules.LEGACY_COLUMNS)])
    is_code = tracking.isdigit() and rules.MIN_BARCODE_DIGITS <= len(tracking) <= 20
    return len(operation) == 3 and operation.isdigit() and zip_code.isdigit() and is_code


class _CsvReader(Protocol):
    """The standard library's reader, which has no public name."""

    line_num: int

    def __next__(self) -> list[str]: ...


def _read_named_rows(names: Sequence[str], reader: _CsvReader) -> Iterator[RawScanRow | BadScanRow]:
    for number, row in _number_rows(reader):
        if isinstance(row, str):
            yield BadScanRow(number, row)
        elif len(row) > len(names):
            yield BadScanRow(number, f"it has {len(row)} columns instead of {len(names)}")
        elif row:
            yield _build_raw_row(number, names, row)


def _build_raw_row(number: int, names: Sequence[str], row: Sequence[str]) -> RawScanRow:
    columns = dict(zip(names, row, strict=False))
    return RawScanRow(number, columns, orjson.dumps(columns).decode())


def _number_rows(reader: _CsvReader) -> Iterator[tuple[int, list[str] | str]]:
    """Each row with its line number, or with the reason why it cannot be read."""
    while True:
        try:
            yield reader.line_num + 1, next(reader)
        except csv.Error:
            yield reader.line_num, "its quotes or its length are wrong"
        except StopIteration:
            return


def _split_lines(chunks: Iterator[str]) -> Iterator[str]:
    """A line without an end is cut, and will not be a scan."""
    remainder = ""
    for chunk in chunks:
        # Unlike `splitlines` it breaks only at line ends, not at form feeds and the like.
        complete_lines = list(StringIO(remainder + chunk, newline=""))
        remainder = complete_lines.pop() if complete_lines and not complete_lines[-1].endswith("\n") else ""
        yield from complete_lines
        while len(remainder) > rules.MAX_ROW_LENGTH:
            yield remainder[: rules.MAX_ROW_LENGTH] + "\n"
            remainder = remainder[rules.MAX_ROW_LENGTH :]
    if remainder:
        yield remainder


MAX_COLUMN_SETS = 100


def read_scans(source: BinaryIO, *, json_only: bool = False) -> Iterator[Scan | BadScanRow]:
    """Each row of the file as a scan or a bad row; `InvalidScanFile` as soon as that is certain."""
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
    columns_by_names: dict[tuple[str, ...], rules.ScanColumns] = {}
    has_scan, first_bad = False, None
    for row in rows:
        result: Scan | BadScanRow
        if isinstance(row, BadScanRow):
            result = row
        else:
            column_names = tuple(row.columns)
            columns = columns_by_names.get(column_names)
            if columns is None:
                columns = rules.ScanColumns(column_names)
                if len(columns_by_names) < MAX_COLUMN_SETS:
                    columns_by_names[column_names] = columns
            try:
                result = rules.parse_scan(row.columns, columns, row.raw)
            except rules.UnreadableScan as error:
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
