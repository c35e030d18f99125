"""Output intents: the colours that a file is made for, as an ICC profile."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from quillpost.composition.pdf.objects import Objects, text_string
from quillpost.composition.pdf.srgb import display_profile, output_profile

_HEADER = 128
_LEAST = _HEADER + 4
_PRINTER = b"prtr"
_COMPONENTS = {b"GRAY": 1, b"RGB ": 3, b"CMYK": 4}
_CONNECTION_SPACES = (b"XYZ ", b"Lab ")
_RGB = 3


@dataclass(frozen=True, slots=True)
class OutputIntent:
    """A printing condition: its profile, that profile's colour components, and its name."""

    profile: bytes
    components: int
    condition: str


SRGB = OutputIntent(output_profile(), _RGB, "sRGB IEC61966-2.1")


def read_profile(data: bytes) -> OutputIntent:
    """An operator's ICC file as an intent; ValueError says why a file is not one."""
    if len(data) < _LEAST or data[36:40] != b"acsp":
        raise ValueError("This is not an ICC profile.")
    size = int.from_bytes(data[:4], "big")
    if not _LEAST <= size <= len(data):
        raise ValueError(f"The ICC profile is cut off: it has {len(data)} bytes and should have {size}.")
    device_class, space, connection = data[12:16], data[16:20], data[20:24]
    if device_class != _PRINTER:
        raise ValueError(
            f"The ICC profile is of class {_shown(device_class)}; PDF/X-4 needs a printer's (prtr)."
        )
    if space not in _COMPONENTS:
        raise ValueError(f"The ICC profile's colours are {_shown(space)}; they must be RGB, CMYK or GRAY.")
    if connection not in _CONNECTION_SPACES:
        raise ValueError(f"The ICC profile connects to {_shown(connection)}; it must connect to XYZ or Lab.")
    tags = dict(_tags_of(data[:size]))
    if b"desc" not in tags:
        raise ValueError("The ICC profile has no description.")
    name = _description(tags[b"desc"]) or "Custom"
    return OutputIntent(data[:size], _COMPONENTS[space], name)


def output_intent(pdf: Objects, intent: OutputIntent) -> bytes:
    """The dictionary for the catalog's list of intents."""
    condition = text_string(intent.condition)
    return (
        b"<</Type/OutputIntent/S/GTS_PDFX/OutputConditionIdentifier%b/Info%b/DestOutputProfile %d 0 R>>"
        % (condition, condition, _add_profile(pdf, intent.profile, intent.components))
    )


def default_spaces(pdf: Objects, intent: OutputIntent) -> bytes:
    """What the colour spaces of pages and forms have to hold to keep our RGB colours legal and exact.

    Nothing for an RGB intent: there, RGB is the press's own.
    """
    if intent.components == _RGB:
        return b""
    return b"/DefaultRGB%b" % icc_space(pdf, _srgb(), _RGB)


def icc_space(pdf: Objects, profile: bytes, components: int) -> bytes:
    """A colour space by its profile, which the file holds once."""
    return b"[/ICCBased %d 0 R]" % _add_profile(pdf, profile, components)


@cache
def _srgb() -> bytes:
    return display_profile()


def _add_profile(pdf: Objects, profile: bytes, components: int) -> int:
    return pdf.add_shared_stream(profile, b"/N %d" % components)


def _shown(signature: bytes) -> str:
    return signature.decode("ascii", "replace").strip() or "unknown"


def _tags_of(profile: bytes) -> Iterator[tuple[bytes, bytes]]:
    (count,) = struct.unpack_from(">I", profile, _HEADER)
    if _LEAST + 12 * count > len(profile):
        raise ValueError("The ICC profile is damaged: its list of tags runs past its end.")
    for tag, offset, size in struct.iter_unpack(">4sII", profile[_LEAST : _LEAST + 12 * count]):
        if offset + size > len(profile):
            raise ValueError(f"The ICC profile is damaged: its tag {_shown(tag)} runs past its end.")
        yield tag, profile[offset : offset + size]


def _description(tag: bytes) -> str:
    """The profile's name, from either form that the standard has had."""
    if tag[:4] == b"desc" and len(tag) >= 12:
        length = int.from_bytes(tag[8:12], "big")
        text = tag[12 : 12 + length].split(b"\0")[0].decode("latin-1")
    elif tag[:4] == b"mluc" and len(tag) >= 28:
        length, offset = struct.unpack_from(">II", tag, 20)
        text = tag[offset : offset + length].decode("utf-16-be", "ignore")
    else:
        text = ""
    return "".join(letter for letter in text if letter.isprintable()).strip()
