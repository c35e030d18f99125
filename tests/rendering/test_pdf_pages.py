"""PDFs that come in: how their pages land on letter sheets, what stays behind, what is refused and why."""

import io
import struct
import zlib
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pikepdf
import pypdfium2 as pdfium
import pytest
from pikepdf import Array, Dictionary, Name, String
from PIL import Image

from quillpost.rendering.images.models import ObjectList
from quillpost.rendering.images.objects import copy_page_forms
from quillpost.rendering.images.pdfs import make_printable_pages
from quillpost.rendering.images.rules import UnprintablePdf
from quillpost.rendering.pdf.color import SRGB, OutputIntent, default_color_spaces
from quillpost.rendering.pdf.files import PdfFile, PrintMetadata
from support.images import QUARTERS, cmyk_profile, page_picture, saved
from support.pdf_files import TRIANGLE, Change, drawing, embedded_font, helvetica, image, make_pdf
from support.pdfx_checks import find_errors

REDRAWN = "Page 1: redrawn as a picture of 300 dpi because of "


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


def difference(one: Image.Image, other: Image.Image) -> float:
    assert one.size == other.size
    return float(np.abs(np.asarray(one).astype(int) - np.asarray(other).astype(int)).mean())


def with_resources(**resources: Any) -> Change:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        made = {name: make(pdf) if callable(make) else make for name, make in resources.items()}
        page["/Resources"] = Dictionary(**made)

    return change


def with_font(pdf: pikepdf.Pdf, page: Any) -> None:
    page["/Resources"] = Dictionary(Font=Dictionary(F=embedded_font(pdf)))


def entries(**values: Any) -> Change:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        for name, value in values.items():
            page[f"/{name}"] = value

    return change


# Pages that pass


def test_a_letter_page_is_drawn_as_it_was() -> None:
    data = make_pdf()
    assert make_printable_pages(data).notes == ()
    assert difference(shown(data), page_picture(data)) == 0


def test_words_stay_words() -> None:
    data = make_pdf(b"BT /F 90 Tf 100 400 Td (abba) Tj ET", change=with_font)
    made = make_printable_pages(data)
    assert made.notes == ()
    assert difference(shown(data), page_picture(data)) < 0.01
    with pdfium.PdfDocument(composed(made.data)) as document:
        assert document[0].get_textpage().get_text_bounded() == "abba"


@pytest.mark.parametrize(
    "content",
    [
        b"/P Do",
        b"q 300 0 0 300 50 50 cm /I Do Q",
        b"/G gs 1 0 0 rg 0 0 400 400 re f 0 1 0 rg 200 200 400 400 re f",
        b"/Pattern cs /T scn 0 0 612 792 re f",
        b"/U cs 1 0 0 /T scn 0 0 612 792 re f",
        b"/S sh",
        b"/C cs 0.3 0.6 0.9 scn 0 0 300 300 re f",
        b"q 100 0 0 100 50 50 cm BI /W 2 /H 2 /CS /RGB /BPC 8 ID 012345678901 EI Q",
        b"/OC /L BDC 1 0 0 rg 0 0 400 400 re f EMC",
    ],
    ids=["form", "image", "transparency", "pattern", "tinted pattern", "shading", "calibrated", "inline", "layer"],
)
def test_whatever_a_page_draws_with_comes_along(content: bytes) -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        tile = pdf.make_stream(
            b"1 0 0 rg 0 0 10 10 re f",
            PatternType=1,
            PaintType=1,
            TilingType=1,
            BBox=Array([0, 0, 20, 20]),
            XStep=20,
            YStep=20,
            Resources=Dictionary(),
        )
        blend = Dictionary(FunctionType=2, Domain=[0, 1], C0=[1, 0, 0], C1=[0, 0, 1], N=1)
        shading = Dictionary(
            ShadingType=2, ColorSpace=Name.DeviceRGB, Coords=[0, 0, 612, 792], Function=blend, Extend=[True, True]
        )
        calibrated = Array([Name.CalRGB, Dictionary(WhitePoint=[0.95, 1, 1.09], Gamma=[2.2, 2.2, 2.2])])
        page["/Resources"] = Dictionary(
            XObject=Dictionary(
                P=drawing(pdf, TRIANGLE), I=image(pdf, saved(QUARTERS, "JPEG"), 60, 40, Filter=Name.DCTDecode)
            ),
            ExtGState=Dictionary(G=Dictionary(ca=0.5, BM=Name.Multiply)),
            Pattern=Dictionary(T=tile),
            Shading=Dictionary(S=shading),
            ColorSpace=Dictionary(C=calibrated, U=Array([Name.Pattern, Name.DeviceRGB])),
            Properties=Dictionary(L=pdf.make_indirect(Dictionary(Type=Name.OCG, Name=String("Layer")))),
        )

    data = make_pdf(content, change=change)
    assert make_printable_pages(data).notes == ()
    picture = page_picture(data)
    assert picture.convert("L").getextrema() != (255, 255)
    assert difference(shown(data), picture) < 0.01


