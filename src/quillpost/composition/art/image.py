"""Pictures that come from outside: checked by their header first, then drawn to cover an area."""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from isal import isal_zlib
from PIL import Image

from quillpost.composition.pages.pieces import INCH, PIECES, Box

MOST_BYTES = 40_000_000

# More pixels than the finest press shows of the largest piece would only cost memory.
_FINEST_DPI = 600
_LARGEST = max((piece.bleed_box for piece in PIECES.values()), key=lambda box: box.width * box.height)
_LARGEST_PIXELS = (
    round(_LARGEST.width / INCH * _FINEST_DPI),
    round(_LARGEST.height / INCH * _FINEST_DPI),
)
MOST_PIXELS = _LARGEST_PIXELS[0] * _LARGEST_PIXELS[1]

# As in a JPEG file. Bounds a row, and so the smallest strip.
LONGEST_SIDE = 65_535

_STRIP_PIXELS = 1_000_000
_DEFLATE_LEVEL = 2
_PNG_ENTRIES = b"/ColorSpace%b/BitsPerComponent 8/Filter/FlateDecode"

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JPEG_SIGNATURE = b"\xff\xd8\xff"
_JPEG_FRAMES = frozenset({0xC0, 0xC1, 0xC2})  # baseline, extended, progressive
_OTHER_FRAMES = frozenset(range(0xC3, 0xD0)) - {0xC4, 0xC8, 0xCC}
_NO_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_START_OF_SCAN = 0xDA
_ADOBE = 0xEE
_EXIF_ORIENTATION = 0x0112

# Each EXIF orientation as the matrix that stands the stored unit square upright.
_UPRIGHT = {
    1: (1, 0, 0, 1, 0, 0),
    2: (-1, 0, 0, 1, 1, 0),
    3: (-1, 0, 0, -1, 1, 1),
    4: (1, 0, 0, -1, 0, 1),
    5: (0, -1, -1, 0, 1, 1),
    6: (0, -1, 1, 0, 0, 1),
    7: (0, 1, 1, 0, 0, 0),
    8: (0, 1, -1, 0, 1, 0),
}


class BadImage(Exception):
    """The picture cannot be printed; `message` is a sentence for whoever sent it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What the header says; `width` and `height` are as stored, before any EXIF rotation."""

    format: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture ready for a PDF: `data` is compressed as the `/Filter` in its `entries` says."""

    facts: ImageFacts
    orientation: int
    entries: bytes
    data: bytes


def check_image(data: bytes) -> ImageFacts:
    """The picture's facts, or BadImage. What passes is ready to print: it was prepared once."""
    return prepare_picture(data).facts


def prepare_picture(data: bytes) -> Picture:
    """A JPEG passes through as it is; a PNG is decoded and laid on white.

    The header is judged before a pixel is decoded.
    """
    facts = _facts_of(data)
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
            if image.size != (facts.width, facts.height):
                raise ValueError("two headers that contradict each other")
            if facts.format == "JPEG":
                _read_through(image)
                return Picture(facts, _orientation_of(image), _jpeg_entries(data), data)
            image.load()
            space, pixels = _flattened(image)
            return Picture(facts, _orientation_of(image), _PNG_ENTRIES % space, pixels)
    # Pillow's readers raise whatever the damaged bytes lead them into.
    except Exception as error:
        raise BadImage(f"The {facts.format} file is damaged or incomplete.") from error


def covering(facts: ImageFacts, orientation: int, area: Box) -> bytes:
    """The operator that stands a picture upright and lays it over the whole area, centred."""
    a, b, c, d, e, f = _UPRIGHT[orientation]
    is_turned = a == 0
    across, up = (facts.height, facts.width) if is_turned else (facts.width, facts.height)
    scale = max(area.width / across, area.height / up)
    width, height = across * scale, up * scale
    return b"%.4f %.4f %.4f %.4f %.4f %.4f cm" % (
        a * width,
        b * height,
        c * width,
        d * height,
        area.left + (area.width - width) / 2 + e * width,
        area.bottom + (area.height - height) / 2 + f * height,
    )


