"""The sRGB colour space as ICC profiles (version 4), written out from its definition."""

import struct
from collections.abc import Sequence

_D50 = (0.9642, 1.0, 0.8249)
# Linear sRGB to the profile connection space, adapted from D65 to D50, and back.
_TO_PCS = (0.4360747, 0.3850649, 0.1430804, 0.2225045, 0.7168786, 0.0606169, 0.0139322, 0.0971045, 0.7141733)
_FROM_PCS = (
    3.1338561,
    -1.6168667,
    -0.4906146,
    -0.9787684,
    1.9161415,
    0.0334540,
    0.0719453,
    -0.2289914,
    1.4052427,
)
_D65_TO_D50 = (
    1.0479298,
    0.0229468,
    -0.0501922,
    0.0296278,
    0.9904344,
    -0.0170738,
    -0.0092430,
    0.0150552,
    0.7518743,
)
# In a table of an ICC profile 1 stands for this much of X, Y or Z.
_PCS_RANGE = 65535 / 32768
# The black of the reference print that perceptual renderings go by, as part of its white.
_PERCEPTUAL_BLACK = 0.0034731

_NAME = "sRGB IEC61966-2.1"
_RIGHTS = "No copyright, use freely"
_CHANNELS = 3


def display_profile() -> bytes:
    """sRGB as the colour space of content."""
    curve = _expanding_curve()
    tags = _common_tags()
    for place, channel in enumerate((b"r", b"g", b"b")):
        tags[channel + b"XYZ"] = _xyz(_TO_PCS[place::_CHANNELS])
        tags[channel + b"TRC"] = curve
    return _profile(b"mntr", tags)


def output_profile() -> bytes:
    """sRGB as the output of a press: an output intent must be a profile of that class."""
    tags = _common_tags()
    for rendering, black in ((b"0", _PERCEPTUAL_BLACK), (b"1", 0.0), (b"2", _PERCEPTUAL_BLACK)):
        tags[b"A2B" + rendering] = _to_pcs(black)
        tags[b"B2A" + rendering] = _from_pcs(black)
    tags[b"gamt"] = _whole_gamut()
    return _profile(b"prtr", tags)


def _profile(device_class: bytes, tags: dict[bytes, bytes]) -> bytes:
    """Header, tag table and tags; tags of the same content share their place."""
    body, places = b"", dict[bytes, int]()
    start = 128 + 4 + 12 * len(tags)
    for data in tags.values():
        if data not in places:
            places[data] = start + len(body)
            body += data + bytes(-len(data) % 4)
    table = b"".join(struct.pack(">4sII", tag, places[data], len(data)) for tag, data in tags.items())
    size = start + len(body)
    header = struct.pack(">I4sI4s4s4s", size, b"", 0x04200000, device_class, b"RGB ", b"XYZ ")
    # The moment is that of the standard: a profile has to carry one.
    header += struct.pack(">6H4s", 1999, 10, 18, 0, 0, 0, b"acsp") + bytes(28) + _fixed(_D50)
    return header + bytes(128 - len(header)) + struct.pack(">I", len(tags)) + table + body


def _common_tags() -> dict[bytes, bytes]:
    return {
        b"desc": _text(_NAME),
        b"cprt": _text(_RIGHTS),
        b"wtpt": _xyz(_D50),
        b"chad": b"sf32" + bytes(4) + _fixed(_D65_TO_D50),
    }


def _fixed(values: Sequence[float]) -> bytes:
    return struct.pack(f">{len(values)}i", *(round(value * 65536) for value in values))


def _xyz(values: Sequence[float]) -> bytes:
    return b"XYZ " + bytes(4) + _fixed(values)


def _text(text: str) -> bytes:
    encoded = text.encode("utf-16-be")
    return struct.pack(">4s4xII4sII", b"mluc", 1, 12, b"enUS", len(encoded), 28) + encoded


def _expanding_curve() -> bytes:
    """From a colour value to light."""
    return struct.pack(">4s4xH2x", b"para", 3) + _fixed((2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045))


def _compressing_curve() -> bytes:
    """From light to a colour value."""
    parameters = (1 / 2.4, 1.055**2.4, 0, 12.92, 0.0031308, -0.055, 0)
    return struct.pack(">4s4xH2x", b"para", 4) + _fixed(parameters)


def _identity_curve() -> bytes:
    return struct.pack(">4s4xI", b"curv", 0)


def _to_pcs(black: float) -> bytes:
    """Colour values to the connection space, where black is that part of white."""
    matrix = [value * (1 - black) / _PCS_RANGE for value in _TO_PCS]
    offsets = [value * black / _PCS_RANGE for value in _D50]
    return _transform(b"mAB ", matrix, offsets, _expanding_curve())


def _from_pcs(black: float) -> bytes:
    matrix = [value / (1 - black) * _PCS_RANGE for value in _FROM_PCS]
    offsets = [-black / (1 - black)] * _CHANNELS
    return _transform(b"mBA ", matrix, offsets, _compressing_curve())


def _transform(kind: bytes, matrix: Sequence[float], offsets: Sequence[float], device_curve: bytes) -> bytes:
    """Curves on the device's side, a matrix, and nothing on the side of the connection space."""
    first = 32
    outer = _identity_curve() * _CHANNELS
    matrix_at = first + len(outer)
    rows = _fixed(matrix) + _fixed(offsets)
    curves_at = matrix_at + len(rows)
    head = struct.pack(">4s4xBB2x5I", kind, _CHANNELS, _CHANNELS, first, matrix_at, curves_at, 0, 0)
    return head + outer + rows + device_curve * _CHANNELS


def _whole_gamut() -> bytes:
    """Every colour counts as printable: colours are fitted into the gamut by who rasterises."""
    first = 32
    outer = _identity_curve() * _CHANNELS
    table_at = first + len(outer)
    table = bytes([2] * _CHANNELS + [0] * 13) + struct.pack(">B3x", 1) + bytes(2**_CHANNELS)
    inner_at = table_at + len(table)
    head = struct.pack(">4s4xBB2x5I", b"mBA ", _CHANNELS, 1, first, 0, 0, table_at, inner_at)
    return head + outer + table + _identity_curve()
