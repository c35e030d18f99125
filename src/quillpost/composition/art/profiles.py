"""ICC profiles that pictures bring along: kept when they fit the picture and can be read."""

import io
import struct

from PIL import ImageCms

from quillpost.composition.art.limits import MOST_PROFILE_BYTES, megabytes

_HEADER_BYTES = 128
_TAG_BYTES = 12
_NEWEST_VERSION = 4
_CLASSES = (b"scnr", b"mntr", b"prtr", b"spac")
_SPACES = {1: b"GRAY", 3: b"RGB ", 4: b"CMYK"}


def profile_fault(profile: bytes, components: int) -> str | None:
    """Why a profile cannot go with a picture of so many components, or None: it can."""
    if len(profile) > MOST_PROFILE_BYTES:
        return f"it is larger than {megabytes(MOST_PROFILE_BYTES)}"
    if len(profile) < _HEADER_BYTES + 4 or profile[36:40] != b"acsp" or not _tags_are_inside(profile):
        return "it is damaged"
    if profile[16:20] != _SPACES[components]:
        return "it is meant for other colours"
    if profile[8] > _NEWEST_VERSION or profile[12:16] not in _CLASSES:
        return "it is of a kind that printers do not know"
    try:
        ImageCms.ImageCmsProfile(io.BytesIO(profile))
    except (OSError, ImageCms.PyCMSError):
        return "it is damaged"
    return None


def _tags_are_inside(profile: bytes) -> bool:
    (size,) = struct.unpack_from(">I", profile, 0)
    (count,) = struct.unpack_from(">I", profile, _HEADER_BYTES)
    tags_end = _HEADER_BYTES + 4 + count * _TAG_BYTES
    if size != len(profile) or tags_end > size:
        return False
    tags = struct.iter_unpack(">4sII", profile[_HEADER_BYTES + 4 : tags_end])
    return all(offset + length <= size for _, offset, length in tags)