def _facts_of(data: bytes) -> ImageFacts:
    if len(data) > MOST_BYTES:
        raise BadImage(f"The image is larger than {MOST_BYTES // 1_000_000} MB.")
    if data.startswith(_PNG_SIGNATURE):
        facts = _png_facts(data)
    elif data.startswith(_JPEG_SIGNATURE):
        facts = _jpeg_facts(data)
    else:
        raise BadImage("The image is neither a JPEG nor a PNG file.")
    if not facts.width or not facts.height:
        raise BadImage("The image has no pixels.")
    if max(facts.width, facts.height) > LONGEST_SIDE:
        raise BadImage(f"The image is too long: no side may have more than {LONGEST_SIDE} pixels.")
    if facts.width * facts.height > MOST_PIXELS:
        raise BadImage(
            f"The image has {facts.width} x {facts.height} pixels; at most"
            f" {MOST_PIXELS / 1_000_000:.1f} million are accepted. The largest piece needs"
            f" {_LARGEST_PIXELS[0]} x {_LARGEST_PIXELS[1]} at {_FINEST_DPI} dpi: make it smaller."
        )
    return facts


def _png_facts(data: bytes) -> ImageFacts:
    if data[12:16] != b"IHDR" or len(data) < 33:
        raise BadImage("The PNG file is damaged: its header is incomplete.")
    width, height = struct.unpack_from(">II", data, 16)
    return ImageFacts("PNG", width, height)


def _jpeg_facts(data: bytes) -> ImageFacts:
    for marker, segment in _jpeg_segments(data):
        if marker in _OTHER_FRAMES:
            raise BadImage("The JPEG file is of a rare kind (lossless or arithmetic coding).")
        if marker in _JPEG_FRAMES and len(segment) >= 6:
            height, width = struct.unpack_from(">HH", segment, 1)
            return ImageFacts("JPEG", width, height)
    raise BadImage("The JPEG file is damaged: its header is incomplete.")


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Markers and their contents, up to the picture itself."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _NO_LENGTH:
            at += 2
        elif marker == _START_OF_SCAN:
            return
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            yield marker, data[at + 4 : at + 2 + length]
            at += 2 + length


def _jpeg_entries(data: bytes) -> bytes:
    components, written_by_adobe = 3, False
    for marker, segment in _jpeg_segments(data):
        if marker in _JPEG_FRAMES:
            components = segment[5]
        if marker == _ADOBE and segment.startswith(b"Adobe"):
            written_by_adobe = True
    space = {1: b"/DeviceGray", 4: b"/DeviceCMYK"}.get(components, b"/DeviceRGB")
    # Adobe's programs store CMYK upside down: no ink is 255.
    decode = b"/Decode[1 0 1 0 1 0 1 0]" if components == 4 and written_by_adobe else b""
    return b"/ColorSpace%b/BitsPerComponent 8/Filter/DCTDecode%b" % (space, decode)


def _read_through(image: Image.Image) -> None:
    """Read a JPEG to its end for what is broken therein, at an eighth of its size to spare memory."""
    image.draft(image.mode, (1, 1))
    image.load()


def _orientation_of(image: Image.Image) -> int:
    orientation = image.getexif().get(_EXIF_ORIENTATION)
    return orientation if isinstance(orientation, int) and orientation in _UPRIGHT else 1


def _flattened(image: Image.Image) -> tuple[bytes, bytes]:
    """The colour space and the deflated pixels on white, made strip by strip to spare memory."""
    deflater = isal_zlib.compressobj(_DEFLATE_LEVEL)
    space = b"/DeviceRGB"
    parts = []
    rows = max(1, _STRIP_PIXELS // image.width)
    for top in range(0, image.height, rows):
        strip = _on_white(image.crop((0, top, image.width, min(top + rows, image.height))))
        space = b"/DeviceGray" if strip.mode == "L" else b"/DeviceRGB"
        parts.append(deflater.compress(strip.tobytes()))
    return space, b"".join([*parts, deflater.flush()])


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits a sample, which Pillow would clip instead of scale
        return Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        paper = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(paper, layer).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")