def test_a_form_without_resources_uses_its_pages() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        form = drawing(pdf, b"BT /F 90 Tf 100 400 Td (ab) Tj ET")
        page["/Resources"] = Dictionary(XObject=Dictionary(P=form), Font=Dictionary(F=embedded_font(pdf)))

    data = make_pdf(b"/P Do", change=change)
    assert difference(shown(data), page_picture(data)) < 0.01


def test_a_font_of_drawn_letters_comes_along() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        font = Dictionary(
            Type=Name.Font,
            Subtype=Name.Type3,
            FontBBox=[0, 0, 1000, 1000],
            FontMatrix=[0.001, 0, 0, 0.001, 0, 0],
            CharProcs=Dictionary(AA=pdf.make_stream(b"1000 0 0 0 1000 1000 d1 0 0 800 800 re f")),
            Encoding=Dictionary(Differences=[97, Name.AA]),
            FirstChar=97,
            LastChar=97,
            Widths=[1000],
        )
        page["/Resources"] = Dictionary(Font=Dictionary(F=font))

    data = make_pdf(b"BT /F 90 Tf 100 400 Td (aa) Tj ET", change=change)
    assert make_printable_pages(data).notes == ()
    assert shown(data).getpixel((120, 380)) == (0, 0, 0)


def test_what_pages_share_is_copied_once() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        noise = np.random.default_rng(1).integers(0, 255, (100, 100, 3), dtype=np.uint8)
        shared = image(pdf, noise.tobytes(), 100, 100)
        for each in pdf.pages:
            each.obj["/Resources"] = Dictionary(XObject=Dictionary(I=shared))

    made = make_printable_pages(make_pdf(b"q 99 0 0 99 9 9 cm /I Do Q", change=change, pages=5))
    assert made.count == 5
    assert len(made.data) < 40_000
    assert len(composed(made.data)) < 40_000


def test_default_colours_reach_everything_that_is_drawn() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        page["/Resources"] = Dictionary(XObject=Dictionary(P=drawing(pdf, TRIANGLE)))

    pages = make_printable_pages(make_pdf(b"/P Do", change=change)).data
    spaces = b"/DefaultRGB[/CalRGB<</WhitePoint[.95 1 1.09]>>]"
    with pikepdf.open(io.BytesIO(composed(pages, default_spaces=spaces))) as pdf:
        forms: list[Any] = [
            thing for thing in pdf.objects if isinstance(thing, pikepdf.Stream) and "/Resources" in thing
        ]
        assert len(forms) == 3
        assert all("/DefaultRGB" in form["/Resources"]["/ColorSpace"] for form in forms)


def test_the_same_pdf_gives_the_same_bytes() -> None:
    for data in (make_pdf(), make_pdf(b"1 1 0 0 k 0 0 99 99 re f")):
        assert make_printable_pages(data) == make_printable_pages(data)
        assert composed(make_printable_pages(data).data) == composed(make_printable_pages(data).data)


