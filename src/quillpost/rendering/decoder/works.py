"""What a decoder process can do with a stranger's file. Nothing else opens one.

Each takes the bytes and how it is to be done, and answers with a head and bytes, or raises `BadArt`.

Libraries load parts of themselves when they first need them, which a limited child no longer can.
"""

import io
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

import pikepdf
from PIL import Image

from quillpost.rendering.decoder.messages import Head, packed, unpacked
from quillpost.rendering.geometry import Box
from quillpost.rendering.images.copied_pages import CopiedPages, ObjectList
from quillpost.rendering.images.forms import page_forms
from quillpost.rendering.images.limits import BadArt
from quillpost.rendering.images.pdfs import count_pages, printable_pages
from quillpost.rendering.images.pictures import printable_picture
from quillpost.rendering.images.tone_measurement import measure_tones
from quillpost.rendering.pdf.raster import rasterise


def specimen_pictures() -> list[bytes]:
    """One of each way that a picture can take."""
    return [
        _picture("JPEG", "RGB"),
        _picture("JPEG", "RGB", exif=_turned()),
        _picture("JPEG", "CMYK"),
        _picture("PNG", "RGB"),
        _picture("PNG", "P"),
        _picture("PNG", "RGBA"),
        _picture("PNG", "I;16"),
        b"GIF89a",
    ]


def specimen_pages() -> list[bytes]:
    """A page that passes, a page that must be redrawn, and no page at all."""
    return [
        _page(b"0 0 9 9 re f"),
        _page(b"0 0 9 9 re f", encryption=pikepdf.Encryption(owner="owner", user="", R=6)),
        _page(b"BT /F 9 Tf (a) Tj ET 0 0 0 1 k 0 0 9 9 re f"),
        b"%PDF-1.7 startxref",
    ]


def specimen_print_file() -> bytes:
    """A file that says what it is, as those for the press do."""
    with pikepdf.open(io.BytesIO(_page(b"0 0 9 9 re f"))) as pdf:
        with pdf.open_metadata() as said:
            said["dc:title"] = "A specimen"
        file = io.BytesIO()
        pdf.save(file)
        return file.getvalue()


def _turned() -> Image.Exif:
    """What a camera writes that was held upright."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def _picture(file_format: str, mode: str, **extras: Any) -> bytes:
    Image.init()  # all plugins: a picture may hold another within
    file = io.BytesIO()
    Image.new(mode, (8, 8)).save(file, file_format, **extras)
    return file.getvalue()


def _page(content: bytes, **extras: Any) -> bytes:
    with pikepdf.new() as pdf:
        page = pdf.add_blank_page(page_size=(612, 792)).obj
        page["/Contents"] = pdf.make_stream(content)
        font = pikepdf.Dictionary(
            Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica
        )
        page["/Resources"] = pikepdf.Dictionary(Font=pikepdf.Dictionary(F=font))
        file = io.BytesIO()
        pdf.save(file, **extras)
        return file.getvalue()


Work = Callable[[bytes, Head], tuple[Head, bytes]]


def read_picture(data: bytes, _how: Head) -> tuple[Head, bytes]:
    made = printable_picture(data)
    return {"notes": made.notes}, made.data


def read_pages(data: bytes, _how: Head) -> tuple[Head, bytes]:
    made = printable_pages(data)
    return {"notes": made.notes}, made.data


def read_tones(data: bytes, _how: Head) -> tuple[Head, bytes]:
    return {}, measure_tones(data)


def count(data: bytes, _how: Head) -> tuple[Head, bytes]:
    """How many pages there are in what another child made printable."""
    return {"count": count_pages(data)}, b""


def copy(data: bytes, how: Head) -> tuple[Head, bytes]:
    """Pages as objects of another file, which are numbered from `first`."""
    objects = ObjectList(how["first"])
    forms = page_forms(objects, data, default_spaces=how["default_spaces"].encode("latin-1"))
    made = CopiedPages(objects.found(), tuple(forms))
    return {"forms": made.forms}, packed(made.written())


def draw(data: bytes, how: Head) -> tuple[Head, bytes]:
    """Pages as PNG files."""
    crops = how["crops"]
    boxes = None if crops is None else [None if crop is None else Box(*crop) for crop in crops]
    return {}, packed(rasterise(data, dpi=how["dpi"], pages=how["pages"], crops=boxes))


def join(data: bytes, _how: Head) -> tuple[Head, bytes]:
    """The pages of several files in one, which is in all else as the first of them."""
    first, *others = unpacked(data)
    joined = io.BytesIO()
    with ExitStack() as opened:  # all of them until the whole is written, which holds parts of each
        whole = opened.enter_context(pikepdf.open(io.BytesIO(first)))
        for other in others:
            whole.pages.extend(opened.enter_context(pikepdf.open(io.BytesIO(other))).pages)
        whole.save(joined, deterministic_id=True)
    return {}, joined.getvalue()


WORKS: Mapping[str, Work] = {
    "picture": read_picture,
    "pages": read_pages,
    "tones": read_tones,
    "count": count,
    "copy": copy,
    "draw": draw,
    "join": join,
}


def rehearse() -> None:
    """Do everything once, so that no child has to load a library."""
    for specimen in specimen_pictures():
        with suppress(BadArt):
            read_tones(read_picture(specimen, {})[1], {})
    for specimen in specimen_pages():
        with suppress(BadArt):
            _, pages = read_pages(specimen, {})
            copy(pages, {"first": 1, "default_spaces": ""})
            draw(pages, {"dpi": 72, "pages": None, "crops": None})
    join(packed([specimen_print_file(), specimen_print_file()]), {})
