"""TrueType fonts, read, subset and written."""

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import uharfbuzz as hb

from quillpost.rendering.handwriting.outlines import Floats, Shape

UNITS_PER_EM = 1000
_SUBSET_FLAGS = hb.SubsetFlags.NO_HINTING | hb.SubsetFlags.NOTDEF_OUTLINE | hb.SubsetFlags.GLYPH_NAMES
_COPYRIGHT_AND_LICENSE_IDS = (0, 13, 14)
_UNUSED_TABLES = ("BASE", "STAT", "gasp", "vhea", "vmtx", "DSIG")


@dataclass(frozen=True, eq=False)
class Glyph:
    """One glyph in thousandths of an em."""

    name: str
    advance: int
    shape: Shape


@dataclass(frozen=True, eq=False)
class Typeface:
    """A static TrueType font and what is in it; a glyph's place in `glyphs` is its number."""

    data: bytes
    glyphs: list[Glyph]
    glyphs_by_char: dict[str, int]


def font_chars(font_bytes: bytes) -> frozenset[str]:
    return frozenset(map(chr, hb.Face(font_bytes).unicodes))


def subset_font(font_bytes: bytes, chars: Iterable[str], features: Iterable[str], weight: int | None) -> Typeface:
    """The font with these letters, and all glyphs that its layout features make of them."""
    face = hb.Face(font_bytes)
    subset = hb.SubsetInput()
    subset.flags = _SUBSET_FLAGS
    subset.unicode_set.update(set(face.unicodes) & set(map(ord, chars)))
    subset.name_id_set.clear()
    subset.name_id_set.update(_COPYRIGHT_AND_LICENSE_IDS)
    subset.layout_feature_tag_set.clear()
    subset.layout_feature_tag_set.update(map(_tag, features))
    subset.drop_table_tag_set.update(map(_tag, _UNUSED_TABLES))
    if weight is not None:
        subset.pin_axis_location(face, "wght", weight)
    if "kern" in face.table_tags:  # older kerning is carried over as it is, so glyphs must keep their numbers
        subset.drop_table_tag_set.discard(_tag("kern"))
        subset.no_subset_table_tag_set.add(_tag("kern"))
        subset.flags |= hb.SubsetFlags.RETAIN_GIDS
    return _read_typeface(bytes(hb.subset(face, subset).blob.data))


def _tag(name: str) -> int:
    return int.from_bytes(name.encode("ascii"), "big")


def _read_typeface(data: bytes) -> Typeface:
    face = hb.Face(data)
    font = hb.Font(face)
    font.scale = (UNITS_PER_EM, UNITS_PER_EM)
    recorder = _OutlineRecorder()
    names = _unique_glyph_names(font, face.glyph_count)
    glyphs = [
        Glyph(name, font.get_glyph_h_advance(number), recorder.draw(font, number)) for number, name in enumerate(names)
    ]
    glyphs_by_char = {chr(code): font.get_nominal_glyph(code) for code in sorted(face.unicodes)}
    return Typeface(data, glyphs, glyphs_by_char)


def _unique_glyph_names(font: Any, count: int) -> list[str]:
    seen: set[str] = set()
    names = []
    for number in range(count):
        name = font.glyph_to_string(number)
        names.append(f"{name}#{number}" if name in seen else name)
        seen.add(name)
    return names


class _OutlineRecorder:
    def __init__(self) -> None:
        self._contours: list[list[tuple[float, ...]]] = []
        self._x = self._y = 0.0
        self._funcs = hb.DrawFuncs()
        self._funcs.set_move_to_func(self._move_to)
        self._funcs.set_line_to_func(self._line_to)
        self._funcs.set_quadratic_to_func(self._curve_to)
        self._funcs.set_close_path_func(lambda _: None)

    def draw(self, font: Any, number: int) -> Shape:
        self._contours = []
        font.draw_glyph(number, self._funcs, None)
        return [np.array(contour).reshape(-1, 3, 2) for contour in self._contours if contour]

    def _move_to(self, x: float, y: float, _: None) -> None:
        self._contours.append([])
        self._x, self._y = x, y

    def _line_to(self, x: float, y: float, _: None) -> None:
        if (x, y) != (self._x, self._y):
            self._curve_to((self._x + x) / 2, (self._y + y) / 2, x, y, None)

    def _curve_to(self, control_x: float, control_y: float, x: float, y: float, _: None) -> None:
        self._contours[-1].append((self._x, self._y, control_x, control_y, x, y))
        self._x, self._y = x, y


_VERSION = 0x00010000
_SFNT_MAGIC = 0xB1B0AFBA
_HEAD_CHECKSUM = slice(8, 12)
_LONG_OFFSETS = slice(50, 52)
# What a PDF needs to draw by glyph number; hints come along where there are any.
_DRAWING_TABLES = (b"cvt ", b"fpgm", b"glyf", b"head", b"hhea", b"hmtx", b"loca", b"maxp", b"prep")


