"""Art that comes in as PDFs: what stays behind, what is refused and why; and art whose bytes are damaged."""

import io
import struct
import zlib
from typing import Any

import pikepdf
import pytest
from benchmarks.hostile import files, pdfs
from hypothesis import given, settings
from hypothesis import strategies as st
from pikepdf import Array, Dictionary, Name, ObjectStreamMode, String
from PIL import Image, PngImagePlugin

from quillpost.rendering.images.models import ObjectList, read_picture
from quillpost.rendering.images.objects import copy_page_forms
from quillpost.rendering.images.pdfs import make_printable_pages
from quillpost.rendering.images.pictures import make_printable_picture
from quillpost.rendering.images.rules import UnprintableImage, UnprintablePdf
from support.images import QUARTERS, page_picture, png_chunk, saved, srgb_profile
from support.pdf_files import (
    TRIANGLE,
    composed,
    difference,
    drawing,
    embedded_font,
    helvetica,
    image,
    make_pdf,
    notes_on,
    shown,
    with_resources,
)

READABLE = {"object_stream_mode": ObjectStreamMode.disable}


def test_scripts_actions_attachments_and_metadata_stay_behind() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        script = Dictionary(S=Name.JavaScript, JS=String("app.alert('evil')"))
        file = pdf.make_stream(b"evil")
        pdf.Root["/OpenAction"] = script
        pdf.Root["/Names"] = Dictionary(
            JavaScript=Dictionary(Names=[String("x"), script]),
            EmbeddedFiles=Dictionary(Names=[String("x"), Dictionary(EF=Dictionary(F=file))]),
        )
        pdf.Root["/Metadata"] = pdf.make_stream(b"<evil/>", Type=Name.Metadata, Subtype=Name.XML)
        pdf.docinfo["/Title"] = "evil"
        page["/AA"] = Dictionary(O=script)
        page["/Annots"] = Array([Dictionary(Type=Name.Annot, Subtype=Name.Link, Rect=[0, 0, 9, 9], A=script)])
        page["/PieceInfo"] = Dictionary(Evil=Dictionary(Private=script))
        form = drawing(pdf, TRIANGLE, Metadata=file, PieceInfo=script, OC=script, Ref=Dictionary(F=file), OPI=script)
        page["/Resources"] = Dictionary(XObject=Dictionary(P=form, Hidden=drawing(pdf, b"(evil) Tj")))

    data = make_pdf(b"/P Do", change=change, compress_streams=False, **READABLE)
    assert b"evil" in data
    made = make_printable_pages(data)
    assert made.notes == ("Scripts and actions in the PDF were left out.", "Files attached to the PDF were left out.")
    with pikepdf.open(io.BytesIO(composed(made.data))) as pdf:
        everything = b"".join(
            thing.unparse(resolved=True) + (thing.read_bytes() if isinstance(thing, pikepdf.Stream) else b"")
            for thing in pdf.objects
            if isinstance(thing, pikepdf.Object) and thing.get("/Type") != "/ObjStm"
        )
    assert b"l f 0 0 1 RG" in everything
    for word in (b"evil", b"JavaScript", b"/JS", b"/AA", b"/EF", b"/PieceInfo", b"/Metadata", b"/OPI", b"/Ref"):
        assert word not in everything


