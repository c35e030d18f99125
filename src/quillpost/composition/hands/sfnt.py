"""TrueType files as tables: taking them apart, thinning their outlines, putting them together."""

import struct
from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

_VERSION = 0x00010000
_MAGIC = 0xB1B0AFBA
_HEAD_CHECKSUM = slice(8, 12)
_LONG_OFFSETS = slice(50, 52)
# What a PDF needs to draw by glyph number; hints come along where there are any.
_DRAWING = (b"cvt ", b"fpgm", b"glyf", b"head", b"hhea", b"hmtx", b"loca", b"maxp", b"prep")


Table = bytes | memoryview


def tables_of(font: bytes) -> dict[bytes, memoryview]:
    """Its tables by their tags; they stay where they are."""
    (count,) = struct.unpack_from(">H", font, 4)
    directory = struct.iter_unpack(">4s4xII", font[12 : 12 + 16 * count])
    whole = memoryview(font)
    return {tag: whole[offset : offset + length] for tag, offset, length in directory}


def assembled(tables: Mapping[bytes, Table]) -> bytes:
    """A font of these tables; its checksums are right."""
    bodies = {tag: padded(tables[tag]) for tag in sorted(tables)}
    bodies[b"head"] = _with(bodies[b"head"], _HEAD_CHECKSUM, bytes(4))
    sums = {tag: _checksum(body) for tag, body in bodies.items()}
    directory, at = b"", 12 + 16 * len(bodies)
    for tag, body in bodies.items():
        directory += struct.pack(">4sIII", tag, sums[tag], at, len(tables[tag]))
        at += len(body)
    power = len(bodies).bit_length() - 1
    search = 16 << power
    head = struct.pack(">IHHHH", _VERSION, len(bodies), search, power, 16 * len(bodies) - search)
    front = head + directory
    total = (_checksum(front) + sum(sums.values())) & 0xFFFFFFFF
    adjustment = struct.pack(">I", (_MAGIC - total) & 0xFFFFFFFF)
    bodies[b"head"] = _with(bodies[b"head"], _HEAD_CHECKSUM, adjustment)
    return b"".join([front, *bodies.values()])


def thinned(font: bytes, used: Collection[int]) -> bytes:
    """The font with the outlines of the used glyphs alone; every glyph keeps its number.

    No glyph may be made of other glyphs: their parts would be lost.
    """
    tables = tables_of(font)
    offsets = _offsets(tables)
    kept = np.zeros(len(offsets) - 1, bool)
    kept[0] = True
    kept[np.fromiter(used, np.int64, len(used))] = True
    starts, ends = offsets[:-1][kept].tolist(), offsets[1:][kept].tolist()
    outlines = tables[b"glyf"]
    glyf = b"".join([outlines[start:end] for start, end in zip(starts, ends, strict=True)])
    lengths = np.where(kept, np.diff(offsets), 0)
    loca = np.concatenate(([0], np.cumsum(lengths))).astype(">u4")
    replaced: dict[bytes, Table] = {
        b"glyf": glyf,
        b"loca": loca.tobytes(),
        b"head": _with(tables[b"head"], _LONG_OFFSETS, b"\0\1"),
        b"hmtx": _thinned_metrics(tables, kept),
    }
    return assembled({**{tag: tables[tag] for tag in _DRAWING if tag in tables}, **replaced})


def _offsets(tables: Mapping[bytes, Table]) -> npt.NDArray[np.int64]:
    if tables[b"head"][_LONG_OFFSETS] == b"\0\1":
        return np.frombuffer(tables[b"loca"], ">u4").astype(np.int64)
    return np.frombuffer(tables[b"loca"], ">u2").astype(np.int64) * 2


def _thinned_metrics(tables: Mapping[bytes, Table], kept: npt.NDArray[np.bool_]) -> bytes:
    """Advances and side bearings; those of glyphs that are gone are zero, which deflates well."""
    (full_rows,) = struct.unpack_from(">H", tables[b"hhea"], 34)
    metrics = np.frombuffer(tables[b"hmtx"], ">u2").copy()
    rows = metrics[: 2 * full_rows].reshape(-1, 2)
    gone = ~kept
    # The last full row's advance is also that of the glyphs after it.
    rows[:-1][gone[: full_rows - 1]] = 0
    metrics[2 * full_rows :][gone[full_rows:]] = 0
    return metrics.tobytes()


def padded(table: Table) -> bytes:
    return b"".join((table, bytes(-len(table) % 4)))


def _checksum(table: bytes) -> int:
    return int(np.frombuffer(table, ">u4").sum(dtype=np.uint64)) & 0xFFFFFFFF


def _with(table: Table, place: slice, value: bytes) -> bytes:
    return b"".join((table[: place.start], value, table[place.stop :]))
