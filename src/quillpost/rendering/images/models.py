"""Printable pictures and pages."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quillpost.rendering.images.files import ORIENTATION_MATRICES, read_jpeg_header, read_png, upright_size
from quillpost.rendering.images.rules import JPEG_SIGNATURE, PNG_SIGNATURE, UnprintableImage, UnprintablePdf
from quillpost.rendering.models import INCH, Box, Ink

GRID_CELLS = 64  # a cell is about as large as a written letter, so that stripes do not average out
CELL_BYTES = 3


@dataclass(frozen=True, slots=True)
class PictureTones:
    """The average color of each cell of an upright picture, row by row from the top left."""

    width: int
    height: int
    cells: bytes

    def color_at(self, across: float, down: float) -> Ink:
        """From 0, the left or top edge, to 1."""
        column, row = (min(GRID_CELLS - 1, max(0, int(share * GRID_CELLS))) for share in (across, down))
        start = (row * GRID_CELLS + column) * CELL_BYTES
        red, green, blue = (channel / 255 for channel in self.cells[start : start + CELL_BYTES])
        return red, green, blue


_PLAIN_OBJECT, _STREAM_OBJECT = b"o", b"s"


class CopiedObject(NamedTuple):
    """An object's body; or a stream's entries without the length, and its data."""

    body: bytes
    data: bytes | None


@dataclass(frozen=True, slots=True)
class CopiedPages:
    """Consecutive objects, and the numbers of those that are the pages' forms."""

    objects: Sequence[CopiedObject]
    forms: tuple[int, ...]

    def to_byte_strings(self) -> list[bytes]:
        parts: list[bytes] = []
        for copied_object in self.objects:
            is_stream = copied_object.data is not None
            parts += [_STREAM_OBJECT if is_stream else _PLAIN_OBJECT, copied_object.body, copied_object.data or b""]
        return parts

    @classmethod
    def from_byte_strings(cls, parts: Sequence[bytes], forms: Sequence[int], *, first_number: int) -> "CopiedPages":
        """Raises UnprintablePdf unless all is valid: the sender has read an untrusted file."""
        kinds, bodies, stream_data = parts[0::3], parts[1::3], parts[2::3]
        # What is put in place of an object may not end it, and begin another.
        if len(parts) % 3 or any(b"endobj" in body for body in bodies):
            raise UnprintablePdf("The PDF is damaged or too complex to be read.")
        objects = [
            CopiedObject(body, data if kind == _STREAM_OBJECT else None)
            for kind, body, data in zip(kinds, bodies, stream_data, strict=True)
        ]
        numbers = range(first_number, first_number + len(objects))
        if not forms or not all(isinstance(form, int) and form in numbers for form in forms):
            raise UnprintablePdf("The PDF is damaged or too complex to be read.")
        return cls(objects, tuple(forms))


class ObjectList:
    """Copied objects, numbered from `first_number`."""

    def __init__(self, first_number: int) -> None:
        self._first = first_number
        self.objects: list[CopiedObject] = []

    def reserve(self) -> int:
        self.objects.append(CopiedObject(b"null", None))
        return self._first + len(self.objects) - 1

    def put(self, number: int, body: bytes) -> None:
        self.objects[number - self._first] = CopiedObject(body, None)

    def add_stream(self, data: bytes, entries: bytes) -> int:
        self.objects.append(CopiedObject(entries, data))
        return self._first + len(self.objects) - 1


_JPEG_ENTRIES = b"/BitsPerComponent 8/Filter/DCTDecode"
_PNG_ENTRIES = (
    b"/BitsPerComponent 8/Filter/FlateDecode/DecodeParms<</Predictor 15/Colors %d/BitsPerComponent 8/Columns %d>>"
)


@dataclass(frozen=True, slots=True)
class Picture:
    """`entries` lack only /ColorSpace: the profile's, else gray or RGB by `components`. Sizes are as stored."""

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
        return upright_size(self.width, self.height, self.orientation)


def read_picture(data: bytes) -> Picture:
    """A picture that `make_printable_picture` made; UnprintableImage for any other file."""
    if data.startswith(JPEG_SIGNATURE):
        jpeg = read_jpeg_header(data)
        if not jpeg.is_plain:
            raise UnprintableImage("The JPEG file has not been made printable.")
        profile = jpeg.profile or None
        return Picture(jpeg.width, jpeg.height, jpeg.orientation, _JPEG_ENTRIES, data, profile, jpeg.components)
    if not data.startswith(PNG_SIGNATURE):
        raise UnprintableImage("The image is neither a JPEG nor a PNG file.")
    png = read_png(data)
    if not png.is_plain:
        raise UnprintableImage("The PNG file has not been made printable.")
    head = png.header
    entries, profile = _PNG_ENTRIES % (head.components, head.width), png.read_profile() or None
    return Picture(head.width, head.height, png.orientation, entries, png.compressed_pixels, profile, head.components)


def cover_operator(width: int, height: int, orientation: int, area: Box) -> bytes:
    """The operator that turns a stored picture upright and centers it over the whole area."""
    a, b, c, d, e, f = ORIENTATION_MATRICES[orientation]
    across, up = upright_size(width, height, orientation)
    scale = max(area.width / across, area.height / up)
    drawn_width, drawn_height = across * scale, up * scale
    left = area.left + (area.width - drawn_width) / 2 + e * drawn_width
    bottom = area.bottom + (area.height - drawn_height) / 2 + f * drawn_height
    turn = (a * drawn_width, b * drawn_height, c * drawn_width, d * drawn_height)
    return b"%.4f %.4f %.4f %.4f %.4f %.4f cm" % (*turn, left, bottom)


@dataclass(frozen=True, slots=True)
class PrintablePicture:
    """A JPEG or PNG file and its upright size; `notes` tell its owner what was changed."""

    data: bytes
    content_type: str
    width: int
    height: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PrintablePages:
    """A PDF of letter pages; `notes` tell its owner what was changed."""

    data: bytes
    count: int
    notes: tuple[str, ...] = ()


MIN_SHARP_DPI = 300
_TOLERANCE = 1e-6  # sizes are exact in inches and not quite in floating point


def printed_whole_dpi(width: int, height: int, area: Box) -> int:
    return math.floor(min(width / area.width, height / area.height) * INCH + _TOLERANCE)


def resolution_note(width: int, height: int, area: Box, *, product_name: str = "this piece") -> str | None:
    """A warning when the picture will look soft; `product_name` is like "a 4x6 postcard"."""
    dpi = printed_whole_dpi(width, height, area)
    if dpi >= MIN_SHARP_DPI:
        return None
    across, up = (math.ceil(side / INCH * MIN_SHARP_DPI - _TOLERANCE) for side in (area.width, area.height))
    return (
        f"is {width} x {height} pixels: on {product_name} that prints at {dpi} dpi"
        f" and will look soft; {across} x {up} pixels give {MIN_SHARP_DPI} dpi."
    )
