"""Small files of every kind that the decoder reads once before it closes its doors.

Libraries load parts of themselves when they first need them, which a limited child no longer can.
"""

import io
from typing import Any

import pikepdf
from PIL import Image


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