def test_form_fields_are_flattened_and_a_comment_that_is_not_meant_for_print_is_not_printed() -> None:
    def fill(pdf: pikepdf.Pdf, page: Any) -> None:
        look = drawing(pdf, b"0 0 1 rg 0 0 100 100 re f")
        look["/BBox"] = Array([0, 0, 100, 100])
        field = Dictionary(Type=Name.Annot, Subtype=Name.Widget, FT=Name.Btn, T=String("x"), F=4)
        field["/Rect"], field["/AP"] = Array([100, 100, 200, 200]), Dictionary(N=look)
        page["/Annots"] = Array([pdf.make_indirect(field)])
        pdf.Root["/AcroForm"] = Dictionary(Fields=page["/Annots"], XFA=pdf.make_stream(b"<evil/>"))

    data = make_pdf(b"", change=fill)
    assert notes_on(data) == ("Form fields were flattened: they print as they are filled in.",)
    assert shown(data).getpixel((150, 792 - 150)) == (0, 0, 255)

    def comment(pdf: pikepdf.Pdf, page: Any) -> None:
        look = Dictionary(N=drawing(pdf, b"0 0 1 rg 0 0 612 792 re f"))
        stamp = Dictionary(Type=Name.Annot, Subtype=Name.Stamp, F=0, Rect=[0, 0, 612, 792], AP=look)
        page["/Annots"] = Array([stamp])

    data = make_pdf(b"", change=comment)
    assert notes_on(data) == ("Comments were flattened: those that are meant for print are printed.",)
    assert shown(data).getextrema() == ((255, 255),) * 3


def test_a_lock_without_a_password_a_wrong_table_and_a_drawing_inside_itself_are_no_reason_to_refuse() -> None:
    data = make_pdf(encryption=pikepdf.Encryption(owner="o", user=""))
    made = make_printable_pages(data)
    assert made.notes == ("The PDF was protected against changes; it is printed as it is.",)
    assert b"/Encrypt" not in made.data
    assert difference(shown(data), page_picture(make_pdf())) == 0
    whole = make_pdf(**READABLE)
    damaged = whole[: whole.rindex(b"startxref")] + b"startxref\n7\n%%EOF\n"
    assert notes_on(damaged) == ("The PDF was damaged and has been repaired: look at the proof before you print.",)
    assert difference(shown(damaged), page_picture(whole)) == 0

    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        form = drawing(pdf, TRIANGLE + b"/P Do", Resources=Dictionary(XObject=Dictionary()))
        form["/Resources"]["/XObject"]["/P"] = form
        page["/Resources"] = Dictionary(XObject=Dictionary(P=form))

    assert shown(make_pdf(b"/P Do", change=change)).getpixel((300, 500)) == (255, 0, 0)


def circular(pdf: pikepdf.Pdf, page: Any) -> None:
    pages: Any = pdf.Root["/Pages"]
    pages["/Kids"] = Array([pages, pages])


def deep_form(pdf: pikepdf.Pdf) -> dict[str, Any]:
    form = drawing(pdf, TRIANGLE)
    for _ in range(50):
        form = drawing(pdf, b"/P Do", Resources=Dictionary(XObject=Dictionary(P=form)))
    return {"XObject": Dictionary(P=form)}


def packed_bomb() -> bytes:
    """Objects in a stream that inflates to far too much."""
    deflated = zlib.compress(bytes(320_000_000), 1)
    head = b"%PDF-1.5\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    entries = b"/Type/ObjStm/N 1/First 10/Filter/FlateDecode/Length %d" % len(deflated)
    pack = b"3 0 obj<<%b>>stream\n%b\nendstream endobj\n" % (entries, deflated)
    table = len(head) + len(pack)
    places = ((0, 0, 65535), (1, 9, 0), (2, 3, 0), (1, len(head), 0), (1, table, 0))
    rows = b"".join(struct.pack(">BIH", *place) for place in places)
    xref = b"4 0 obj<</Type/XRef/Size 5/W[1 4 2]/Root 1 0 R/Length %d>>stream\n%b\nendstream endobj\n"
    return head + pack + xref % (len(rows), rows) + b"startxref\n%d\n%%%%EOF\n" % table