def test_the_result_is_plain_letter_pages() -> None:
    data = make_pdf(TRIANGLE, (595, 842), entries(Rotate=180), pages=3, min_version="2.0")
    with pikepdf.open(io.BytesIO(make_printable_pages(data).data)) as pdf:
        assert pdf.pdf_version == "1.6"
        assert set(pdf.Root.keys()) == {"/Type", "/Pages"}
        assert "/Info" not in pdf.trailer
        for page in pdf.pages:
            assert list(page.obj["/MediaBox"]) == list(page.obj["/TrimBox"]) == [0, 0, 612, 792]
            assert "/Rotate" not in page.obj


@pytest.mark.parametrize("components", [3, 4])
@pytest.mark.parametrize(
    "content",
    [TRIANGLE, b"BT /F 90 Tf 100 400 Td (abba) Tj ET", b"0 0 0 1 k 0 0 9 9 re f", b"1 0 0 0 k 0 0 9 9 re f"],
    ids=["drawing", "words", "black", "redrawn"],
)
def test_imported_pages_are_ready_for_print(content: bytes, components: int) -> None:
    intent = SRGB if components == 3 else OutputIntent(cmyk_profile([(255, 128, 128)] * 16), 4, "Press")
    pdf = PdfFile(PrintMetadata("Batch", datetime(2026, 5, 4, tzinfo=UTC), intent))
    spaces = default_color_spaces(pdf, intent)
    pdf.begin_part(b"1")
    pages = make_printable_pages(make_pdf(content, change=with_font)).data
    for form in copied_forms(pdf, pages, default_spaces=spaces):
        boxes = b"/MediaBox[0 0 612 792]/BleedBox[0 0 612 792]/TrimBox[0 0 612 792]"
        resources = b"/Resources<</XObject<</F %d 0 R>>/ColorSpace<<%b>>>>" % (form, spaces)
        pdf.add_page(boxes + resources, [pdf.add_stream(b"/F Do")])
    assert find_errors(pdf.finish()) == []


# Sizes, boxes and turns


@pytest.mark.parametrize("rotate", [90, 270, -90, 450])
def test_a_page_turned_upright_by_its_viewer_is_turned_in_print(rotate: int) -> None:
    data = make_pdf(b"1 0 0 rg 0 0 100 200 re f", (792, 612), entries(Rotate=rotate))
    made = make_printable_pages(data)
    assert made.notes == ()
    assert difference(shown(data), page_picture(data)) < 0.01


def test_a_page_that_lies_is_printed_along_the_sheet() -> None:
    data = make_pdf(b"1 0 0 rg 0 0 100 200 re f", (792, 612))
    assert make_printable_pages(data).notes == ("Page 1: 11 x 8.5 in, turned to lie along the sheet.",)
    turned = page_picture(data).transpose(Image.Transpose.ROTATE_90)
    assert difference(shown(data), turned) < 0.01


@pytest.mark.parametrize(
    ("size", "words"),
    [((595.28, 841.89), "8.27 x 11.69 in"), ((306, 396), "4.25 x 5.5 in"), ((1224, 1584), "17 x 22 in")],
)
def test_another_size_is_scaled_to_fit_and_centred(size: tuple[float, float], words: str) -> None:
    data = make_pdf(b"0 0 %d %d re f" % (size[0] + 1, size[1] + 1), size)
    assert make_printable_pages(data).notes == (f"Page 1: {words}, scaled to fit 8.5 x 11 in.",)
    box = Image.eval(shown(data).convert("L"), lambda grey: 255 - grey).getbbox()
    assert box is not None
    left, top, right, bottom = box
    assert abs(left - (612 - right)) <= 1
    assert abs(top - (792 - bottom)) <= 1
    assert right - left >= 611 or bottom - top >= 791


def test_a_page_a_hair_off_is_not_scaled() -> None:
    assert make_printable_pages(make_pdf(size=(610, 789.3))).notes == ()


def test_a_note_on_many_pages_is_one() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        pdf.pages[3].obj["/MediaBox"] = Array([0, 0, 612, 792])

    made = make_printable_pages(make_pdf(size=(595.28, 841.89), change=change, pages=6))
    assert made.notes == ("Pages 1-3, 5-6: 8.27 x 11.69 in, scaled to fit 8.5 x 11 in.",)


