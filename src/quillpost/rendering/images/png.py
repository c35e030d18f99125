"""PNG files as chunks: header, deflated pixels, and plain files written in strips."""

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from quillpost.rendering.images.jpeg import UPRIGHT, encode_orientation, read_orientation
from quillpost.rendering.images.rules import MAX_PROFILE_BYTES, PNG_SIGNATURE, UnprintableImage
from quillpost.rendering.pdf.png import build_png, filter_up

GRAY, RGB, PALETTE, GRAY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
_CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGB_ALPHA: 4}
_BIT_DEPTHS = {GRAY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GRAY_ALPHA: (8, 16), RGB_ALPHA: (8, 16)}
PIXEL_CHUNKS = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})
PLAIN_CHUNKS = PIXEL_CHUNKS | {b"iCCP", b"sRGB", b"gAMA", b"cHRM", b"pHYs", b"eXIf"}
"""All that printing uses: no comments, thumbnails or further frames."""

_DEFLATE_METHOD = b"\0"  # the only compression method of PNG

# Where the rows and columns of each pass of an interlaced picture begin, and how far they are apart.
_INTERLACE_PASSES = ((0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2), (1, 2, 0, 1))

_MAX_CHUNKS = 20_000
_DEFLATE_LEVEL = 2
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PngHeader:
    """`width` and `height` are as stored, before any rotation."""

    width: int
    height: int
    bit_depth: int
    color_type: int
    is_interlaced: bool

    @property
    def components(self) -> int:
        """Color channels without alpha."""
        return 1 if self.color_type in (GRAY, GRAY_ALPHA) else 3

    @property
    def pixel_bytes(self) -> int:
        """All rows of all passes, each with its filter byte."""
        passes = _INTERLACE_PASSES if self.is_interlaced else ((0, 1, 0, 1),)
        sizes = (
            (len(range(left, self.width, across)), len(range(top, self.height, down)))
            for top, down, left, across in passes
        )
        return sum(rows * (1 + self.count_bytes(columns)) for columns, rows in sizes if columns)

    def count_bytes(self, pixels: int) -> int:
        return (pixels * _CHANNELS[self.color_type] * self.bit_depth + 7) // 8


@dataclass(frozen=True, slots=True)
class PngFile:
    """A PNG file in chunks; nothing has been inflated."""

    header: PngHeader
    chunks: tuple[tuple[bytes, bytes], ...]

    def find_chunk(self, kind: bytes) -> bytes | None:
        return next((body for name, body in self.chunks if name == kind), None)

    def has_chunk(self, *kinds: bytes) -> bool:
        return any(name in kinds for name, _ in self.chunks)

    @property
    def compressed_pixels(self) -> bytes:
        return b"".join(body for name, body in self.chunks if name == b"IDAT")

    @property
    def orientation(self) -> int:
        exif = self.find_chunk(b"eXIf")
        return UPRIGHT if exif is None else read_orientation(exif)

    @property
    def is_plain(self) -> bool:
        """Whether a PDF can use the deflated pixels as they are."""
        head = self.header
        is_opaque = head.color_type in (GRAY, RGB) and not self.has_chunk(b"tRNS")
        return is_opaque and head.bit_depth == 8 and not head.is_interlaced

    def keep_chunks(self, kinds: frozenset[bytes]) -> bytes:
        return build_png((name, body) for name, body in self.chunks if name in kinds)

    def read_profile(self) -> bytes | None:
        """The ICC profile, cut off where it is too large; b"" when damaged."""
        chunk = self.find_chunk(b"iCCP")
        if chunk is None:
            return None
        _, _, packed = chunk.partition(b"\0")
        if not packed.startswith(_DEFLATE_METHOD):
            return b""
        try:
            return zlib.decompressobj().decompress(packed[1:], MAX_PROFILE_BYTES + 1)
        except zlib.error:
            return b""


