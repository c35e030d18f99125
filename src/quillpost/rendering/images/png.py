"""PNG files as chunks: what the header says, the deflated pixels, and plain files written in strips."""

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from quillpost.rendering.images.jpeg import UPRIGHT, read_orientation, write_orientation
from quillpost.rendering.images.limits import MOST_PROFILE_BYTES, PNG, BadImage
from quillpost.rendering.pdf.png import png_file

GREY, RGB, PALETTE, GREY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
_CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGB_ALPHA: 4}
_DEPTHS = {
    GREY: (1, 2, 4, 8, 16),
    RGB: (8, 16),
    PALETTE: (1, 2, 4, 8),
    GREY_ALPHA: (8, 16),
    RGB_ALPHA: (8, 16),
}

PIXEL_CHUNKS = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})
PLAIN_CHUNKS = PIXEL_CHUNKS | {b"iCCP", b"sRGB", b"gAMA", b"cHRM", b"pHYs", b"eXIf"}
"""All that a printed picture can use; comments, thumbnails and further frames are none of it."""

_DEFLATED = b"\0"
"""The only way of packing that there is."""

# Where the rows and columns of each pass of an interlaced picture begin, and how far they are apart.
_PASSES = (
    (0, 8, 0, 8),
    (0, 8, 4, 8),
    (4, 8, 0, 4),
    (0, 4, 2, 4),
    (2, 4, 0, 2),
    (0, 2, 1, 2),
    (1, 2, 0, 1),
)

_MOST_CHUNKS = 20_000

_FILTER_UP = 2
_DEFLATE_LEVEL = 2
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PngHeader:
    """`width` and `height` are as stored, before any rotation."""

    width: int
    height: int
    depth: int
    colour: int
    is_interlaced: bool

    @property
    def components(self) -> int:
        """How many colour channels there are without the alpha channel."""
        return 1 if self.colour in (GREY, GREY_ALPHA) else 3

    @property
    def row_bytes(self) -> int:
        return self._bytes_of(self.width)

    @property
    def pixel_bytes(self) -> int:
        """All rows with the filter byte that leads each, of all passes if there are several."""
        passes = _PASSES if self.is_interlaced else ((0, 1, 0, 1),)
        sizes = (
            (len(range(left, self.width, across)), len(range(top, self.height, down)))
            for top, down, left, across in passes
        )
        return sum(rows * (1 + self._bytes_of(columns)) for columns, rows in sizes if columns)

    def _bytes_of(self, pixels: int) -> int:
        return (pixels * _CHANNELS[self.colour] * self.depth + 7) // 8


@dataclass(frozen=True, slots=True)
class PngFile:
    """A PNG file taken apart; nothing in it has been inflated."""

    header: PngHeader
    chunks: tuple[tuple[bytes, bytes], ...]

    def first(self, kind: bytes) -> bytes | None:
        return next((body for name, body in self.chunks if name == kind), None)

    def has(self, *kinds: bytes) -> bool:
        return any(name in kinds for name, _ in self.chunks)

    @property
    def deflated(self) -> bytes:
        return b"".join(body for name, body in self.chunks if name == b"IDAT")

    @property
    def orientation(self) -> int:
        exif = self.first(b"eXIf")
        return UPRIGHT if exif is None else read_orientation(exif)

    @property
    def is_plain(self) -> bool:
        """Whether its deflated pixels mean in a PDF what they mean here."""
        head = self.header
        is_opaque = head.colour in (GREY, RGB) and not self.has(b"tRNS")
        return is_opaque and head.depth == 8 and not head.is_interlaced

    def only(self, kinds: frozenset[bytes]) -> bytes:
        """The file with these chunks alone."""
        return png_file((name, body) for name, body in self.chunks if name in kinds)

    def profile(self) -> bytes | None:
        """The ICC profile, cut off where it becomes too large; b"" when it is damaged."""
        chunk = self.first(b"iCCP")
        if chunk is None:
            return None
        _, _, packed = chunk.partition(b"\0")
        if not packed.startswith(_DEFLATED):
            return b""
        try:
            return zlib.decompressobj().decompress(packed[1:], MOST_PROFILE_BYTES + 1)
        except zlib.error:
            return b""