@pytest.mark.parametrize("box", ["CropBox", "TrimBox"])
def test_only_the_visible_part_is_printed(box: str) -> None:
    change = entries(**{box: Array([50, 60, 662, 852])})
    data = make_pdf(b"1 0 0 rg 0 0 60 70 re f 0 0 1 rg 662 852 99 99 re f", (800, 1000), change)
    assert make_printable_pages(data).notes == ()
    picture = shown(data)
    assert picture.getpixel((5, 786)) == (255, 0, 0)
    assert picture.getpixel((15, 786)) == (255, 255, 255)
    assert (0, 0, 255) not in set(picture.get_flattened_data())


def test_a_unit_of_its_own_is_honoured() -> None:
    data = make_pdf(b"1 0 0 rg 0 0 10 10 re f", (306, 396), entries(UserUnit=2))
    assert make_printable_pages(data).notes == ()
    assert shown(data).getpixel((19, 792 - 19)) == (255, 0, 0)


@pytest.mark.parametrize("box", [Array([0, 0, 0, 792]), Array([0, 0, 1e9, 1e9])])
def test_a_page_without_a_sensible_size_is_refused(box: Any) -> None:
    with pytest.raises(UnprintablePdf, match="Page 1 of the PDF has no size"):
        make_printable_pages(make_pdf(change=entries(MediaBox=box)))


# Pages that are redrawn


def test_a_font_that_is_not_embedded_makes_a_picture_of_its_page() -> None:
    change = with_resources(Font=lambda pdf: Dictionary(F=helvetica()))
    data = make_pdf(b"BT /F 90 Tf 100 400 Td (Hello) Tj ET", change=change, pages=2)
    made = make_printable_pages(data)
    assert made.notes == (REDRAWN + "the font Helvetica, which is not embedded.",)
    assert difference(shown(data), page_picture(data)) < 1


def test_a_font_that_is_only_listed_is_no_reason() -> None:
    change = with_resources(Font=lambda pdf: Dictionary(F=helvetica()))
    assert make_printable_pages(make_pdf(TRIANGLE, change=change)).notes == ()


def test_a_font_inside_a_drawing_is_found() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        inner = drawing(pdf, b"BT /F 9 Tf (a) Tj ET", Resources=Dictionary(Font=Dictionary(F=helvetica())))
        outer = drawing(pdf, b"/P Do", Resources=Dictionary(XObject=Dictionary(P=inner)))
        page["/Resources"] = Dictionary(XObject=Dictionary(P=outer))

    assert "Helvetica, which is not embedded" in make_printable_pages(make_pdf(b"/P Do", change=change)).notes[0]


SEPARATION = Array([Name.Separation, Name.Gold, Name.DeviceCMYK, Dictionary(FunctionType=2, N=1)])


@pytest.mark.parametrize(
    ("content", "resources"),
    [
        (b"1 0 0 0 k 0 0 99 99 re f", {}),
        (b"0 0 0 1 k 0 1 0 0 K 0 0 99 99 re S", {}),
        (b"0 0 0 1 k 0 0 1 0 sc 0 0 99 99 re f", {}),
        (b"/DeviceCMYK cs 0 0 0 1 scn 0 0 99 99 re f", {}),
        (b"/C cs 1 scn 0 0 99 99 re f", {"ColorSpace": Dictionary(C=SEPARATION)}),
        (b"BI /W 1 /H 1 /CS /CMYK /BPC 8 ID 0123 EI", {}),
        (b"/I Do", {"XObject": lambda pdf: Dictionary(I=image(pdf, bytes(4), 1, 1, ColorSpace=Name.DeviceCMYK))}),
        (
            b"/S sh",
            {"Shading": Dictionary(S=Dictionary(ShadingType=2, ColorSpace=Name.DeviceCMYK, Coords=[0, 0, 9, 9]))},
        ),
    ],
    ids=["fill", "stroke", "set", "space", "spot", "inline", "image", "shading"],
)
def test_cmyk_makes_a_picture_of_its_page(content: bytes, resources: dict[str, Any]) -> None:
    made = make_printable_pages(make_pdf(content, change=with_resources(**resources)))
    assert made.notes == (REDRAWN + "CMYK colors.",)


