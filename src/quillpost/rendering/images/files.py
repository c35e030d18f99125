"""JPEG and PNG files: headers, segments, chunks and orientation. A JPEG's pixels are not decoded here."""

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from quillpost.rendering.images.rules import MAX_PROFILE_BYTES, PNG_SIGNATURE, UnprintableImage
from quillpost.rendering.pdf.png import build_png, filter_up

_ORIENTATION_TAG = 0x0112
_SHORT_TYPE = 3
_ENTRY_BYTES = 12
UPRIGHT = 1

# Each EXIF orientation as the matrix that stands the stored unit square upright.
ORIENTATION_MATRICES = {
    1: (1, 0, 0, 1, 0, 0),
    2: (-1, 0, 0, 1, 1, 0),
    3: (-1, 0, 0, -1, 1, 1),
    4: (1, 0, 0, -1, 0, 1),
    5: (0, -1, -1, 0, 1, 1),
    6: (0, -1, 1, 0, 0, 1),
    7: (0, 1, 1, 0, 0, 0),
    8: (0, 1, -1, 0, 1, 0),
}


def upright_size(width: int, height: int, orientation: int) -> tuple[int, int]:
    return (height, width) if ORIENTATION_MATRICES[orientation][0] == 0 else (width, height)


def read_orientation(exif: bytes) -> int:
    """From EXIF data; upright where it cannot be read."""
    byte_order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if byte_order is None or len(exif) < 8:
        return UPRIGHT
    (directory,) = struct.unpack_from(byte_order + "I", exif, 4)
    if directory + 2 > len(exif):
        return UPRIGHT
    (entries,) = struct.unpack_from(byte_order + "H", exif, directory)
    for at in range(directory + 2, directory + 2 + entries * _ENTRY_BYTES, _ENTRY_BYTES):
        if at + _ENTRY_BYTES > len(exif):
            break
        tag, kind, _, value = struct.unpack_from(byte_order + "HHIH", exif, at)
        if tag == _ORIENTATION_TAG and kind == _SHORT_TYPE:
            return value if value in ORIENTATION_MATRICES else UPRIGHT
    return UPRIGHT


def encode_orientation(orientation: int) -> bytes:
    entry = struct.pack(">HHIHH", _ORIENTATION_TAG, _SHORT_TYPE, 1, orientation, 0)
    return b"MM\0*" + struct.pack(">IH", 8, 1) + entry + bytes(4)


_FRAME_MARKERS = frozenset({0xC0, 0xC1, 0xC2})  # baseline, extended, progressive
_UNSUPPORTED_FRAME_MARKERS = frozenset(range(0xC3, 0xD0)) - {0xC4, 0xC8, 0xCC}
_MARKERS_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_START_OF_SCAN = 0xDA
_APP0, _APP1, _APP2, _APP14 = 0xE0, 0xE1, 0xE2, 0xEE

_EXIF_PREFIX = b"Exif\0\0"
_ICC_PREFIX = b"ICC_PROFILE\0"
_RGB_COMPONENTS = b"RGB"

# Cameras write some dozens. More would only keep a reader busy.
_MAX_SEGMENTS = 2_000
_MAX_SCANS = 100


@dataclass(frozen=True, slots=True)
class JpegHeader:
    """`width` and `height` are as stored, before any rotation; `adobe_transform` is Adobe's color transform."""

    width: int
    height: int
    components: int
    component_ids: bytes
    has_jfif: bool
    adobe_transform: int | None
    orientation: int
    profile: bytes | None

    @property
    def is_plain(self) -> bool:
        """Gray, or color coded in the one way on which every reader agrees."""
        if self.components == 1:
            return True
        is_stored_as_rgb = self.adobe_transform == 0 or (
            self.adobe_transform is None and not self.has_jfif and self.component_ids == _RGB_COMPONENTS
        )
        return self.components == 3 and not is_stored_as_rgb


def read_jpeg_header(data: bytes) -> JpegHeader:
    """Raises UnprintableImage for a kind that cannot be printed."""
    frame: bytes | None = None
    adobe: int | None = None
    orientation = UPRIGHT
    has_jfif = False
    icc: list[bytes] = []
    for marker, _, _, body in _read_segments(data):
        if marker in _UNSUPPORTED_FRAME_MARKERS:
            raise UnprintableImage("The JPEG file is of a rare kind (lossless or arithmetic coding).")
        if marker in _FRAME_MARKERS:
            if frame is not None:
                raise UnprintableImage("The JPEG file is damaged: it has two headers.")
            frame = body
        elif marker == _APP0 and body.startswith(b"JFIF\0"):
            has_jfif = True
        elif marker == _APP1 and body.startswith(_EXIF_PREFIX) and orientation == UPRIGHT:
            orientation = read_orientation(body[len(_EXIF_PREFIX) :])
        elif marker == _APP2 and body.startswith(_ICC_PREFIX):
            icc.append(body)
        elif marker == _APP14 and body.startswith(b"Adobe") and len(body) >= 12:
            adobe = body[11]
    if frame is None or len(frame) < 6 or len(frame) < 6 + 3 * frame[5]:
        raise UnprintableImage("The JPEG file is damaged: its header is incomplete.")
    precision, height, width, components = struct.unpack_from(">BHHB", frame)
    if precision != 8:
        raise UnprintableImage(f"The JPEG file has {precision} bits a sample; save it with 8.")
    if components not in (1, 3, 4):
        raise UnprintableImage(f"The JPEG file has {components} color channels; gray, RGB or CMYK can be printed.")
    ids = frame[6 : 6 + 3 * components : 3]
    return JpegHeader(width, height, components, ids, has_jfif, adobe, orientation, _join_profile(icc) if icc else None)


def check_scans(data: bytes) -> None:
    """Refuse a file with so many scans that it keeps its reader busy."""
    # Inside coded pixels the byte 0xFF is always followed by another one than this marker's.
    if data.count(bytes((0xFF, _START_OF_SCAN))) > _MAX_SCANS:
        raise UnprintableImage("The JPEG file is too complex: it is drawn in more than a hundred scans.")


def remove_profile(data: bytes) -> bytes:
    chunks, at = [], 0
    for marker, start, end, body in _read_segments(data):
        if marker == _APP2 and body.startswith(_ICC_PREFIX):
            chunks.append(data[at:start])
            at = end
    return b"".join([*chunks, data[at:]])


def _read_segments(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Marker, start, end and content of each segment before the picture itself."""
    at = 2
    for _ in range(_MAX_SEGMENTS):
        if at + 4 > len(data) or data[at] != 0xFF or data[at + 1] == _START_OF_SCAN:
            return
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _MARKERS_WITHOUT_LENGTH:
            at += 2
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            end = at + 2 + length
            yield marker, at, end, data[at + 4 : end]
            at = end
    raise UnprintableImage("The JPEG file is damaged: its header does not end.")


def _join_profile(segments: list[bytes]) -> bytes:
    """Profile segments in order; b"" when some are missing."""
    prefix_length = len(_ICC_PREFIX)
    numbered_parts = sorted(
        (segment[prefix_length : prefix_length + 2], segment[prefix_length + 2 :]) for segment in segments
    )
    numbers = [number for number, _ in numbered_parts]
    expected = [bytes((i, len(segments))) for i in range(1, len(segments) + 1)] if len(segments) < 256 else []
    return b"".join(part for _, part in numbered_parts) if numbers == expected else b""


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
