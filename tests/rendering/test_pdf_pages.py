"""PDFs that come in: how their pages land on letter sheets, and which of them are redrawn and why."""

import io
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pikepdf
import pypdfium2 as pdfium
import pytest
from pikepdf import Array, Dictionary, Name, String
from PIL import Image

from quillpost.rendering.images.pdfs import make_printable_pages
from quillpost.rendering.images.rules import UnprintablePdf
from quillpost.rendering.pdf.color import SRGB, OutputIntent, default_color_spaces
from quillpost.rendering.pdf.files import PdfFile, PrintMetadata
from support.images import QUARTERS, cmyk_profile, page_picture, saved
from support.pdf_files import (
    TRIANGLE,
    composed,
    copied_forms,
    difference,
    drawing,
    embedded_font,
    helvetica,
    image,
    make_pdf,
    notes_on,
    shown,
    with_entries,
    with_font,
    with_resources,
)
from support.pdfx_checks import find_errors

REDRAWN = "Page 1: redrawn as a picture of 300 dpi because of "
WORDS = b"BT /F 90 Tf 100 400 Td (abba) Tj ET"


def all_resources(pdf: pikepdf.Pdf) -> dict[str, Any]:
    """Something of every kind that a page may draw with."""
    plain: dict[str, Any] = {"PaintType": 1, "TilingType": 1, "BBox": Array([0, 0, 20, 20]), "XStep": 20, "YStep": 20}
    tile = pdf.make_stream(b"1 0 0 rg 0 0 10 10 re f", PatternType=1, Resources=Dictionary(), **plain)
    blend = Dictionary(FunctionType=2, Domain=[0, 1], C0=[1, 0, 0], C1=[0, 0, 1], N=1)
    gradient: dict[str, Any] = {"ShadingType": 2, "Coords": [0, 0, 612, 792], "Function": blend, "Extend": [True, True]}
    drawn_letter = pdf.make_stream(b"1000 0 0 0 1000 1000 d1 0 0 800 800 re f")
    drawn: dict[str, Any] = {"Type": Name.Font, "Subtype": Name.Type3, "FontBBox": [0, 0, 1000, 1000], "Widths": [1000]}
    drawn |= {"FontMatrix": [0.001, 0, 0, 0.001, 0, 0], "CharProcs": Dictionary(AA=drawn_letter)}
    drawn |= {"Encoding": Dictionary(Differences=[97, Name.AA]), "FirstChar": 97, "LastChar": 97}
    photograph = image(pdf, saved(QUARTERS, "JPEG"), 60, 40, Filter=Name.DCTDecode)
    calibrated = Array([Name.CalRGB, Dictionary(WhitePoint=[0.95, 1, 1.09], Gamma=[2.2, 2.2, 2.2])])
    return {
        "XObject": Dictionary(P=drawing(pdf, TRIANGLE), W=drawing(pdf, WORDS), I=photograph),
        "ExtGState": Dictionary(G=Dictionary(ca=0.5, BM=Name.Multiply)),
        "Pattern": Dictionary(T=tile),
        "Shading": Dictionary(S=Dictionary(ColorSpace=Name.DeviceRGB, **gradient)),
        "ColorSpace": Dictionary(C=calibrated, U=Array([Name.Pattern, Name.DeviceRGB])),
        "Properties": Dictionary(L=pdf.make_indirect(Dictionary(Type=Name.OCG, Name=String("Layer")))),
        "Font": Dictionary(F=embedded_font(pdf), D=Dictionary(**drawn)),
    }


CONTENTS = {
    "form": b"/P Do", "form with its page's font": b"/W Do", "image": b"q 300 0 0 300 50 50 cm /I Do Q",
    "transparency": b"/G gs 1 0 0 rg 0 0 400 400 re f 0 1 0 rg 200 200 400 400 re f",
    "pattern": b"/Pattern cs /T scn 0 0 612 792 re f", "tinted pattern": b"/U cs 1 0 0 /T scn 0 0 612 792 re f",
    "shading": b"/S sh", "calibrated": b"/C cs 0.3 0.6 0.9 scn 0 0 300 300 re f",
    "inline": b"q 100 0 0 100 50 50 cm BI /W 2 /H 2 /CS /RGB /BPC 8 ID 012345678901 EI Q",
    "layer": b"/OC /L BDC 1 0 0 rg 0 0 400 400 re f EMC", "words": WORDS,
    "drawn letters": b"BT /D 90 Tf 100 400 Td (aa) Tj ET",
}  # fmt: skip