def test_black_ink_alone_is_grey_and_no_reason() -> None:
    data = make_pdf(b"(k) pop 0 0 0 1 k 0 0 99 99 re f 0 0 0 0.5 K 9 w 200 200 99 99 re S")
    made = make_printable_pages(data)
    assert made.notes == ()
    grey = make_pdf(b"0 g 0 0 99 99 re f 0.5 G 9 w 200 200 99 99 re S")
    assert difference(shown(data), page_picture(grey)) == 0


def test_only_the_page_that_needs_it_is_redrawn() -> None:
    data = make_pdf(b"1 1 0 0 k 0 0 99 99 re f", pages=1)
    with pikepdf.open(io.BytesIO(make_pdf())) as pdf, pikepdf.open(io.BytesIO(data)) as other:
        pdf.pages.append(other.pages[0])
        file = io.BytesIO()
        pdf.save(file)
    made = make_printable_pages(file.getvalue())
    assert [note[:7] for note in made.notes] == ["Page 2:"]
    assert b"DCTDecode" not in made.data[: made.data.index(b"stream")]


@pytest.mark.parametrize("turned", [0, 90])
def test_a_redrawn_page_has_its_place_and_size(turned: int) -> None:
    content = b"1 0 0 rg 50 60 100 100 re f 0 1 0 0 k 0 0 0 1 k 400 100 50 20 re f"
    change = entries(Rotate=turned, CropBox=Array([50, 60, 662, 852]))
    data = make_pdf(content, (800, 1000), change)
    made = make_printable_pages(data)
    assert made.notes[-1] == REDRAWN + "CMYK colors."
    plain = make_pdf(content.replace(b"0 1 0 0 k 0 0 0 1 k", b"0 g"), (800, 1000), change)
    assert difference(shown(data), shown(plain)) < 0.5


def test_layers_that_are_switched_off_are_not_printed() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        layer = pdf.make_indirect(Dictionary(Type=Name.OCG, Name=String("Secret")))
        pdf.Root["/OCProperties"] = Dictionary(
            OCGs=Array([layer]), D=Dictionary(OFF=Array([layer]), Order=Array([layer]))
        )
        page["/Resources"] = Dictionary(Properties=Dictionary(L=layer))

    data = make_pdf(b"/OC /L BDC 1 0 0 rg 0 0 612 792 re f EMC 0 0 1 rg 0 0 99 99 re f", change=change)
    assert make_printable_pages(data).notes == (REDRAWN + "layers that are switched off.",)
    picture = shown(data)
    assert picture.getpixel((300, 300)) == (255, 255, 255)
    colour = picture.getpixel((50, 750))
    assert isinstance(colour, tuple)
    assert colour[2] > 240 > 30 > colour[0]


def test_a_hidden_drawing_that_pages_share_is_on_none_of_them() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        layer = pdf.make_indirect(Dictionary(Type=Name.OCG, Name=String("Secret")))
        pdf.Root["/OCProperties"] = Dictionary(OCGs=Array([layer]), D=Dictionary(OFF=Array([layer])))
        hidden = drawing(pdf, b"1 0 0 rg 0 0 612 792 re f", OC=layer)
        for each in pdf.pages:
            each.obj["/Resources"] = Dictionary(XObject=Dictionary(P=hidden))

    data = make_pdf(b"/P Do", change=change, pages=2)
    for number in range(2):
        assert shown(data, number).getextrema() == ((255, 255),) * 3


def test_postscript_is_not_passed_on() -> None:
    change = with_resources(XObject=lambda pdf: Dictionary(P=pdf.make_stream(b"showpage", Subtype=Name.PS)))
    assert make_printable_pages(make_pdf(b"/P Do", change=change)).notes == (REDRAWN + "PostScript.",)


def test_a_jpeg_inside_that_is_not_as_large_as_it_says_makes_a_picture_of_its_page() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        mislabeled = image(pdf, saved(QUARTERS, "JPEG"), 600, 400, Filter=Name.DCTDecode)
        page["/Resources"] = Dictionary(XObject=Dictionary(I=mislabeled))

    assert make_printable_pages(make_pdf(b"/I Do", change=change)).notes == (REDRAWN + "a damaged picture.",)


