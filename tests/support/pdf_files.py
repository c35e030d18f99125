"""PDFs of every kind for the tests of what comes in, and ways to see them printed."""

import io
from collections.abc import Callable
from typing import Any

import fontpkg
import numpy as np
import pikepdf
from pikepdf import Array, Dictionary, Name
from PIL import Image

from quillpost.rendering.images.models import ObjectList
from quillpost.rendering.images.objects import copy_page_forms
from quillpost.rendering.images.pdfs import make_printable_pages
from quillpost.rendering.pdf.files import PdfFile
from support.images import page_picture

TRIANGLE = b"1 0 0 rg 50 50 m 300 700 l 500 100 l f 0 0 1 RG 5 w 20 20 572 752 re S "
LETTER = (612, 792)

Change = Callable[[pikepdf.Pdf, Any], None]
"""What makes a PDF special; it gets the file and its first page."""


def make_pdf(
    content: bytes = TRIANGLE,
    size: tuple[float, float] = LETTER,
    change: Change = lambda pdf, page: None,
    *,
    pages: int = 1,
    **how: Any,
) -> bytes:
    """A PDF of so many equal pages; `how` goes to the saving."""
    with pikepdf.new() as pdf:
        for _ in range(pages):
            page = pdf.add_blank_page(page_size=size).obj
            page["/Contents"] = pdf.make_stream(content)
            page["/Resources"] = Dictionary()
        change(pdf, pdf.pages[0].obj)
        file = io.BytesIO()
        pdf.save(file, **{"static_id": "encryption" not in how} | how)
        return file.getvalue()


def with_resources(make: Callable[[pikepdf.Pdf], dict[str, Any]]) -> Change:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        page["/Resources"] = Dictionary(**make(pdf))

    return change


def with_entries(**values: Any) -> Change:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        for name, value in values.items():
            page[f"/{name}"] = value

    return change


def with_font(pdf: pikepdf.Pdf, page: Any) -> None:
    page["/Resources"] = Dictionary(Font=Dictionary(F=embedded_font(pdf)))


def copied_forms(pdf: PdfFile, pages: bytes, **how: Any) -> list[int]:
    """The numbers of the pages in a file of ours that they are copied into."""
    copied = ObjectList(pdf.last_number + 1)
    forms = copy_page_forms(copied, pages, **how)
    pdf.add_copied_objects(copied.objects)
    return forms


def composed(pages: bytes, **how: Any) -> bytes:
    """Every page drawn by a page of ours."""
    pdf = PdfFile()
    for form in copied_forms(pdf, pages, **how):
        content = pdf.add_stream(b"/F Do")
        pdf.add_page(b"/MediaBox[0 0 612 792]/Resources<</XObject<</F %d 0 R>>>>" % form, [content])
    return pdf.finish()


def shown(data: bytes, page: int = 0) -> Image.Image:
    """What is printed of a PDF that came in."""
    return page_picture(composed(make_printable_pages(data).data), page)


def notes_on(data: bytes) -> tuple[str, ...]:
    return make_printable_pages(data).notes


def difference(one: Image.Image, other: Image.Image) -> float:
    assert one.size == other.size
    return float(np.abs(np.asarray(one).astype(int) - np.asarray(other).astype(int)).mean())


def helvetica() -> Dictionary:
    """A font that every viewer is expected to have, and no print shop may assume."""
    return Dictionary(Type=Name.Font, Subtype=Name.Type1, BaseFont=Name.Helvetica)


def embedded_font(pdf: pikepdf.Pdf) -> Dictionary:
    """A handwriting face of which the letters a and b can be written."""
    program = fontpkg.path("satisfy").read_bytes()
    descriptor = Dictionary(
        Type=Name.FontDescriptor, FontName=Name.Satisfy, Flags=32, FontBBox=Array([-100, -400, 1000, 900]),
        ItalicAngle=0, Ascent=900, Descent=-400, CapHeight=700, StemV=50,
        FontFile2=pdf.make_stream(program, Length1=len(program)),
    )  # fmt: skip
    return Dictionary(
        Type=Name.Font, Subtype=Name.TrueType, BaseFont=Name.Satisfy, FirstChar=97, LastChar=98,
        Widths=Array([400, 400]), Encoding=Name.WinAnsiEncoding, FontDescriptor=descriptor,
    )  # fmt: skip


def drawing(pdf: pikepdf.Pdf, content: bytes, **entries: Any) -> pikepdf.Stream:
    """A form for others to draw."""
    return pdf.make_stream(content, Type=Name.XObject, Subtype=Name.Form, BBox=Array([0, 0, 612, 792]), **entries)


def image(pdf: pikepdf.Pdf, data: bytes, width: int, height: int, **entries: Any) -> pikepdf.Stream:
    usual = {"ColorSpace": Name.DeviceRGB, "BitsPerComponent": 8}
    return pdf.make_stream(data, Type=Name.XObject, Subtype=Name.Image, Width=width, Height=height, **usual | entries)