def test_whatever_a_page_draws_with_comes_along(subtests: pytest.Subtests) -> None:
    assert difference(shown(make_pdf()), page_picture(make_pdf())) == 0
    for name, content in CONTENTS.items():
        with subtests.test(name):
            data = make_pdf(content, change=with_resources(all_resources))
            assert notes_on(data) == ()
            picture = page_picture(data)
            assert picture.convert("L").getextrema() != (255, 255)
            assert difference(shown(data), picture) < 0.01
    drawn_letters = make_pdf(CONTENTS["drawn letters"], change=with_resources(all_resources))
    assert shown(drawn_letters).getpixel((120, 380)) == (0, 0, 0)


def test_words_stay_words_and_what_pages_share_is_copied_once() -> None:
    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        noise = np.random.default_rng(1).integers(0, 255, (100, 100, 3), dtype=np.uint8)
        shared = image(pdf, noise.tobytes(), 100, 100)
        for each in pdf.pages:
            each.obj["/Resources"] = Dictionary(XObject=Dictionary(I=shared))

    made = make_printable_pages(make_pdf(b"q 99 0 0 99 9 9 cm /I Do Q", change=change, pages=5))
    assert made.count == 5
    assert len(made.data) < 40_000
    assert len(composed(made.data)) < 40_000
    with pdfium.PdfDocument(composed(make_printable_pages(make_pdf(WORDS, change=with_font)).data)) as document:
        assert document[0].get_textpage().get_text_bounded() == "abba"


def test_the_result_is_the_same_plain_letter_pages_every_time() -> None:
    for again in (make_pdf(), make_pdf(b"1 1 0 0 k 0 0 99 99 re f")):
        assert make_printable_pages(again) == make_printable_pages(again)
        assert composed(make_printable_pages(again).data) == composed(make_printable_pages(again).data)
    data = make_pdf(TRIANGLE, (595, 842), with_entries(Rotate=180), pages=3, min_version="2.0")
    with pikepdf.open(io.BytesIO(make_printable_pages(data).data)) as pdf:
        assert pdf.pdf_version == "1.6"
        assert set(pdf.Root.keys()) == {"/Type", "/Pages"}
        assert "/Info" not in pdf.trailer
        for page in pdf.pages:
            assert list(page.obj["/MediaBox"]) == list(page.obj["/TrimBox"]) == [0, 0, 612, 792]
            assert "/Rotate" not in page.obj


def test_imported_pages_are_ready_for_print_and_default_colors_reach_all_drawn(subtests: pytest.Subtests) -> None:
    contents = {"drawing": TRIANGLE, "words": WORDS, "black": b"0 0 0 1 k 0 0 9 9 re f"}
    contents["redrawn"] = b"1 0 0 0 k 0 0 9 9 re f"
    boxes = b"/MediaBox[0 0 612 792]/BleedBox[0 0 612 792]/TrimBox[0 0 612 792]"
    for name, content in contents.items():
        pages = make_printable_pages(make_pdf(content, change=with_font)).data
        for intent in (SRGB, OutputIntent(cmyk_profile([(255, 128, 128)] * 16), 4, "Press")):
            with subtests.test(name, components=intent.components):
                pdf = PdfFile(PrintMetadata("Batch", datetime(2026, 5, 4, tzinfo=UTC), intent))
                spaces = default_color_spaces(pdf, intent)
                pdf.begin_part(b"1")
                for form in copied_forms(pdf, pages, default_spaces=spaces):
                    resources = b"/Resources<</XObject<</F %d 0 R>>/ColorSpace<<%b>>>>" % (form, spaces)
                    pdf.add_page(boxes + resources, [pdf.add_stream(b"/F Do")])
                assert find_errors(pdf.finish()) == []
    change = with_resources(lambda pdf: {"XObject": Dictionary(P=drawing(pdf, TRIANGLE))})
    pages = make_printable_pages(make_pdf(b"/P Do", change=change)).data
    spaces = b"/DefaultRGB[/CalRGB<</WhitePoint[.95 1 1.09]>>]"
    with pikepdf.open(io.BytesIO(composed(pages, default_spaces=spaces))) as file:
        streams = [thing for thing in file.objects if isinstance(thing, pikepdf.Stream)]
        found: list[Any] = [stream["/Resources"] for stream in streams if "/Resources" in stream]
        assert ["/DefaultRGB" in resources["/ColorSpace"] for resources in found] == [True] * 3


def test_a_page_is_turned_as_its_viewer_turns_it_or_to_lie_along_the_sheet() -> None:
    corner = b"1 0 0 rg 0 0 100 200 re f"
    for rotate in (90, 270, -90, 450):
        data = make_pdf(corner, (792, 612), with_entries(Rotate=rotate))
        assert notes_on(data) == (), rotate
        assert difference(shown(data), page_picture(data)) < 0.01, rotate
    data = make_pdf(corner, (792, 612))
    assert notes_on(data) == ("Page 1: 11 x 8.5 in, turned to lie along the sheet.",)
    assert difference(shown(data), page_picture(data).transpose(Image.Transpose.ROTATE_90)) < 0.01