# What stays behind


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

    data = make_pdf(
        b"/P Do", change=change, compress_streams=False, object_stream_mode=pikepdf.ObjectStreamMode.disable
    )
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


def test_form_fields_are_flattened() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        look = drawing(pdf, b"0 0 1 rg 0 0 100 100 re f")
        look["/BBox"] = Array([0, 0, 100, 100])
        field = pdf.make_indirect(
            Dictionary(
                Type=Name.Annot,
                Subtype=Name.Widget,
                FT=Name.Btn,
                T=String("x"),
                F=4,
                Rect=[100, 100, 200, 200],
                AP=Dictionary(N=look),
            )
        )
        page["/Annots"] = Array([field])
        pdf.Root["/AcroForm"] = Dictionary(Fields=Array([field]), XFA=pdf.make_stream(b"<evil/>"))

    data = make_pdf(b"", change=change)
    assert make_printable_pages(data).notes == ("Form fields were flattened: they print as they are filled in.",)
    assert shown(data).getpixel((150, 792 - 150)) == (0, 0, 255)


def test_a_comment_that_is_not_meant_for_print_is_not_printed() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        look = drawing(pdf, b"0 0 1 rg 0 0 612 792 re f")
        page["/Annots"] = Array(
            [Dictionary(Type=Name.Annot, Subtype=Name.Stamp, F=0, Rect=[0, 0, 612, 792], AP=Dictionary(N=look))]
        )

    data = make_pdf(b"", change=change)
    assert make_printable_pages(data).notes == ("Comments were flattened: those that are meant for print are printed.",)
    assert shown(data).getextrema() == ((255, 255),) * 3


# Locks


def test_a_pdf_with_a_password_is_refused_as_such() -> None:
    with pytest.raises(UnprintablePdf, match="needs a password"):
        make_printable_pages(make_pdf(encryption=pikepdf.Encryption(owner="o", user="u")))


def test_a_lock_that_opens_without_a_password_is_taken_off() -> None:
    data = make_pdf(encryption=pikepdf.Encryption(owner="o", user=""))
    made = make_printable_pages(data)
    assert made.notes == ("The PDF was protected against changes; it is printed as it is.",)
    assert b"/Encrypt" not in made.data
    assert difference(shown(data), page_picture(make_pdf())) == 0


# What is refused


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a single byte"),
        (b"<!DOCTYPE html><title>Not found</title>", "it is an HTML page"),
        (saved(QUARTERS, "JPEG"), "it is a JPEG picture"),
        (b"PK\x03\x04", "a ZIP archive or an Office document"),
        (b"%PDF-1.7\n" + bytes(40_000_000), "larger than 40 MB"),
        (b"%PDF-1.7\nstartxref\n0\n%%EOF", "damaged"),
        (b"%PDF-1.7\n<html>startxref", "damaged"),
    ],
    ids=["empty", "html", "jpeg", "zip", "large", "hollow", "disguised"],
)
def test_what_is_no_pdf_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(UnprintablePdf, match=reason):
        make_printable_pages(data)