FontTable = bytes | memoryview


def read_tables(font: bytes) -> dict[bytes, memoryview]:
    (count,) = struct.unpack_from(">H", font, 4)
    directory = struct.iter_unpack(">4s4xII", font[12 : 12 + 16 * count])
    view = memoryview(font)
    return {tag: view[offset : offset + length] for tag, offset, length in directory}


def assemble_font(tables: Mapping[bytes, FontTable]) -> bytes:
    bodies = {tag: pad_table(tables[tag]) for tag in sorted(tables)}
    bodies[b"head"] = _replace_slice(bodies[b"head"], _HEAD_CHECKSUM, bytes(4))
    checksums = {tag: _checksum(body) for tag, body in bodies.items()}
    directory, offset = b"", 12 + 16 * len(bodies)
    for tag, body in bodies.items():
        directory += struct.pack(">4sIII", tag, checksums[tag], offset, len(tables[tag]))
        offset += len(body)
    entry_selector = len(bodies).bit_length() - 1
    search_range = 16 << entry_selector
    head = struct.pack(">IHHHH", _VERSION, len(bodies), search_range, entry_selector, 16 * len(bodies) - search_range)
    header = head + directory
    total = (_checksum(header) + sum(checksums.values())) & 0xFFFFFFFF
    adjustment = struct.pack(">I", (_SFNT_MAGIC - total) & 0xFFFFFFFF)
    bodies[b"head"] = _replace_slice(bodies[b"head"], _HEAD_CHECKSUM, adjustment)
    return b"".join([header, *bodies.values()])


def subset_outlines(font: bytes, used_glyphs: Collection[int]) -> bytes:
    """The font with only the used outlines; glyphs keep their numbers. Composite glyphs would lose their parts."""
    tables = read_tables(font)
    offsets = _glyph_offsets(tables)
    is_used = np.zeros(len(offsets) - 1, bool)
    is_used[0] = True
    is_used[np.fromiter(used_glyphs, np.int64, len(used_glyphs))] = True
    starts, ends = offsets[:-1][is_used].tolist(), offsets[1:][is_used].tolist()
    outlines = tables[b"glyf"]
    glyf = b"".join([outlines[start:end] for start, end in zip(starts, ends, strict=True)])
    lengths = np.where(is_used, np.diff(offsets), 0)
    loca = np.concatenate(([0], np.cumsum(lengths))).astype(">u4")
    new_tables: dict[bytes, FontTable] = {
        b"glyf": glyf,
        b"loca": loca.tobytes(),
        b"head": _replace_slice(tables[b"head"], _LONG_OFFSETS, b"\0\1"),
        b"hmtx": _subset_metrics(tables, is_used),
    }
    return assemble_font({**{tag: tables[tag] for tag in _DRAWING_TABLES if tag in tables}, **new_tables})


def _glyph_offsets(tables: Mapping[bytes, FontTable]) -> npt.NDArray[np.int64]:
    if tables[b"head"][_LONG_OFFSETS] == b"\0\1":
        return np.frombuffer(tables[b"loca"], ">u4").astype(np.int64)
    return np.frombuffer(tables[b"loca"], ">u2").astype(np.int64) * 2


def _subset_metrics(tables: Mapping[bytes, FontTable], is_used: npt.NDArray[np.bool_]) -> bytes:
    """Advances and side bearings; those of glyphs that are gone are zero, which deflates well."""
    (full_row_count,) = struct.unpack_from(">H", tables[b"hhea"], 34)
    metrics = np.frombuffer(tables[b"hmtx"], ">u2").copy()
    rows = metrics[: 2 * full_row_count].reshape(-1, 2)
    is_removed = ~is_used
    # The last full row's advance is also that of the glyphs after it.
    rows[:-1][is_removed[: full_row_count - 1]] = 0
    metrics[2 * full_row_count :][is_removed[full_row_count:]] = 0
    return metrics.tobytes()


def pad_table(table: FontTable) -> bytes:
    return b"".join((table, bytes(-len(table) % 4)))


def _checksum(table: bytes) -> int:
    return int(np.frombuffer(table, ">u4").sum(dtype=np.uint64)) & 0xFFFFFFFF


def _replace_slice(table: FontTable, position: slice, value: bytes) -> bytes:
    return b"".join((table[: position.start], value, table[position.stop :]))


Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_ON_CURVE, _X_SHORT, _Y_SHORT, _X_SAME_OR_POSITIVE, _Y_SAME_OR_POSITIVE = 1, 2, 4, 16, 32
_HEAD_MAGIC = 0x5F0F3CF5
_FIXED_DATE = 3_660_681_600  # the first day of 2020, in seconds since 1904


