"""A carrier's file as text, unpacked and bounded, and its CSV rows."""

import codecs
import csv
import zlib
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from itertools import chain, islice
from typing import BinaryIO, NamedTuple, Protocol

import orjson

from quillpost.fulfillment.tracking.fields import LEGACY, SHORTEST, Columns

PIECE_BYTES = 262_144
LONGEST_ROW = 65_536
"""Characters. A scan has some hundreds."""

MOST_BYTES = 1_000_000_000
"""Of one file when unpacked: some millions of scans."""

GZIP = b"\x1f\x8b"
MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class NotScans(Exception):
    """Why a file holds no scans, as a sentence."""


class BadRow(NamedTuple):
    """A row that could not be read: its number in the file, counted from 1, and why."""

    row: int
    reason: str


class RawRow(NamedTuple):
    """What a row says by column, and the same as JSON."""

    row: int
    columns: Mapping[str, object]
    raw: str


def pieces_of(source: BinaryIO) -> Iterator[str]:
    """The file's text. Bytes that are no text become question marks; a NUL, which nobody can store, goes."""
    chunks = _unpacked(source)
    first = next(chunks, b"")
    decoder = codecs.getincrementaldecoder(MARKS.get(first[:2], "utf-8-sig"))("replace")
    total = len(first)
    yield decoder.decode(first).replace("\x00", "")
    for chunk in chunks:
        total += len(chunk)
        if total > MOST_BYTES:
            raise NotScans(f"The file is larger than {MOST_BYTES:,} bytes: send it in parts.")
        yield decoder.decode(chunk).replace("\x00", "")
    yield decoder.decode(b"", final=True).replace("\x00", "")


def _unpacked(source: BinaryIO) -> Iterator[bytes]:
    first = _read(source)
    if first[:2] != GZIP:
        while first:
            yield first
            first = _read(source)
        return
    yield from _gunzipped(source, first)


def _gunzipped(source: BinaryIO, packed: bytes) -> Iterator[bytes]:
    """However much a few bytes unfold to, it comes in small pieces. Files may be packed one after another."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        while packed:
            yield inflate.decompress(packed, PIECE_BYTES)
            if inflate.eof:
                packed = inflate.unused_data or _read(source)
                if packed[:2] != GZIP:  # what follows is padding
                    return
                inflate = zlib.decompressobj(wbits=31)
            else:
                packed = inflate.unconsumed_tail or _read(source)
    except zlib.error:
        raise NotScans("The file is packed with gzip, and damaged: send it again.") from None
    if not inflate.eof:
        raise NotScans("The file is packed with gzip, and ends too early: send it again.")


def _read(source: BinaryIO) -> bytes:
    return source.read(PIECE_BYTES) or b""


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
