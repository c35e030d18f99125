"""Which way up a photograph is: the EXIF orientation, read from its header and honoured when drawn."""

import struct

_TAG = 0x0112
_SHORT = 3
_ENTRY_BYTES = 12

UPRIGHT = 1

# Each EXIF orientation as the matrix that stands the stored unit square upright.
MATRICES = {
    1: (1, 0, 0, 1, 0, 0),
    2: (-1, 0, 0, 1, 1, 0),
    3: (-1, 0, 0, -1, 1, 1),
    4: (1, 0, 0, -1, 0, 1),
    5: (0, -1, -1, 0, 1, 1),
    6: (0, -1, 1, 0, 0, 1),
    7: (0, 1, 1, 0, 0, 0),
    8: (0, 1, -1, 0, 1, 0),
}


def is_turned(orientation: int) -> bool:
    """Whether width and height change places when the picture is stood upright."""
    return MATRICES[orientation][0] == 0


def read_orientation(exif: bytes) -> int:
    """From EXIF data as TIFF lays it out; whatever cannot be read there leaves a picture as it is."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None or len(exif) < 8:
        return UPRIGHT
    (directory,) = struct.unpack_from(order + "I", exif, 4)
    if directory + 2 > len(exif):
        return UPRIGHT
    (entries,) = struct.unpack_from(order + "H", exif, directory)
    for at in range(directory + 2, directory + 2 + entries * _ENTRY_BYTES, _ENTRY_BYTES):
        if at + _ENTRY_BYTES > len(exif):
            break
        tag, kind, _, value = struct.unpack_from(order + "HHIH", exif, at)
        if tag == _TAG and kind == _SHORT:
            return value if value in MATRICES else UPRIGHT
    return UPRIGHT


def write_orientation(orientation: int) -> bytes:
    """EXIF data that says no more than this."""
    entry = struct.pack(">HHIHH", _TAG, _SHORT, 1, orientation, 0)
    return b"MM\0*" + struct.pack(">IH", 8, 1) + entry + bytes(4)