@dataclass(frozen=True, slots=True)
class GlyphRecord:
    """A glyph as the table of outlines has it, with its box and how many contours and points it has."""

    data: bytes
    box: tuple[int, int, int, int]
    contours: int
    points: int


EMPTY_GLYPH = GlyphRecord(b"", (0, 0, 0, 0), 0, 0)


def write_font(units: int, advances: Sequence[int], shapes: Sequence[Shape]) -> bytes:
    """The first glyph is .notdef."""
    return assemble_glyphs(units, advances, _pack_glyphs(_collect_points(shapes), len(shapes)))


def pack_curves(controls: Floats, starts: Integers, glyphs: Integers, count: int) -> list[GlyphRecord]:
    """Glyphs of closed curves that run half-way between their controls; `glyphs` says of which each curve is.

    One point a curve is whole, as some printers want: half-way between its last control and its first.
    """
    lengths = np.diff(starts)
    firsts = np.arange(len(lengths)) + starts[:-1]
    coordinates = np.empty((len(controls) + len(lengths), 2))
    is_on_curve = np.zeros(len(coordinates), np.bool_)
    is_on_curve[firsts] = True
    coordinates[~is_on_curve] = controls
    coordinates[firsts] = (controls[starts[:-1]] + controls[starts[1:] - 1]) / 2
    contour = np.repeat(np.arange(len(lengths)), lengths + 1)
    points = _Points(np.rint(coordinates).astype(np.int64), is_on_curve, contour, glyphs[contour])
    return _pack_glyphs(points, count)


def assemble_glyphs(units: int, advances: Sequence[int], glyphs: Sequence[GlyphRecord]) -> bytes:
    """The first glyph is .notdef."""
    boxes = np.array([glyph.box for glyph in glyphs], np.int64)
    widths = np.array(advances)
    offsets = np.concatenate([[0], np.cumsum([len(glyph.data) for glyph in glyphs])])
    left, bottom, right, top = boxes.min(0)[:2].tolist() + boxes.max(0)[2:].tolist()
    head = struct.pack(
        ">IIIIHHQQhhhhHHhhh",
        *(0x00010000, 0x00010000, 0, _HEAD_MAGIC, 0b1011, units, _FIXED_DATE, _FIXED_DATE),
        *(left, bottom, right, top, 0, 8, 2, 1, 0),
    )
    hhea = struct.pack(
        ">IhhhHhhhhhh4hhH",
        *(0x00010000, top, bottom, 0, widths.max(), left, int((widths - boxes[:, 2]).min()), right),
        *(1, 0, 0, 0, 0, 0, 0, 0, len(glyphs)),
    )
    maxp = struct.pack(
        ">IHHHHHHHHHHHHHH",
        *(0x00010000, len(glyphs), max(glyph.points for glyph in glyphs), max(glyph.contours for glyph in glyphs)),
        *(0, 0, 1),
        *(0, 0, 0, 0, 0, 0, 0, 0),
    )
    hmtx = np.stack([widths, boxes[:, 0]], 1).astype(">i2").tobytes()
    glyf, loca = b"".join([glyph.data for glyph in glyphs]), offsets.astype(">u4").tobytes()
    return assemble_font({b"glyf": glyf, b"head": head, b"hhea": hhea, b"hmtx": hmtx, b"loca": loca, b"maxp": maxp})


@dataclass(frozen=True, eq=False)
class _Points:
    """All points of all glyphs in one row, with the glyph and the contour that each belongs to."""

    coordinates: Integers
    is_on_curve: Flags
    contour: Integers
    glyph: Integers


def _collect_points(shapes: Sequence[Shape]) -> _Points:
    contours = [contour for shape in shapes for contour in shape]
    sizes = np.array([2 * len(contour) for contour in contours], dtype=np.int64)
    owners = np.repeat(np.arange(len(shapes)), [len(shape) for shape in shapes])
    starts_and_controls = [contour[:, :2].reshape(-1, 2) for contour in contours]
    coordinates = np.rint(np.concatenate([np.zeros((0, 2)), *starts_and_controls])).astype(np.int64)
    contour = np.repeat(np.arange(len(contours)), sizes)
    all_points = _Points(coordinates, np.arange(len(coordinates)) % 2 == 0, contour, np.repeat(owners, sizes))
    is_retained = ~_is_redundant(all_points, sizes)
    is_on_curve, glyph = all_points.is_on_curve[is_retained], all_points.glyph[is_retained]
    return _Points(coordinates[is_retained], is_on_curve, contour[is_retained], glyph)


