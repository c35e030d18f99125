"""Printable pictures and pages, and whether their resolution is enough."""

import math
from dataclasses import dataclass

from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.images.jpeg import MATRICES, is_turned, read_jpeg_header
from quillpost.rendering.images.limits import JPEG, PNG, BadImage
from quillpost.rendering.images.png import read_png

_JPEG_ENTRIES = b"/BitsPerComponent 8/Filter/DCTDecode"
_PNG_ENTRIES = (
    b"/BitsPerComponent 8/Filter/FlateDecode"
    b"/DecodeParms<</Predictor 15/Colors %d/BitsPerComponent 8/Columns %d>>"
)


@dataclass(frozen=True, slots=True)
class Picture:
    """`data` is compressed as the `/Filter` in its `entries` says, which lack only the `/ColorSpace`.

    That is the ICC profile's if there is one, else grey for one component and RGB for three.
    `width` and `height` are as stored, before the `orientation` is honoured.
    """

    width: int
    height: int
    orientation: int
    entries: bytes
    data: bytes
    profile: bytes | None
    components: int

    @property
    def upright_size(self) -> tuple[int, int]:
        """Width and height as seen."""
        return (self.height, self.width) if is_turned(self.orientation) else (self.width, self.height)


def read_picture(data: bytes) -> Picture:
    """A printable picture, as `printable_picture` made it, or BadImage for any other file."""
    if data.startswith(JPEG):
        return _read_jpeg(data)
    if data.startswith(PNG):
        return _read_png(data)
    raise BadImage("The image is neither a JPEG nor a PNG file.")


def covering(width: int, height: int, orientation: int, area: Box) -> bytes:
    """The operator that stands a stored picture upright and lays it over the whole area, centred."""
    a, b, c, d, e, f = MATRICES[orientation]
    across, up = (height, width) if is_turned(orientation) else (width, height)
    scale = max(area.width / across, area.height / up)
    drawn_width, drawn_height = across * scale, up * scale
    return b"%.4f %.4f %.4f %.4f %.4f %.4f cm" % (
        a * drawn_width,
        b * drawn_height,
        c * drawn_width,
        d * drawn_height,
        area.left + (area.width - drawn_width) / 2 + e * drawn_width,
        area.bottom + (area.height - drawn_height) / 2 + f * drawn_height,
    )


def _read_jpeg(data: bytes) -> Picture:
    head = read_jpeg_header(data)
    if not head.is_plain:
        raise BadImage("The JPEG file has not been made printable.")
    return Picture(
        head.width, head.height, head.orientation, _JPEG_ENTRIES, data, head.profile or None, head.components
    )


def _read_png(data: bytes) -> Picture:
    png = read_png(data)
    if not png.is_plain:
        raise BadImage("The PNG file has not been made printable.")
    head = png.header
    return Picture(
        head.width,
        head.height,
        png.orientation,
        _PNG_ENTRIES % (head.components, head.width),
        png.deflated,
        png.profile() or None,
        head.components,
    )


@dataclass(frozen=True, slots=True)
class PrintablePicture:
    """A JPEG or PNG file; `width` and `height` are as seen, upright.

    `notes` are sentences about what was changed in a way that its owner may want to know.
    """

    data: bytes
    content_type: str
    width: int
    height: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PrintablePages:
    """A PDF of letter pages.

    `notes` are sentences about what was changed in a way that its owner may want to know.
    """

    data: bytes
    count: int
    notes: tuple[str, ...] = ()


SHARP_DPI = 300

# Sizes are exact in inches and not quite in floating point.
_HAIR = 1e-6


def printed_dpi(width: int, height: int, area: Box) -> float:
    """The resolution of an upright picture that covers the area."""
    return min(width / area.width, height / area.height) * INCH


def whole_dpi(width: int, height: int, area: Box) -> int:
    """The same in whole dots."""
    return math.floor(printed_dpi(width, height, area) + _HAIR)


def resolution_note(
    width: int, height: int, area: Box, *, what: str, where: str = "this piece"
) -> str | None:
    """A warning when the picture will look soft; `what` names it and `where` its piece: "a 4x6 postcard"."""
    dpi = whole_dpi(width, height, area)
    if dpi >= SHARP_DPI:
        return None
    across, up = (math.ceil(side / INCH * SHARP_DPI - _HAIR) for side in (area.width, area.height))
    return (
        f"{what} is {width} x {height} pixels: on {where} that prints at {dpi} dpi"
        f" and will look soft; {across} x {up} pixels give {SHARP_DPI} dpi."
    )