def test_another_size_is_scaled_to_fit_and_centered_with_one_note_for_all_pages() -> None:
    sizes = {(595.28, 841.89): "8.27 x 11.69 in", (306, 396): "4.25 x 5.5 in", (1224, 1584): "17 x 22 in"}
    for size, words in sizes.items():
        data = make_pdf(b"0 0 %d %d re f" % (size[0] + 1, size[1] + 1), size)
        assert notes_on(data) == (f"Page 1: {words}, scaled to fit 8.5 x 11 in.",)
        left, top, right, bottom = Image.eval(shown(data).convert("L"), lambda gray: 255 - gray).getbbox() or (0,) * 4
        assert abs(left - (612 - right)) <= 1, words
        assert abs(top - (792 - bottom)) <= 1, words
        assert right - left >= 611 or bottom - top >= 791, words
    assert notes_on(make_pdf(size=(610, 789.3))) == (), "a hair off"

    def change(pdf: pikepdf.Pdf, page: Any) -> None:
        pdf.pages[3].obj["/MediaBox"] = Array([0, 0, 612, 792])

    many = make_pdf(size=(595.28, 841.89), change=change, pages=6)
    assert notes_on(many) == ("Pages 1-3, 5-6: 8.27 x 11.69 in, scaled to fit 8.5 x 11 in.",)


def test_only_the_visible_part_is_printed_in_its_own_unit() -> None:
    for box in ("CropBox", "TrimBox"):
        change = with_entries(**{box: Array([50, 60, 662, 852])})
        data = make_pdf(b"1 0 0 rg 0 0 60 70 re f 0 0 1 rg 662 852 99 99 re f", (800, 1000), change)
        assert notes_on(data) == (), box
        picture = shown(data)
        assert (picture.getpixel((5, 786)), picture.getpixel((15, 786))) == ((255, 0, 0), (255, 255, 255)), box
        assert (0, 0, 255) not in set(picture.get_flattened_data()), box
    data = make_pdf(b"1 0 0 rg 0 0 10 10 re f", (306, 396), with_entries(UserUnit=2))
    assert notes_on(data) == ()
    assert shown(data).getpixel((19, 792 - 19)) == (255, 0, 0)
    for senseless in ([0, 0, 0, 792], [0, 0, 1e9, 1e9]):
        with pytest.raises(UnprintablePdf, match="Page 1 of the PDF has no size"):
            make_printable_pages(make_pdf(change=with_entries(MediaBox=Array(senseless))))


def test_what_a_press_cannot_draw_makes_a_picture_of_its_page() -> None:
    def nested(pdf: pikepdf.Pdf) -> dict[str, Any]:
        inner = drawing(pdf, b"BT /F 9 Tf (a) Tj ET", Resources=Dictionary(Font=Dictionary(F=helvetica())))
        return {"XObject": Dictionary(P=drawing(pdf, b"/P Do", Resources=Dictionary(XObject=Dictionary(P=inner))))}

    listed = with_resources(lambda pdf: {"Font": Dictionary(F=helvetica())})
    data = make_pdf(b"BT /F 90 Tf 100 400 Td (Hello) Tj ET", change=listed, pages=2)
    assert notes_on(data) == (REDRAWN + "the font Helvetica, which is not embedded.",)
    assert difference(shown(data), page_picture(data)) < 1
    assert notes_on(make_pdf(TRIANGLE, change=listed)) == (), "only listed"
    assert "Helvetica, which is not embedded" in notes_on(make_pdf(b"/P Do", change=with_resources(nested)))[0]
    postscript = with_resources(lambda pdf: {"XObject": Dictionary(P=pdf.make_stream(b"showpage", Subtype=Name.PS))})
    assert notes_on(make_pdf(b"/P Do", change=postscript)) == (REDRAWN + "PostScript.",)
    for what, width in ((saved(QUARTERS, "JPEG"), 600), (saved(QUARTERS, "JPEG"), 0), (b"no photograph", 60)):

        def damaged(pdf: pikepdf.Pdf, what: bytes = what, width: int = width) -> dict[str, Any]:
            return {"XObject": Dictionary(I=image(pdf, what, width, 40, Filter=Name.DCTDecode))}

        assert notes_on(make_pdf(b"/I Do", change=with_resources(damaged))) == (REDRAWN + "a damaged picture.",)
    without_content = with_resources(lambda _: {"XObject": Dictionary(P=Dictionary(Subtype=Name.Form))})
    data = make_pdf(b"/P Do", change=without_content)
    assert (notes_on(data), shown(data).getextrema()) == ((), ((255, 255),) * 3)


