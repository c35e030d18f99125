"""Color profiles and output intents of PDF files."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
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


_D50 = (0.9642, 1.0, 0.8249)
# Linear sRGB to the profile connection space, adapted from D65 to D50, and back.
_RGB_TO_PCS = (0.4360747, 0.3850649, 0.1430804, 0.2225045, 0.7168786, 0.0606169, 0.0139322, 0.0971045, 0.7141733)
_PCS_TO_RGB = (3.1338561, -1.6168667, -0.4906146, -0.9787684, 1.9161415, 0.0334540, 0.0719453, -0.2289914, 1.4052427)
_D65_TO_D50 = (1.0479298, 0.0229468, -0.0501922, 0.0296278, 0.9904344, -0.0170738, -0.0092430, 0.0150552, 0.7518743)
# In a table of an ICC profile 1 stands for this much of X, Y or Z.
_PCS_RANGE = 65535 / 32768
_PERCEPTUAL_BLACK = 0.0034731  # the black of the reference print that perceptual renderings go by, as part of its white

_CHANNELS = 3
_IDENTITY_CURVE = struct.pack(">4s4xI", b"curv", 0)


@cache
def make_display_profile() -> bytes:
    """sRGB as the color space of content."""
    curve = _expanding_curve()
    tags = _common_tags()
    for index, channel in enumerate((b"r", b"g", b"b")):
        tags[channel + b"XYZ"] = _xyz_tag(_RGB_TO_PCS[index::_CHANNELS])
        tags[channel + b"TRC"] = curve
    return _build_profile(b"mntr", tags)


def make_output_profile() -> bytes:
    """sRGB as a printer profile, the class that an output intent must have."""
    tags = _common_tags()
    for rendering, black in ((b"0", _PERCEPTUAL_BLACK), (b"1", 0.0), (b"2", _PERCEPTUAL_BLACK)):
        tags[b"A2B" + rendering] = _device_to_pcs_tag(black)
        tags[b"B2A" + rendering] = _pcs_to_device_tag(black)
    tags[b"gamt"] = _full_gamut_tag()
    return _build_profile(b"prtr", tags)


def _build_profile(device_class: bytes, tags: dict[bytes, bytes]) -> bytes:
    """Header, tag table and tags; equal tags share their place."""
    body, offsets = b"", dict[bytes, int]()
    start = 128 + 4 + 12 * len(tags)
    for data in tags.values():
        if data not in offsets:
            offsets[data] = start + len(body)
            body += data + bytes(-len(data) % 4)
    table = b"".join(struct.pack(">4sII", tag, offsets[data], len(data)) for tag, data in tags.items())
    size = start + len(body)
    header = struct.pack(">I4sI4s4s4s", size, b"", 0x04200000, device_class, b"RGB ", b"XYZ ")
    # The moment is that of the standard: a profile has to carry one.
    header += struct.pack(">6H4s", 1999, 10, 18, 0, 0, 0, b"acsp") + bytes(28) + _fixed_point(_D50)
    return header + bytes(128 - len(header)) + struct.pack(">I", len(tags)) + table + body


def _common_tags() -> dict[bytes, bytes]:
    return {
        b"desc": _text_tag("sRGB IEC61966-2.1"),
        b"cprt": _text_tag("No copyright, use freely"),
        b"wtpt": _xyz_tag(_D50),
        b"chad": b"sf32" + bytes(4) + _fixed_point(_D65_TO_D50),
    }


def _fixed_point(values: Sequence[float]) -> bytes:
    return struct.pack(f">{len(values)}i", *(round(value * 65536) for value in values))


def _xyz_tag(values: Sequence[float]) -> bytes:
    return b"XYZ " + bytes(4) + _fixed_point(values)


def _text_tag(text: str) -> bytes:
    encoded = text.encode("utf-16-be")
    return struct.pack(">4s4xII4sII", b"mluc", 1, 12, b"enUS", len(encoded), 28) + encoded


def _expanding_curve() -> bytes:
    """From a color value to light."""
    return struct.pack(">4s4xH2x", b"para", 3) + _fixed_point((2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045))


def _compressing_curve() -> bytes:
    """From light to a color value."""
    parameters = (1 / 2.4, 1.055**2.4, 0, 12.92, 0.0031308, -0.055, 0)
    return struct.pack(">4s4xH2x", b"para", 4) + _fixed_point(parameters)


def _device_to_pcs_tag(black: float) -> bytes:
    """Color values to the connection space; `black` is a share of white."""
    matrix = [value * (1 - black) / _PCS_RANGE for value in _RGB_TO_PCS]
    offsets = [value * black / _PCS_RANGE for value in _D50]
    return _transform_tag(b"mAB ", matrix, offsets, _expanding_curve())


def _pcs_to_device_tag(black: float) -> bytes:
    matrix = [value / (1 - black) * _PCS_RANGE for value in _PCS_TO_RGB]
    offsets = [-black / (1 - black)] * _CHANNELS
    return _transform_tag(b"mBA ", matrix, offsets, _compressing_curve())


def _transform_tag(kind: bytes, matrix: Sequence[float], offsets: Sequence[float], device_curve: bytes) -> bytes:
    """Curves on the device's side, a matrix, and identity on the other side."""
    first = 32
    outer = _IDENTITY_CURVE * _CHANNELS
    matrix_at = first + len(outer)
    rows = _fixed_point(matrix) + _fixed_point(offsets)
    curves_at = matrix_at + len(rows)
    head = struct.pack(">4s4xBB2x5I", kind, _CHANNELS, _CHANNELS, first, matrix_at, curves_at, 0, 0)
    return head + outer + rows + device_curve * _CHANNELS


def _full_gamut_tag() -> bytes:
    """Every color counts as printable: the rasterizer fits colors into the gamut."""
    first = 32
    outer = _IDENTITY_CURVE * _CHANNELS
    table_at = first + len(outer)
    table = bytes([2] * _CHANNELS + [0] * 13) + struct.pack(">B3x", 1) + bytes(2**_CHANNELS)
    inner_at = table_at + len(table)
    head = struct.pack(">4s4xBB2x5I", b"mBA ", _CHANNELS, 1, first, 0, 0, table_at, inner_at)
    return head + outer + table + _IDENTITY_CURVE


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


SRGB = OutputIntent(make_output_profile(), _RGB_COMPONENTS, "sRGB IEC61966-2.1")


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
    return b"/DefaultRGB%b" % icc_color_space(pdf, make_display_profile(), _RGB_COMPONENTS)


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