def test_what_is_no_pdf_or_no_sound_one_is_refused_with_the_reason(subtests: pytest.Subtests) -> None:
    three = make_pdf(pages=3, **READABLE)
    arrays = b"/Deep " + b"[" * 10_000 + b"]" * 10_000
    heap = b"".join(b"%d 0 obj<<>>endobj\n" % number for number in range(1, 200_002))
    vast = with_resources(lambda pdf: {"XObject": Dictionary(I=image(pdf, b"", 60_000, 60_000))})
    cases: dict[str, tuple[bytes, str]] = {
        "empty": (b"", "not a single byte"),
        "HTML": (b"<!DOCTYPE html><title>Not found</title>", "it is an HTML page"),
        "JPEG": (saved(QUARTERS, "JPEG"), "it is a JPEG picture"),
        "ZIP": (b"PK\x03\x04", "a ZIP archive or an Office document"),
        "large": (b"%PDF-1.7\n" + bytes(40_000_000), "larger than 40 MB"),
        "hollow": (b"%PDF-1.7\nstartxref\n0\n%%EOF", "damaged"),
        "disguised": (b"%PDF-1.7\n<html>startxref", "damaged"),
        "torn": (three[: len(three) // 2], "its end is missing"),
        "locked": (make_pdf(encryption=pikepdf.Encryption(owner="o", user="u")), "needs a password"),
        "61 pages": (make_pdf(pages=61), "has 61 pages; 1 to 60"),
        "no pages": (make_pdf(change=lambda pdf, page: pdf.pages.__delitem__(0)), "has no pages"),
        "lost pages": (three.replace(b"/Count 3", b"/Count 4", 1), "promises 4 pages and has 3"),
        "pages in circles": (make_pdf(change=circular), r"."),
        "deep drawings": (make_pdf(b"/P Do", change=with_resources(deep_form)), "nested too deeply"),
        "deep arrays": (make_pdf(**READABLE).replace(b"/Type /Page ", arrays + b"/Type /Page ", 1), r"."),
        "vast drawing": (make_pdf(b"0 0 1 1 re f " * 5_000_000), "larger than 50 MB"),
        "vast picture": (make_pdf(b"/I Do", change=vast), "60000 x 60000 pixels"),
        "heap of objects": (b"%PDF-1.4\n" + heap + b"startxref\n0\n%%EOF", "more than 200,000 objects"),
        "packed objects": (packed_bomb(), "damaged or too complex"),
    }
    assert make_printable_pages(make_pdf(pages=60)).count == 60
    for name, (data, reason) in cases.items():
        with subtests.test(name), pytest.raises(UnprintablePdf, match=reason):
            make_printable_pages(data)


def is_taken(pdf: bytes) -> bool:
    try:
        make_printable_pages(pdf)
    except UnprintablePdf as refused:
        if "draws too much" in refused.message:
            return False
        raise
    return True


def test_everything_counts_as_often_as_it_is_drawn(subtests: pytest.Subtests) -> None:
    state = b"<</Type/ExtGState/SMask<</S/Luminosity/G 6 0 R>>>>"
    group = pdfs.form(b"0 0 m 9 9 l S " * 1_000, entries="/Group<</S/Transparency/CS/DeviceGray>>")
    lines = b"0 0 m 9 9 l S " * 2_000

    def masked(content: bytes) -> bytes:
        return pdfs.one_page(content, "<</ExtGState<</G 5 0 R>>>>", [state, group])

    cases: dict[str, tuple[list[bytes], list[bytes]]] = {
        "forms": ([files.nested_forms(depth=n) for n in (1, 4)], [files.nested_forms(depth=n) for n in (6, 12)]),
        "patterns": ([files.nested_patterns(depth=2)], [files.nested_patterns(depth=8)]),
        "letters that are drawings": ([files.drawn_letters(depth=1)], [files.drawn_letters(depth=3)]),
        "masks": ([files.soft_masks(depth=2)], [files.soft_masks(depth=6)]),
        "a mask in force": ([masked(b"q /G gs 0 0 9 9 re f Q " + lines)], [masked(b"/G gs " + lines)]),
        "shadings": ([files.many_shadings(5_000)], [files.many_shadings(20_000)]),
        "many honest lines": ([pdfs.one_page(b"10 10 m 99 99 l S\n" * 100_000)], []),
    }
    for name, (taken, refused) in cases.items():
        with subtests.test(name):
            assert [is_taken(pdf) for pdf in taken + refused] == [True] * len(taken) + [False] * len(refused)


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
def test_damaged_pictures_print_or_are_refused(file_format: str, mode: str, data: st.DataObject, repair: bool) -> None:
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