def cmyk_resources(pdf: pikepdf.Pdf) -> dict[str, Any]:
    spot = Array([Name.Separation, Name.Gold, Name.DeviceCMYK, Dictionary(FunctionType=2, N=1)])
    gradient = Dictionary(ShadingType=2, ColorSpace=Name.DeviceCMYK, Coords=[0, 0, 9, 9])
    return {
        "ColorSpace": Dictionary(C=spot),
        "XObject": Dictionary(I=image(pdf, bytes(4), 1, 1, ColorSpace=Name.DeviceCMYK)),
        "Shading": Dictionary(S=gradient),
    }


CMYK = {
    "fill": b"1 0 0 0 k 0 0 99 99 re f", "stroke": b"0 0 0 1 k 0 1 0 0 K 0 0 99 99 re S",
    "set": b"0 0 0 1 k 0 0 1 0 sc 0 0 99 99 re f", "space": b"/DeviceCMYK cs 0 0 0 1 scn 0 0 99 99 re f",
    "spot": b"/C cs 1 scn 0 0 99 99 re f", "inline": b"BI /W 1 /H 1 /CS /CMYK /BPC 8 ID 0123 EI", "image": b"/I Do",
    "shading": b"/S sh",
}  # fmt: skip


def test_cmyk_makes_a_picture_of_its_page_but_black_ink_alone_is_gray(subtests: pytest.Subtests) -> None:
    for name, content in CMYK.items():
        with subtests.test(name):
            data = make_pdf(content, change=with_resources(cmyk_resources))
            assert notes_on(data) == (REDRAWN + "CMYK colors.",)
    data = make_pdf(b"(k) pop 0 0 0 1 k 0 0 99 99 re f 0 0 0 0.5 K 9 w 200 200 99 99 re S")
    assert notes_on(data) == ()
    gray = make_pdf(b"0 g 0 0 99 99 re f 0.5 G 9 w 200 200 99 99 re S")
    assert difference(shown(data), page_picture(gray)) == 0


def test_only_the_page_that_needs_it_is_redrawn_in_its_place_and_size() -> None:
    other = pikepdf.open(io.BytesIO(make_pdf(CMYK["fill"])))
    made = make_printable_pages(make_pdf(change=lambda pdf, page: pdf.pages.append(other.pages[0])))
    assert [note[:7] for note in made.notes] == ["Page 2:"]
    assert b"DCTDecode" not in made.data[: made.data.index(b"stream")]
    content = b"1 0 0 rg 50 60 100 100 re f 0 1 0 0 k 0 0 0 1 k 400 100 50 20 re f"
    for turned in (0, 90):
        change = with_entries(Rotate=turned, CropBox=Array([50, 60, 662, 852]))
        data = make_pdf(content, (800, 1000), change)
        assert notes_on(data)[-1] == REDRAWN + "CMYK colors."
        plain = make_pdf(content.replace(b"0 1 0 0 k 0 0 0 1 k", b"0 g"), (800, 1000), change)
        assert difference(shown(data), shown(plain)) < 0.5


def hidden_layer(pdf: pikepdf.Pdf) -> Any:
    layer = pdf.make_indirect(Dictionary(Type=Name.OCG, Name=String("Secret")))
    pdf.Root["/OCProperties"] = Dictionary(OCGs=Array([layer]), D=Dictionary(OFF=Array([layer]), Order=Array([layer])))
    return layer


def test_what_is_switched_off_is_not_printed() -> None:
    change = with_resources(lambda pdf: {"Properties": Dictionary(L=hidden_layer(pdf))})
    data = make_pdf(b"/OC /L BDC 1 0 0 rg 0 0 612 792 re f EMC 0 0 1 rg 0 0 99 99 re f", change=change)
    assert notes_on(data) == (REDRAWN + "layers that are switched off.",)
    picture = shown(data)
    assert picture.getpixel((300, 300)) == (255, 255, 255)
    color = picture.getpixel((50, 750))
    assert isinstance(color, tuple)
    assert color[2] > 240 > 30 > color[0]

    def share(pdf: pikepdf.Pdf, page: Any) -> None:
        hidden = drawing(pdf, b"1 0 0 rg 0 0 612 792 re f", OC=hidden_layer(pdf))
        for each in pdf.pages:
            each.obj["/Resources"] = Dictionary(XObject=Dictionary(P=hidden))

    data = make_pdf(b"/P Do", change=share, pages=2)
    assert [shown(data, number).getextrema() for number in range(2)] == [((255, 255),) * 3] * 2
