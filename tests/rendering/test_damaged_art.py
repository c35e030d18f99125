"""Damaged files: whatever is done to a file's bytes, it is made printable or refused, and nothing else."""

import io
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pikepdf import Dictionary, Name, ObjectStreamMode
from PIL import Image, PngImagePlugin

from quillpost.rendering.images.models import ObjectList, read_picture
from quillpost.rendering.images.objects import copy_page_forms
from quillpost.rendering.images.pdfs import make_printable_pages
from quillpost.rendering.images.pictures import make_printable_picture
from quillpost.rendering.images.rules import UnprintableImage, UnprintablePdf
from support.images import QUARTERS, png_chunk, saved, srgb_profile
from support.pdf_files import TRIANGLE, embedded_font, helvetica, image, make_pdf, with_resources


def rich_picture(file_format: str, mode: str) -> bytes:
    """A picture with what cameras and programs add to its pixels, which can be damaged, too."""
    exif = Image.Exif()
    exif[0x0112] = 6
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Comment", "a comment", zip=True)
    extras: dict[str, object] = {"pnginfo": notes} if file_format == "PNG" else {}
    if mode == "P":
        extras["transparency"] = 0
    return saved(QUARTERS.convert(mode), file_format, exif=exif, icc_profile=srgb_profile(), **extras)


def rich_paper() -> bytes:
    def resources(pdf: Any) -> dict[str, Any]:
        photograph = image(pdf, saved(QUARTERS, "JPEG"), 60, 40, Filter=Name.DCTDecode)
        state = Dictionary(G=Dictionary(ca=0.5))
        return {"XObject": Dictionary(I=photograph), "Font": Dictionary(F=helvetica()), "ExtGState": state}

    plain = {"compress_streams": False, "object_stream_mode": ObjectStreamMode.disable}
    return make_pdf(TRIANGLE + b"/G gs q 99 0 0 99 9 9 cm /I Do Q", change=with_resources(resources), **plain)


PICTURES = {
    (file_format, mode): rich_picture(file_format, mode)
    for file_format, mode in (("JPEG", "RGB"), ("JPEG", "CMYK"), ("PNG", "RGB"), ("PNG", "P"), ("PNG", "LA"))
}
PAPER = rich_paper()


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A few bytes changed, a piece cut out, or the end torn off."""
    broken = bytearray(whole)
    for _ in range(draw(st.integers(0, 4))):
        broken[draw(st.integers(0, len(broken) - 1))] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        start = draw(st.integers(0, len(broken)))
        del broken[start : start + draw(st.sampled_from((1, 2, 10, 100, 1_000_000)))]
    return bytes(broken)


def repaired(png: bytes) -> bytes:
    """The same chunks with sums that are right, so that damage gets past the first gate."""
    chunks, at = [png[:8]], 8
    while at + 12 <= len(png):
        (length,) = struct.unpack_from(">I", png, at)
        chunks.append(png_chunk(png[at + 4 : at + 8], png[at + 8 : at + 8 + length]))
        at += 12 + length
    return b"".join(chunks)


@pytest.mark.parametrize(("file_format", "mode"), PICTURES)
@settings(max_examples=120)
@given(data=st.data(), repair=st.booleans())
def test_a_damaged_picture_is_printable_or_refused(
    file_format: str, mode: str, data: st.DataObject, repair: bool
) -> None:
    broken = data.draw(damaged(PICTURES[file_format, mode]))
    if repair and file_format == "PNG":
        broken = repaired(broken)
    try:
        made = make_printable_picture(broken)
    except UnprintableImage:
        return
    composed = read_picture(made.data)
    with Image.open(io.BytesIO(made.data)) as image:
        assert image.size == (composed.width, composed.height)


@settings(max_examples=150)
@given(broken=damaged(PAPER))
def test_a_damaged_pdf_is_printable_or_refused(broken: bytes) -> None:
    try:
        made = make_printable_pages(broken)
    except UnprintablePdf:
        return
    assert len(copy_page_forms(ObjectList(1), made.data)) == made.count


def test_the_whole_files_are_printable_and_so_is_a_font_program_cut_short() -> None:
    assert [make_printable_picture(whole).width for whole in PICTURES.values()] == [40] * 5
    assert make_printable_pages(PAPER).notes == ()

    def change(pdf: Any, page: Any) -> None:
        font = embedded_font(pdf)
        font["/FontDescriptor"]["/FontFile2"].write(b"\0\1\0\0 and no more")
        page["/Resources"] = Dictionary(Font=Dictionary(F=font))

    assert make_printable_pages(make_pdf(b"BT /F 90 Tf 100 400 Td (ab) Tj ET", change=change)).count == 1
