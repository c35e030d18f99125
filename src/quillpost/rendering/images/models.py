"""Printable pictures and pages, and whether their resolution is enough."""

import math
from dataclasses import dataclass

from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.images.jpeg import ORIENTATION_MATRICES, read_jpeg_header, swaps_sides
from quillpost.rendering.images.limits import JPEG_SIGNATURE, PNG_SIGNATURE, UnprintableImage
from quillpost.rendering.images.png import read_png

_JPEG_ENTRIES = b"/BitsPerComponent 8/Filter/DCTDecode"
_PNG_ENTRIES = (
    b"/BitsPerComponent 8/Filter/FlateDecode/DecodeParms<</Predictor 15/Colors %d/BitsPerComponent 8/Columns %d>>"
)


@dataclass(frozen=True, slots=True)
class Picture:
    """`data` is compressed as the `/Filter` in its `entries` says, which lack only the `/ColorSpace`.

    That is the ICC profile's if there is one, else gray for one component and RGB for three.
    `width` and `height` are as stored, before the `orientation` is honored.
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
        return (self.height, self.width) if swaps_sides(self.orientation) else (self.width, self.height)


def read_picture(data: bytes) -> Picture:
    """A printable picture, as `make_printable_picture` made it, or BadImage for any other file."""
    if data.startswith(JPEG_SIGNATURE):
        return _read_jpeg(data)
    if data.startswith(PNG_SIGNATURE):
        return _read_png(data)
    raise UnprintableImage("The image is neither a JPEG nor a PNG file.")


def cover_operator(width: int, height: int, orientation: int, area: Box) -> bytes:
    """The operator that stands a stored picture upright and lays it over the whole area, centered."""
    a, b, c, d, e, f = ORIENTATION_MATRICES[orientation]
    across, up = (height, width) if swaps_sides(orientation) else (width, height)
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
        raise UnprintableImage("The JPEG file has not been made printable.")
    return Picture(
        head.width, head.height, head.orientation, _JPEG_ENTRIES, data, head.profile or None, head.components
    )


def _read_png(data: bytes) -> Picture:
    png = read_png(data)
    if not png.is_plain:
        raise UnprintableImage("The PNG file has not been made printable.")
    head = png.header
    return Picture(
        head.width,
        head.height,
        png.orientation,
        _PNG_ENTRIES % (head.components, head.width),
        png.compressed_pixels,
        png.read_profile() or None,
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


MIN_SHARP_DPI = 300

# Sizes are exact in inches and not quite in floating point.
_TOLERANCE = 1e-6


def printed_dpi(width: int, height: int, area: Box) -> float:
    """The resolution of an upright picture that covers the area."""
    return min(width / area.width, height / area.height) * INCH


def printed_whole_dpi(width: int, height: int, area: Box) -> int:
    """The same in whole dots."""
    return math.floor(printed_dpi(width, height, area) + _TOLERANCE)


def resolution_note(
    width: int, height: int, area: Box, *, picture_name: str, product_name: str = "this piece"
) -> str | None:
    """A warning when the picture will look soft, with the names of it and of its product: "a 4x6 postcard"."""
    dpi = printed_whole_dpi(width, height, area)
    if dpi >= MIN_SHARP_DPI:
        return None
    across, up = (math.ceil(side / INCH * MIN_SHARP_DPI - _TOLERANCE) for side in (area.width, area.height))
    return (
        f"{picture_name} is {width} x {height} pixels: on {product_name} that prints at {dpi} dpi"
        f" and will look soft; {across} x {up} pixels give {MIN_SHARP_DPI} dpi."
    )
