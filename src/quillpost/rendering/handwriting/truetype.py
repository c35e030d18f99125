"""TrueType files: taken apart, thinned, and written as PDF embeds them."""

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.outlines import Shape

_VERSION = 0x00010000
_SFNT_MAGIC = 0xB1B0AFBA
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
    adjustment = struct.pack(">I", (_SFNT_MAGIC - total) & 0xFFFFFFFF)
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


Whole = npt.NDArray[np.int64]
Truth = npt.NDArray[np.bool_]

_ON_CURVE, _X_SHORT, _Y_SHORT, _X_SAME_OR_POSITIVE, _Y_SAME_OR_POSITIVE = 1, 2, 4, 16, 32
_MAGIC = 0x5F0F3CF5
_FIXED_DATE = 3_660_681_600  # the first day of 2020, in seconds since 1904


def write(units: int, advances: Sequence[int], shapes: Sequence[Shape]) -> bytes:
    """The font of these glyphs, each with its advance; the first one is .notdef."""
    points = _points_of(shapes)
    boxes, contour_counts, point_counts = _boxes_of(points, len(shapes))
    glyphs = _glyph_records(points, boxes, len(shapes))
    offsets = np.concatenate([[0], np.cumsum([len(glyph) for glyph in glyphs])])
    widths = np.array(advances)
    left, bottom, right, top = boxes.min(0)[:2].tolist() + boxes.max(0)[2:].tolist()
    head = struct.pack(
        ">IIIIHHQQhhhhHHhhh",
        *(0x00010000, 0x00010000, 0, _MAGIC, 0b1011, units, _FIXED_DATE, _FIXED_DATE),
        *(left, bottom, right, top, 0, 8, 2, 1, 0),
    )
    hhea = struct.pack(
        ">IhhhHhhhhhh4hhH",
        *(0x00010000, top, bottom, 0, widths.max(), left, int((widths - boxes[:, 2]).min()), right),
        *(1, 0, 0, 0, 0, 0, 0, 0, len(shapes)),
    )
    maxp = struct.pack(
        ">IHHHHHHHHHHHHHH",
        *(0x00010000, len(shapes), int(point_counts.max()), int(contour_counts.max()), 0, 0, 1),
        *(0, 0, 0, 0, 0, 0, 0, 0),
    )
    return assembled(
        {
            b"glyf": b"".join(glyphs),
            b"head": head,
            b"hhea": hhea,
            b"hmtx": np.stack([widths, boxes[:, 0]], 1).astype(">i2").tobytes(),
            b"loca": offsets.astype(">u4").tobytes(),
            b"maxp": maxp,
        }
    )


@dataclass(frozen=True, eq=False)
class _Points:
    """All points of all glyphs in one row, with the glyph and the contour that each belongs to."""

    places: Whole
    on_curve: Truth
    contour: Whole
    glyph: Whole


def _points_of(shapes: Sequence[Shape]) -> _Points:
    contours = [contour for shape in shapes for contour in shape]
    sizes = np.array([2 * len(contour) for contour in contours], dtype=np.int64)
    owners = np.repeat(np.arange(len(shapes)), [len(shape) for shape in shapes])
    starts_and_controls = [contour[:, :2].reshape(-1, 2) for contour in contours]
    places = np.rint(np.concatenate([np.zeros((0, 2)), *starts_and_controls])).astype(np.int64)
    contour = np.repeat(np.arange(len(contours)), sizes)
    everything = _Points(places, np.arange(len(places)) % 2 == 0, contour, np.repeat(owners, sizes))
    keep = ~_is_needless(everything, sizes)
    return _Points(places[keep], everything.on_curve[keep], contour[keep], everything.glyph[keep])