def test_a_torn_pdf_is_refused() -> None:
    whole = make_pdf(pages=3)
    with pytest.raises(UnprintablePdf, match="its end is missing"):
        make_printable_pages(whole[: len(whole) // 2])


def test_too_many_pages_are_refused_and_none_as_well() -> None:
    assert make_printable_pages(make_pdf(pages=60)).count == 60
    with pytest.raises(UnprintablePdf, match="has 61 pages; 1 to 60"):
        make_printable_pages(make_pdf(pages=61))
    with pytest.raises(UnprintablePdf, match="has no pages"):
        make_printable_pages(make_pdf(change=lambda pdf, page: pdf.pages.__delitem__(0)))


def test_a_table_of_contents_that_is_wrong_is_repaired_with_a_note() -> None:
    whole = make_pdf(object_stream_mode=pikepdf.ObjectStreamMode.disable)
    start = whole.rindex(b"startxref")
    damaged = whole[:start] + b"startxref\n7\n%%EOF\n"
    made = make_printable_pages(damaged)
    assert made.notes == ("The PDF was damaged and has been repaired: look at the proof before you print.",)
    assert difference(shown(damaged), page_picture(whole)) == 0


def test_pages_lost_by_damage_are_not_passed_over() -> None:
    whole = make_pdf(pages=3, object_stream_mode=pikepdf.ObjectStreamMode.disable)
    with pytest.raises(UnprintablePdf, match="promises 4 pages and has 3"):
        make_printable_pages(whole.replace(b"/Count 3", b"/Count 4", 1))


def test_a_page_tree_that_runs_in_circles_is_refused() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        pages: Any = pdf.Root["/Pages"]
        pages["/Kids"] = Array([pages, pages])

    with pytest.raises(UnprintablePdf):
        make_printable_pages(make_pdf(change=change))


def test_a_drawing_inside_itself_is_printed_without_end_or_refused() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        form = drawing(pdf, TRIANGLE + b"/P Do", Resources=Dictionary(XObject=Dictionary()))
        form["/Resources"]["/XObject"]["/P"] = form
        page["/Resources"] = Dictionary(XObject=Dictionary(P=form))

    made = make_printable_pages(make_pdf(b"/P Do", change=change))
    assert page_picture(composed(made.data)).getpixel((300, 500)) == (255, 0, 0)


def test_drawings_nested_too_deeply_are_refused() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        form = drawing(pdf, TRIANGLE)
        for _ in range(50):
            form = drawing(pdf, b"/P Do", Resources=Dictionary(XObject=Dictionary(P=form)))
        page["/Resources"] = Dictionary(XObject=Dictionary(P=form))

    with pytest.raises(UnprintablePdf, match="nested too deeply"):
        make_printable_pages(make_pdf(b"/P Do", change=change))


def test_arrays_nested_too_deeply_are_refused() -> None:
    whole = make_pdf(object_stream_mode=pikepdf.ObjectStreamMode.disable)
    deep = b"/Deep " + b"[" * 10_000 + b"]" * 10_000
    with pytest.raises(UnprintablePdf):
        make_printable_pages(whole.replace(b"/Type /Page ", deep + b"/Type /Page ", 1))


def test_a_drawing_that_inflates_to_far_too_much_is_refused() -> None:
    with pytest.raises(UnprintablePdf, match="larger than 50 MB"):
        make_printable_pages(make_pdf(b"0 0 1 1 re f " * 5_000_000))


def test_a_picture_that_inflates_to_far_too_much_is_refused() -> None:
    vast = with_resources(XObject=lambda pdf: Dictionary(I=image(pdf, b"", 60_000, 60_000)))
    with pytest.raises(UnprintablePdf, match="60000 x 60000 pixels"):
        make_printable_pages(make_pdf(b"/I Do", change=vast))


def test_a_heap_of_objects_is_refused_before_it_is_read() -> None:
    heap = b"".join(b"%d 0 obj<<>>endobj\n" % number for number in range(1, 200_002))
    with pytest.raises(UnprintablePdf, match="more than 200,000 objects"):
        make_printable_pages(b"%PDF-1.4\n" + heap + b"startxref\n0\n%%EOF")


def test_packed_objects_that_inflate_to_far_too_much_are_refused() -> None:
    deflated = zlib.compress(bytes(320_000_000), 1)
    head = b"%PDF-1.5\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    entries = b"/Type/ObjStm/N 1/First 10/Filter/FlateDecode/Length %d" % len(deflated)
    pack = b"3 0 obj<<%b>>stream\n%b\nendstream endobj\n" % (entries, deflated)
    table = len(head) + len(pack)
    places = ((0, 0, 65535), (1, 9, 0), (2, 3, 0), (1, len(head), 0), (1, table, 0))
    rows = b"".join(struct.pack(">BIH", *place) for place in places)
    xref = b"4 0 obj<</Type/XRef/Size 5/W[1 4 2]/Root 1 0 R/Length %d>>stream\n%b\nendstream endobj\n"
    end = b"startxref\n%d\n%%%%EOF\n" % table
    with pytest.raises(UnprintablePdf, match="damaged or too complex"):
        make_printable_pages(head + pack + xref % (len(rows), rows) + end)