def _is_redundant(points: _Points, sizes: Integers) -> Flags:
    """Controls half way along a straight line, and starts half way between controls; never a contour's first point."""
    if not len(sizes):
        return np.zeros(0, dtype=np.bool_)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    size = np.repeat(sizes, sizes)
    position = np.arange(len(points.coordinates)) - first
    previous, following = first + (position - 1) % size, first + (position + 1) % size
    bend = np.abs(2 * points.coordinates - points.coordinates[previous] - points.coordinates[following]).max(1)
    is_half_way = bend <= 1
    is_straight_control: Flags = is_half_way & ~points.is_on_curve
    is_implied: Flags = (
        is_half_way
        & points.is_on_curve
        & ~is_straight_control[previous]
        & ~is_straight_control[following]
        & (position > 0)
    )
    return is_straight_control | is_implied


def _glyph_boxes(points: _Points, count: int) -> tuple[Integers, Integers, Integers]:
    """For each glyph its left, bottom, right and top, and how many contours and points it has."""
    boxes = np.zeros((count, 4), dtype=np.int64)
    point_counts = np.bincount(points.glyph, minlength=count)
    has_ink = point_counts > 0
    if has_ink.any():
        starts = (np.cumsum(point_counts) - point_counts)[has_ink]
        boxes[has_ink, :2] = np.minimum.reduceat(points.coordinates, starts)
        boxes[has_ink, 2:] = np.maximum.reduceat(points.coordinates, starts)
    starts_contour = np.diff(points.contour, prepend=-1) > 0
    return boxes, np.bincount(points.glyph[starts_contour], minlength=count), point_counts


def _pack_glyphs(points: _Points, count: int) -> list[GlyphRecord]:
    boxes, contour_counts, point_counts = _glyph_boxes(points, count)
    first_of_glyph = np.diff(points.glyph, prepend=-1) > 0
    steps = np.diff(points.coordinates, axis=0, prepend=np.zeros((1, 2), dtype=np.int64))
    steps[first_of_glyph] = points.coordinates[first_of_glyph]
    flags = points.is_on_curve.astype(np.int64)
    flags |= _step_flags(steps[:, 0], _X_SHORT, _X_SAME_OR_POSITIVE)
    flags |= _step_flags(steps[:, 1], _Y_SHORT, _Y_SAME_OR_POSITIVE)
    flag_bytes = flags.astype(np.uint8).tobytes()
    x_bytes, x_ends = _step_bytes(steps[:, 0])
    y_bytes, y_ends = _step_bytes(steps[:, 1])
    edges = np.searchsorted(points.glyph, np.arange(count + 1))
    last_of_contour = np.flatnonzero(np.diff(points.contour, append=-1))
    contour_edges = np.searchsorted(last_of_contour, edges)

    contour_ends = (last_of_contour - edges[points.glyph[last_of_contour]]).astype(">u2").tobytes()
    bounds = edges.tolist(), contour_edges.tolist(), x_ends[edges].tolist(), y_ends[edges].tolist()

    def record(glyph: int, box: list[int], contours: int, point_count: int) -> GlyphRecord:
        if not point_count:
            return EMPTY_GLYPH
        (start, end), (first, last), (x_start, x_end), (y_start, y_end) = (at[glyph : glyph + 2] for at in bounds)
        head = struct.pack(">5h", contours, *box) + contour_ends[2 * first : 2 * last] + b"\0\0"
        steps = x_bytes[x_start:x_end] + y_bytes[y_start:y_end]
        return GlyphRecord(pad_table(head + flag_bytes[start:end] + steps), tuple(box), contours, point_count)  # type: ignore[arg-type]

    rows = zip(range(count), boxes.tolist(), contour_counts.tolist(), point_counts.tolist(), strict=True)
    return [record(*row) for row in rows]


def _step_flags(steps: Integers, short_flag: int, same_or_positive_flag: int) -> Integers:
    is_short = (steps != 0) & (np.abs(steps) < 256)
    is_same_or_positive = (steps == 0) | (is_short & (steps > 0))
    flags: Integers = is_short * short_flag | is_same_or_positive * same_or_positive_flag
    return flags


def _step_bytes(steps: Integers) -> tuple[bytes, Integers]:
    """The steps as TrueType packs them, and where each begins (and, last, where all end)."""
    size = np.abs(steps)
    lengths = (size > 0).astype(np.int64) + (size >= 256)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    packed = np.zeros(ends[-1], dtype=np.uint8)
    is_short, is_long = lengths == 1, lengths == 2
    packed[ends[:-1][is_short]] = size[is_short]
    packed[ends[:-1][is_long]] = (steps[is_long] >> 8) & 255
    packed[ends[:-1][is_long] + 1] = steps[is_long] & 255
    return packed.tobytes(), ends