def read_png(data: bytes) -> PngFile:
    """Raises UnprintableImage when chunks contradict each other or are missing."""
    chunks = list(_read_chunks(data))
    kinds = [kind for kind, _ in chunks]
    if not chunks or kinds[0] != b"IHDR" or len(chunks[0][1]) != 13:
        raise UnprintableImage("The PNG file is damaged: its header is incomplete.")
    if kinds.count(b"IHDR") > 1:
        raise UnprintableImage("The PNG file is damaged: it has two headers.")
    width, height, depth, color_type, compression, filters, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth not in _BIT_DEPTHS.get(color_type, ()) or compression or filters or interlace > 1:
        raise UnprintableImage("The PNG file is damaged: its header makes no sense.")
    if b"IEND" not in kinds or b"IDAT" not in kinds:
        raise UnprintableImage("The PNG file is incomplete.")
    return PngFile(PngHeader(width, height, depth, color_type, interlace == 1), tuple(chunks))


def has_exact_pixels(png: PngFile) -> bool:
    """Whether the inflated pixels are what the header promises; False when there are more.

    Raises UnprintableImage when there are fewer. No more is inflated than the header promises.
    """
    expected_size = png.header.pixel_bytes
    row_size = png.header.count_bytes(png.header.width) + 1
    inflater = zlib.decompressobj()
    inflated_size, compressed, has_known_filters = 0, png.compressed_pixels, True
    try:
        while not inflater.eof and inflated_size <= expected_size:
            part = inflater.decompress(compressed, _CHUNK_BYTES)
            compressed = inflater.unconsumed_tail
            row_filters = np.frombuffer(part, np.uint8)[-inflated_size % row_size :: row_size]
            has_known_filters = has_known_filters and bool((row_filters <= 4).all())
            inflated_size += len(part)
            if not part and not compressed:
                break
    except zlib.error as error:
        raise UnprintableImage("The PNG file is damaged: its pixels cannot be inflated.") from error
    if inflated_size < expected_size or (inflated_size == expected_size and not inflater.eof):
        raise UnprintableImage("The PNG file is incomplete: pixels are missing.")
    return inflated_size == expected_size and has_known_filters and not inflater.unused_data


def write_png(
    width: int,
    height: int,
    components: int,
    strips: Iterable[NDArray[np.uint8]],
    *,
    orientation: int = UPRIGHT,
    profile: bytes | None = None,
) -> bytes:
    """A plain file of strips of shape (rows, width * components), of which one is held at a time."""
    color_type = GRAY if components == 1 else RGB
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0))]
    if profile is not None:
        chunks.append((b"iCCP", b"icc\0\0" + isal_zlib.compress(profile)))
    if orientation != UPRIGHT:
        chunks.append((b"eXIf", encode_orientation(orientation)))
    deflater = isal_zlib.compressobj(_DEFLATE_LEVEL)
    row_above = np.zeros(width * components, np.uint8)
    for strip in strips:
        rows = np.empty((strip.shape[0], strip.shape[1] + 1), np.uint8)
        filter_up(strip, strip[0] - row_above, rows)
        chunks.append((b"IDAT", deflater.compress(rows.tobytes())))
        row_above = strip[-1]
    return build_png([*chunks, (b"IDAT", deflater.flush()), (b"IEND", b"")])


def _read_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Chunks up to the end mark; dispensable ones with a wrong checksum are left out."""
    at = len(PNG_SIGNATURE)
    for _ in range(_MAX_CHUNKS):
        if at + 12 > len(data):
            return
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            raise UnprintableImage("The PNG file is incomplete.")
        body = data[at + 8 : end - 4]
        if struct.unpack_from(">I", data, end - 4)[0] == zlib.crc32(body, zlib.crc32(kind)):
            yield kind, body
        elif kind in PIXEL_CHUNKS:
            raise UnprintableImage("The PNG file is damaged: a checksum is wrong.")
        if kind == b"IEND":
            return
        at = end
    raise UnprintableImage("The PNG file is damaged: it is in too many pieces.")