def _is_needless(points: _Points, sizes: Whole) -> Truth:
    """Controls half way along a straight line, and starts half way between two controls.

    A contour's first point always stays. Half a unit is lost at most, as in all rounding.
    """
    if not len(sizes):
        return np.zeros(0, dtype=np.bool_)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    size = np.repeat(sizes, sizes)
    position = np.arange(len(points.places)) - first
    before, after = first + (position - 1) % size, first + (position + 1) % size
    bend = np.abs(2 * points.places - points.places[before] - points.places[after]).max(1)
    is_half_way = bend <= 1
    straight: Truth = is_half_way & ~points.on_curve
    implied: Truth = is_half_way & points.on_curve & ~straight[before] & ~straight[after] & (position > 0)
    return straight | implied


def _boxes_of(points: _Points, count: int) -> tuple[Whole, Whole, Whole]:
    """For each glyph its left, bottom, right and top, and how many contours and points it has."""
    boxes = np.zeros((count, 4), dtype=np.int64)
    point_counts = np.bincount(points.glyph, minlength=count)
    inked = point_counts > 0
    if inked.any():
        starts = (np.cumsum(point_counts) - point_counts)[inked]
        boxes[inked, :2] = np.minimum.reduceat(points.places, starts)
        boxes[inked, 2:] = np.maximum.reduceat(points.places, starts)
    starts_contour = np.diff(points.contour, prepend=-1) > 0
    return boxes, np.bincount(points.glyph[starts_contour], minlength=count), point_counts


def _glyph_records(points: _Points, boxes: Whole, count: int) -> list[bytes]:
    first_of_glyph = np.diff(points.glyph, prepend=-1) > 0
    steps = np.diff(points.places, axis=0, prepend=np.zeros((1, 2), dtype=np.int64))
    steps[first_of_glyph] = points.places[first_of_glyph]
    flags = points.on_curve.astype(np.int64)
    flags |= _step_flags(steps[:, 0], _X_SHORT, _X_SAME_OR_POSITIVE)
    flags |= _step_flags(steps[:, 1], _Y_SHORT, _Y_SAME_OR_POSITIVE)
    flag_bytes = flags.astype(np.uint8).tobytes()
    x_bytes, x_ends = _step_bytes(steps[:, 0])
    y_bytes, y_ends = _step_bytes(steps[:, 1])
    edges = np.searchsorted(points.glyph, np.arange(count + 1))
    last_of_contour = np.flatnonzero(np.diff(points.contour, append=-1))
    contour_edges = np.searchsorted(last_of_contour, edges)

    def record(glyph: int) -> bytes:
        start, end = edges[glyph], edges[glyph + 1]
        if start == end:
            return b""
        ends = last_of_contour[contour_edges[glyph] : contour_edges[glyph + 1]] - start
        content = b"".join(
            (
                struct.pack(">5h", len(ends), *boxes[glyph].tolist()),
                ends.astype(">u2").tobytes(),
                b"\0\0",
                flag_bytes[start:end],
                x_bytes[x_ends[start] : x_ends[end]],
                y_bytes[y_ends[start] : y_ends[end]],
            )
        )
        return padded(content)

    return [record(glyph) for glyph in range(count)]


def _step_flags(steps: Whole, short: int, same_or_positive: int) -> Whole:
    is_short = (steps != 0) & (np.abs(steps) < 256)
    is_same_or_positive = (steps == 0) | (is_short & (steps > 0))
    flags: Whole = is_short * short | is_same_or_positive * same_or_positive
    return flags


def _step_bytes(steps: Whole) -> tuple[bytes, Whole]:
    """The steps as TrueType packs them, and where each begins (and, last, where all end)."""
    size = np.abs(steps)
    lengths = (size > 0).astype(np.int64) + (size >= 256)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    packed = np.zeros(ends[-1], dtype=np.uint8)
    short, long = lengths == 1, lengths == 2
    packed[ends[:-1][short]] = size[short]
    packed[ends[:-1][long]] = (steps[long] >> 8) & 255
    packed[ends[:-1][long] + 1] = steps[long] & 255
    return packed.tobytes(), ends
