"""A file as text, unpacked and bounded, and what readers make of it."""

import codecs
import zlib
from collections.abc import Iterator, Mapping
from typing import BinaryIO, NamedTuple

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
