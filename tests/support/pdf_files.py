"""PDFs of every kind for the tests of what comes in."""

import io
from collections.abc import Callable
from typing import Any

import fontpkg
import pikepdf
from pikepdf import Array, Dictionary, Name

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


def helvetica() -> Dictionary:
    """A font that every viewer is expected to have, and no print shop may assume."""
    return Dictionary(Type=Name.Font, Subtype=Name.Type1, BaseFont=Name.Helvetica)


def embedded_font(pdf: pikepdf.Pdf) -> Dictionary:
    """A handwriting face of which the letters a and b can be written."""
    program = fontpkg.path("zeyada").read_bytes()
    descriptor = Dictionary(
        Type=Name.FontDescriptor,
        FontName=Name.Zeyada,
        Flags=32,
        FontBBox=Array([-100, -400, 1000, 900]),
        ItalicAngle=0,
        Ascent=900,
        Descent=-400,
        CapHeight=700,
        StemV=50,
        FontFile2=pdf.make_stream(program, Length1=len(program)),
    )
    return Dictionary(
        Type=Name.Font,
        Subtype=Name.TrueType,
        BaseFont=Name.Zeyada,
        FirstChar=97,
        LastChar=98,
        Widths=Array([400, 400]),
        Encoding=Name.WinAnsiEncoding,
        FontDescriptor=descriptor,
    )


def drawing(pdf: pikepdf.Pdf, content: bytes, **entries: Any) -> pikepdf.Stream:
    """A form for others to draw."""
    return pdf.make_stream(content, Type=Name.XObject, Subtype=Name.Form, BBox=Array([0, 0, 612, 792]), **entries)


def image(pdf: pikepdf.Pdf, data: bytes, width: int, height: int, **entries: Any) -> pikepdf.Stream:
    usual = {"ColorSpace": Name.DeviceRGB, "BitsPerComponent": 8}
    return pdf.make_stream(data, Type=Name.XObject, Subtype=Name.Image, Width=width, Height=height, **usual | entries)
