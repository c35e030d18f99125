"""Color profiles and output intents of PDF files."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Protocol


class ObjectWriter(Protocol):
    """Numbered objects, as `PdfFile` keeps them."""

    def reserve(self) -> int: ...

    def put(self, number: int, body: bytes) -> int: ...

    def add_shared_stream(self, data: bytes, entries: bytes = b"") -> int: ...


def text_string(text: str) -> bytes:
    if text.isascii() and text.isprintable():
        return b"(%b)" % text.encode().replace(b"\\", rb"\\").replace(b"(", rb"\(").replace(b")", rb"\)")
    return b"<FEFF%b>" % text.encode("utf-16-be").hex().upper().encode()


DISPLAY_PROFILE = files(__package__).joinpath("srgb-display.icc").read_bytes()
"""sRGB as the color space of content."""
OUTPUT_PROFILE = files(__package__).joinpath("srgb-printer.icc").read_bytes()
"""sRGB as a printer profile, the class that an output intent must have."""

_HEADER_BYTES = 128
_MIN_PROFILE_BYTES = _HEADER_BYTES + 4
_COMPONENT_COUNTS = {b"GRAY": 1, b"RGB ": 3, b"CMYK": 4}
_RGB_COMPONENTS = 3


@dataclass(frozen=True, slots=True)
class OutputIntent:
    """A printing condition: its profile, that profile's color components, and its name."""

    profile: bytes
    components: int
    condition: str


SRGB = OutputIntent(OUTPUT_PROFILE, _RGB_COMPONENTS, "sRGB IEC61966-2.1")


def read_output_intent(data: bytes) -> OutputIntent:
    """An operator's ICC file; ValueError says why it cannot be used."""
    if len(data) < _MIN_PROFILE_BYTES or data[36:40] != b"acsp":
        raise ValueError("This is not an ICC profile.")
    size = int.from_bytes(data[:4], "big")
    if not _MIN_PROFILE_BYTES <= size <= len(data):
        raise ValueError(f"The ICC profile is cut off: it has {len(data)} bytes and should have {size}.")
    device_class, space, connection = data[12:16], data[16:20], data[20:24]
    if device_class != b"prtr":
        raise ValueError(
            f"The ICC profile is of class {_signature_text(device_class)}; PDF/X-4 needs a printer's (prtr)."
        )
    if space not in _COMPONENT_COUNTS:
        raise ValueError(f"The ICC profile's colors are {_signature_text(space)}; they must be RGB, CMYK or GRAY.")
    if connection not in (b"XYZ ", b"Lab "):
        raise ValueError(f"The ICC profile connects to {_signature_text(connection)}; it must connect to XYZ or Lab.")
    tags = dict(_read_tags(data[:size]))
    if b"desc" not in tags:
        raise ValueError("The ICC profile has no description.")
    name = _description(tags[b"desc"]) or "Custom"
    return OutputIntent(data[:size], _COMPONENT_COUNTS[space], name)


def output_intent_entry(pdf: ObjectWriter, intent: OutputIntent) -> bytes:
    condition = text_string(intent.condition)
    profile = pdf.add_shared_stream(intent.profile, b"/N %d" % intent.components)
    entries = b"/OutputConditionIdentifier%b/Info%b/DestOutputProfile %d 0 R" % (condition, condition, profile)
    return b"<</Type/OutputIntent/S/GTS_PDFX%b>>" % entries


def default_color_spaces(pdf: ObjectWriter, intent: OutputIntent) -> bytes:
    """What keeps our RGB colors exact in pages and forms; nothing for an RGB intent."""
    if intent.components == _RGB_COMPONENTS:
        return b""
    return b"/DefaultRGB%b" % icc_color_space(pdf, DISPLAY_PROFILE, _RGB_COMPONENTS)


def icc_color_space(pdf: ObjectWriter, profile: bytes, components: int) -> bytes:
    return b"[/ICCBased %d 0 R]" % pdf.add_shared_stream(profile, b"/N %d" % components)


def _signature_text(signature: bytes) -> str:
    return signature.decode("ascii", "replace").strip() or "unknown"


def _read_tags(profile: bytes) -> Iterator[tuple[bytes, bytes]]:
    (count,) = struct.unpack_from(">I", profile, _HEADER_BYTES)
    if _MIN_PROFILE_BYTES + 12 * count > len(profile):
        raise ValueError("The ICC profile is damaged: its list of tags runs past its end.")
    for tag, offset, size in struct.iter_unpack(">4sII", profile[_MIN_PROFILE_BYTES : _MIN_PROFILE_BYTES + 12 * count]):
        if offset + size > len(profile):
            raise ValueError(f"The ICC profile is damaged: its tag {_signature_text(tag)} runs past its end.")
        yield tag, profile[offset : offset + size]


def _description(tag: bytes) -> str:
    """The profile's name, from either form of the standard."""
    if tag[:4] == b"desc" and len(tag) >= 12:
        length = int.from_bytes(tag[8:12], "big")
        text = tag[12 : 12 + length].split(b"\0")[0].decode("latin-1")
    elif tag[:4] == b"mluc" and len(tag) >= 28:
        length, offset = struct.unpack_from(">II", tag, 20)
        text = tag[offset : offset + length].decode("utf-16-be", "ignore")
    else:
        text = ""
    return "".join(char for char in text if char.isprintable()).strip()
