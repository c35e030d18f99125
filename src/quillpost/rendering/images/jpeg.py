"""JPEG headers, segments and orientation; the picture itself is not decoded here."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from quillpost.rendering.images.rules import UnprintableImage

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


def swaps_sides(orientation: int) -> bool:
    """Whether width and height change places when the picture is stood upright."""
    return ORIENTATION_MATRICES[orientation][0] == 0


def upright_size(width: int, height: int, orientation: int) -> tuple[int, int]:
    return (height, width) if swaps_sides(orientation) else (width, height)


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