def read_png(data: bytes) -> PngFile:
    """The file's chunks, or BadImage when they contradict each other or are not all there."""
    chunks = list(_chunks(data))
    kinds = [kind for kind, _ in chunks]
    if not chunks or kinds[0] != b"IHDR" or len(chunks[0][1]) != 13:
        raise BadImage("The PNG file is damaged: its header is incomplete.")
    if kinds.count(b"IHDR") > 1:
        raise BadImage("The PNG file is damaged: it has two headers.")
    width, height, depth, colour, compression, filters, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth not in _DEPTHS.get(colour, ()) or compression or filters or interlace > 1:
        raise BadImage("The PNG file is damaged: its header makes no sense.")
    if b"IEND" not in kinds or b"IDAT" not in kinds:
        raise BadImage("The PNG file is incomplete.")
    return PngFile(PngHeader(width, height, depth, colour, interlace == 1), tuple(chunks))


def holds_just_its_pixels(png: PngFile) -> bool:
    """Whether the deflated pixels are exactly those that the header promises; False when there are more.

    BadImage when there are fewer. No more is inflated than the header promises.
    """
    promised = png.header.pixel_bytes
    row = png.header.row_bytes + 1
    inflater = zlib.decompressobj()
    seen, rest, are_filters_known = 0, png.deflated, True
    try:
        while not inflater.eof and seen <= promised:
            part = inflater.decompress(rest, _CHUNK_BYTES)
            rest = inflater.unconsumed_tail
            are_filters_known = are_filters_known and _filters_are_known(part, -seen % row, row)
            seen += len(part)
            if not part and not rest:
                break
    except zlib.error as error:
        raise BadImage("The PNG file is damaged: its pixels cannot be inflated.") from error
    if seen < promised or (seen == promised and not inflater.eof):
        raise BadImage("The PNG file is incomplete: pixels are missing.")
    return seen == promised and are_filters_known and not inflater.unused_data


def write_png(
    width: int,
    height: int,
    components: int,
    strips: Iterable[NDArray[np.uint8]],
    *,
    orientation: int = UPRIGHT,
    profile: bytes | None = None,
) -> bytes:
    """A plain file of strips, each of shape (rows, width * components), of which one is held at a time."""
    colour = GREY if components == 1 else RGB
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))]
    if profile is not None:
        chunks.append((b"iCCP", b"icc\0\0" + isal_zlib.compress(profile)))
    if orientation != UPRIGHT:
        chunks.append((b"eXIf", write_orientation(orientation)))
    deflater = isal_zlib.compressobj(_DEFLATE_LEVEL)
    above = np.zeros((1, width * components), np.uint8)
    for strip in strips:
        chunks.append((b"IDAT", deflater.compress(_filtered(strip, above).tobytes())))
        above = strip[-1:]
    return png_file([*chunks, (b"IDAT", deflater.flush()), (b"IEND", b"")])


def _filtered(strip: NDArray[np.uint8], above: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Each row less the one above it, led by the number of that filter."""
    rows = np.empty((strip.shape[0], strip.shape[1] + 1), np.uint8)
    rows[:, 0] = _FILTER_UP
    rows[0, 1:] = strip[0] - above[0]
    np.subtract(strip[1:], strip[:-1], out=rows[1:, 1:])
    return rows


def _filters_are_known(part: bytes, first: int, row: int) -> bool:
    """Every row begins with the number of its filter, 0 to 4."""
    return bool((np.frombuffer(part, np.uint8)[first::row] <= 4).all())


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Chunks up to the end mark. What a picture can do without is left out when its sum is wrong."""
    at = len(PNG)
    for _ in range(_MOST_CHUNKS):
        if at + 12 > len(data):
            return
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            raise BadImage("The PNG file is incomplete.")
        body = data[at + 8 : end - 4]
        if struct.unpack_from(">I", data, end - 4)[0] == zlib.crc32(body, zlib.crc32(kind)):
            yield kind, body
        elif kind in PIXEL_CHUNKS:
            raise BadImage("The PNG file is damaged: a checksum is wrong.")
        if kind == b"IEND":
            return
        at = end
    raise BadImage("The PNG file is damaged: it is in too many pieces.")
