"""Pictures and profiles of every kind for the tests of what comes in, ways to see them printed, and a server that has
some."""

import io
import struct
import zlib
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from urllib.parse import unquote

import numpy as np
import pikepdf
import pypdfium2 as pdfium
from PIL import Image, ImageCms, ImageColor

from quillpost.rendering.images.models import cover_operator, read_picture
from quillpost.rendering.models import Box
from quillpost.rendering.pdf.files import PdfFile
from support.fake_server import FakeRequest, FakeResponse, FakeServer, respond

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"

QUARTERS = Image.new("RGB", (60, 40), "red")
QUARTERS.paste((0, 0, 255), (30, 0, 60, 20))
QUARTERS.paste((0, 255, 0), (0, 20, 30, 40))


def saved(image: Image.Image, file_format: str, **how: object) -> bytes:
    file = io.BytesIO()
    image.save(file, file_format, **how)
    return file.getvalue()


def printed(data: bytes, width: int = 216, height: int = 144) -> Image.Image:
    """A printable picture as it looks over an area of so many points, a pixel each."""
    picture = read_picture(data)
    pdf = PdfFile()
    space = b"/DeviceGray" if picture.components == 1 else b"/DeviceRGB"
    if picture.profile is not None:
        profile = pdf.add_stream(picture.profile, b"/N %d" % picture.components)
        space = b"[/ICCBased %d 0 R]" % profile
    image = pdf.add_stream(
        picture.data,
        b"/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace%b%b"
        % (picture.width, picture.height, space, picture.entries),
        is_final=True,
    )
    matrix = cover_operator(picture.width, picture.height, picture.orientation, Box(0, 0, width, height))
    content = pdf.add_stream(b"q %b /P Do Q" % matrix)
    entries = b"/MediaBox[0 0 %d %d]/Resources<</XObject<</P %d 0 R>>>>" % (width, height, image)
    pdf.add_page(entries, [content])
    return page_picture(pdf.finish())


def page_picture(pdf: bytes, page: int = 0, scale: float = 1) -> Image.Image:
    with pdfium.PdfDocument(pdf) as document:
        picture: Image.Image = document[page].render(scale=scale).to_pil().convert("RGB")
        return picture


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_header(width: int, height: int, *, depth: int = 8, colour: int = 2, interlace: int = 0) -> bytes:
    return png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace))


def png_file(header: bytes, rows: bytes, *more: bytes) -> bytes:
    """A file of these rows, each with its filter byte; `more` are chunks that come before them."""
    pixels = png_chunk(b"IDAT", zlib.compress(rows))
    return b"".join([PNG_SIGNATURE, header, *more, pixels, png_chunk(b"IEND", b"")])


def with_chunk(png: bytes, kind: bytes, body: bytes) -> bytes:
    """The same file with one more chunk after its header."""
    return png[:33] + png_chunk(kind, body) + png[33:]


def interlaced(image: Image.Image) -> bytes:
    """An 8-bit grey picture as a file of seven passes."""
    pixels = np.asarray(image.convert("L"))
    rows = bytearray()
    passes = ((0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2), (1, 2, 0, 1))
    for top, down, left, across in passes:
        for row in pixels[top::down, left::across]:
            if len(row):
                rows += b"\0" + row.tobytes()
    return png_file(png_header(image.width, image.height, colour=0, interlace=1), bytes(rows))


def jpeg_segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def without_segments(jpeg: bytes, marker: int) -> bytes:
    """The same JPEG file without its segments of that marker."""
    kept, at = bytearray(jpeg[:2]), 2
    while jpeg[at + 1] != 0xDA:
        (length,) = struct.unpack_from(">H", jpeg, at + 2)
        if jpeg[at + 1] != marker:
            kept += jpeg[at : at + 2 + length]
        at += 2 + length
    return bytes(kept) + jpeg[at:]


@cache  # a profile tells the second at which it was made
def srgb_profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def swapping_profile() -> bytes:
    """An RGB profile in which red and green have changed places."""
    profile = bytearray(srgb_profile())
    count = struct.unpack_from(">I", profile, 128)[0]
    tags = {profile[132 + 12 * i : 136 + 12 * i].decode(): 132 + 12 * i for i in range(count)}
    red, green = tags["rXYZ"] + 4, tags["gXYZ"] + 4
    profile[red : red + 8], profile[green : green + 8] = profile[green : green + 8], profile[red : red + 8]
    return bytes(profile)


def cmyk_profile(lab_of_corners: Sequence[tuple[int, int, int]]) -> bytes:
    """A printer's profile of sixteen colours, one for each corner of the CMYK cube, cyan changing last.

    Colours are Lab in bytes: 255 is white, and 128 is no tint.
    """
    ramp = bytes(range(256))
    identity = struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536)
    table = bytes(value for corner in lab_of_corners for value in corner)
    lut = b"mft1" + bytes(4) + bytes((4, 3, 2, 0)) + identity + ramp * 4 + table + ramp * 3
    lut += bytes(-len(lut) % 4)
    name = b"desc" + bytes(4) + struct.pack(">I", 6) + b"Press\0" + bytes(78)
    name += bytes(-len(name) % 4)
    tags = struct.pack(">I4sII4sII", 2, b"A2B0", 156, len(lut), b"desc", 156 + len(lut), len(name))
    kinds = (b"prtr", b"CMYK", b"Lab ", bytes(12), b"acsp", bytes(4))
    head = struct.pack(">I4sI4s4s4s12s4s4s", 156 + len(lut) + len(name), bytes(4), 0x02400000, *kinds)
    illuminant = struct.pack(">3i", 0xF6D6, 0x10000, 0xD32D)
    return head + bytes(68 - len(head)) + illuminant + bytes(48) + tags + lut + name


SHARP, SOFT = (1875, 1275), (600, 400)


@cache
def make_picture(colour: str = "teal", size: tuple[int, int] = SHARP) -> bytes:
    buffer = BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


@cache
def make_letter(pages: int = 2) -> bytes:
    buffer = BytesIO()
    with pikepdf.new() as pdf:
        for _ in range(pages):
            pdf.add_blank_page(page_size=(612, 792)).obj["/Contents"] = pdf.make_stream(b"72 72 99 99 re f")
        pdf.save(buffer)
    return buffer.getvalue()


class ImageServer(FakeServer):
    """Answers `/teal.png` with a teal picture, `/soft-teal.png` with one of few pixels, `/3.pdf` with a letter of
    three pages, `/gone` not at all."""

    def __init__(self) -> None:
        super().__init__({"GET /{colour}.png": self._picture, "GET /{pages}.pdf": self._letter})

    @property
    def paths(self) -> list[str]:
        """The paths that were requested, as they were written, in any order."""
        return sorted(request.split(b" ")[1].decode() for request in self.requests)

    def picture(self, colour: str = "teal") -> str:
        return self.url(f"/{colour}.png")

    def letter(self, pages: int = 2) -> str:
        return self.url(f"/{pages}.pdf")

    def _picture(self, _: FakeRequest, name: str) -> FakeResponse:
        colour = unquote(name).removeprefix("soft-")
        if colour not in ImageColor.colormap:
            return respond(404)
        return respond(200, make_picture(colour, SHARP if colour == unquote(name) else SOFT))

    def _letter(self, _: FakeRequest, pages: str) -> FakeResponse:
        return respond(200, make_letter(int(pages)))
