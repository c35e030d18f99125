import io
import zlib

import numpy as np
import pikepdf
import pypdfium2 as pdfium
import pytest
from fontTools.pens.recordingPen import RecordingPen
from fontTools.ttLib import TTFont
from PIL import Image

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.fonts import assemble_font, read_tables, subset_outlines
from quillpost.rendering.models import BAR_HEIGHT, BAR_PITCH, BAR_WIDTH
from quillpost.rendering.pdf.color import text_string
from quillpost.rendering.pdf.files import PdfFile, PrintMetadata, information_dictionary, xmp_packet
from quillpost.rendering.pdf.fonts import BARCODE_FONT_SIZE, embed_barcode_font, embed_font, shaped_glyph_texts
from support.batch_sheets import BARS, BOXES, hand, shaped, sheets, write_batch
from support.pdfx_checks import text_of


def opened(pdf: bytes) -> pikepdf.Pdf:
    return pikepdf.open(io.BytesIO(pdf))


def outline(font: TTFont, number: int) -> object:
    pen = RecordingPen()
    font.getGlyphSet()[font.getGlyphName(number)].draw(pen)
    return pen.value


def page_with(fonts: bytes, content: bytes, pdf: PdfFile) -> bytes:
    pdf.add_page(BOXES + b"/Resources<</Font<<%b>>>>" % fonts, [pdf.add_stream(content)])
    return pdf.finish()


@pytest.mark.parametrize("count", [1, 99, 100, 101, 250])
def test_every_page_is_where_it_was_added(count: int) -> None:
    pdf = PdfFile()
    for place in range(count):
        pdf.add_page(BOXES + b"/Resources<<>>", [pdf.add_stream(b"%% page %d\n" % place)])
    with opened(pdf.finish()) as document:
        assert document.check_pdf_syntax() == []
        texts = [page.obj.Contents[0].read_bytes() for page in document.pages]
    assert texts == [b"%% page %d\n" % place for place in range(count)]


def test_a_reserved_number_may_be_put_late_or_never() -> None:
    pdf = PdfFile()
    late, never = pdf.reserve(), pdf.reserve()
    pdf.add_page(BOXES + b"/Resources<</Late %d 0 R/Never %d 0 R>>" % (late, never), [pdf.add_stream(b"")])
    pdf.put(late, b"(here)")
    with opened(pdf.finish()) as document:
        assert document.check_pdf_syntax() == []
        resources = document.pages[0].obj.Resources
        assert str(resources.Late) == "here"
        assert "/Never" not in resources


def test_a_shared_stream_is_written_once() -> None:
    pdf = PdfFile()
    first = pdf.add_shared_stream(b"same")
    assert pdf.add_shared_stream(b"same") == first
    assert pdf.add_shared_stream(b"same", b"/N 3") != first
    assert pdf.add_shared_stream(b"other") != first


def test_a_plain_file_ignores_parts_and_names_its_producer() -> None:
    with opened(sheets(None)) as document:
        assert "/DPartRoot" not in document.Root
        assert "/DPart" not in document.pages[0].obj
        assert str(document.docinfo.Producer) == "Quillpost"


def test_a_recipient_costs_few_bytes() -> None:
    def size(print_metadata: PrintMetadata | None, pieces: int) -> int:
        return len(sheets(print_metadata, pieces=pieces))

    each = [(size(print_metadata, 1200) - size(print_metadata, 200)) / 1000 for print_metadata in (write_batch(), None)]
    assert each[0] - each[1] < 45


@pytest.mark.parametrize("title", ["Plain", "Brackets (and) \\", "Zoë & <Co>", "李", "a\x00b\ud800c"])
def test_any_title_reads_alike_in_both_metadata_forms(title: str) -> None:
    print_metadata = PrintMetadata(title, write_batch().made_at)
    information = pikepdf.Object.parse(information_dictionary(print_metadata))
    packet = xmp_packet(print_metadata, bytes(16)).decode()
    shown = str(information.Title).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert f">{shown}</rdf:li>" in packet


def test_a_text_survives_as_a_pdf_string() -> None:
    for text in ("", "plain", "(a\\b)", "é李😀", "tab\there"):
        assert str(pikepdf.Object.parse(text_string(text))) == text


def test_a_font_taken_apart_and_put_together_is_the_same_font() -> None:
    program = hand().program
    again = assemble_font(read_tables(program))
    assert read_tables(again).keys() == read_tables(program).keys()
    assert TTFont(io.BytesIO(again))["maxp"].numGlyphs == TTFont(io.BytesIO(program))["maxp"].numGlyphs
    # The checksum over the whole of a font is a constant of the format.
    assert int(np.frombuffer(again, ">u4").sum(dtype=np.uint64)) & 0xFFFFFFFF == 0xB1B0AFBA


def test_a_thinned_font_keeps_the_used_glyphs_and_no_others() -> None:
    program, used = hand().program, {2, 5, 40}
    thin = subset_outlines(program, used)
    whole, part = (TTFont(io.BytesIO(data)) for data in (program, thin))
    assert part["maxp"].numGlyphs == whole["maxp"].numGlyphs
    for number in range(whole["maxp"].numGlyphs):
        kept = number in used | {0}
        assert outline(part, number) == (outline(whole, number) if kept else [])
    metrics, full_metrics = part["hmtx"].metrics, whole["hmtx"].metrics
    assert all(metrics[part.getGlyphName(n)] == full_metrics[whole.getGlyphName(n)] for n in used)
    assert len(zlib.compress(thin)) < len(zlib.compress(program)) / 10


def test_a_font_with_short_offsets_is_thinned_alike() -> None:
    font = TTFont(io.BytesIO(hand().source))
    for table in ("GSUB", "GPOS", "GDEF"):
        if table in font:
            del font[table]
    font["glyf"].padding = 4
    short = io.BytesIO()
    font.save(short)
    assert font["head"].indexToLocFormat == 0
    whole, part = (TTFont(io.BytesIO(d)) for d in (short.getvalue(), subset_outlines(short.getvalue(), {3})))
    assert outline(part, 3) == outline(whole, 3) != []
    assert outline(part, 4) == []


def test_every_take_reads_back_as_its_letter_and_a_ligature_as_its_letters() -> None:
    face = hand()
    pdf = PdfFile()
    font = pdf.reserve()
    numbers = [number for take in range(face.takes + 1) for number in shaped("Fifi ", take)]
    assert len(numbers) < 5 * (face.takes + 1)  # f and i were joined
    codes = b"".join(b"%04X" % number for number in numbers)
    embed_font(pdf, face, set(numbers), number=font)
    page = page_with(b"/H %d 0 R" % font, b"BT /H 6 Tf 9 99 Td<%b>Tj ET" % codes, pdf)
    assert text_of(page, 0).strip() == " ".join(["Fifi"] * (face.takes + 1))


def test_all_that_shaping_makes_of_the_letters_can_be_read() -> None:
    face = hand()
    assert shaped_glyph_texts(face).keys() == set(range(len(face.advances)))
    assert "ff" in shaped_glyph_texts(face).values()


def test_widths_in_the_file_are_those_of_the_program() -> None:
    pdf = PdfFile()
    font = embed_font(pdf, hand(), {4, 5, 6, 30, 31})
    with opened(page_with(b"/H %d 0 R" % font, b"", pdf)) as document:
        descendant = document.pages[0].obj.Resources.Font.H.DescendantFonts[0]
        listed = list(descendant.W)
        program = TTFont(io.BytesIO(descendant.FontDescriptor.FontFile2.read_bytes()))
    widths = {int(listed[at]) + i: int(w) for at in range(0, len(listed), 2) for i, w in enumerate(listed[at + 1])}
    metrics = program["hmtx"].metrics
    assert widths == {n: metrics[program.getGlyphName(n)][0] for n in (4, 5, 6, 30, 31)}
    assert min(widths.values()) > 0


def test_a_face_may_be_embedded_whole() -> None:
    pdf = PdfFile()
    font = embed_font(pdf, hand())
    codes = b"".join(b"%04X" % number for number in shaped("Zoë", hand().takes))
    page = page_with(b"/H %d 0 R" % font, b"BT /H 20 Tf 9 99 Td<%b>Tj ET" % codes, pdf)
    assert text_of(page, 0) == "Zoë"


def test_a_face_that_is_only_drawn_looks_the_same() -> None:
    def page(*, is_only_drawn: bool) -> bytes:
        pdf = PdfFile()
        numbers = shaped("Zoë", 2)
        font = embed_font(pdf, hand(), set(numbers), is_temporary=is_only_drawn)
        codes = b"".join(b"%04X" % number for number in numbers)
        return page_with(b"/H %d 0 R" % font, b"BT /H 20 Tf 9 99 Td<%b>Tj ET" % codes, pdf)

    drawn, printed = page(is_only_drawn=True), page(is_only_drawn=False)
    assert rasterize_pages(drawn, dpi=150) == rasterize_pages(printed, dpi=150)
    for file, can_be_read in ((drawn, False), (printed, True)):
        with opened(file) as document:
            assert ("/ToUnicode" in document.pages[0].obj.Resources.Font.H) == can_be_read


def test_the_name_of_a_part_of_a_font_depends_on_the_part() -> None:
    def name(used: set[int]) -> str:
        pdf = PdfFile()
        font = embed_font(pdf, hand(), used)
        with opened(page_with(b"/H %d 0 R" % font, b"", pdf)) as document:
            return str(document.pages[0].obj.Resources.Font.H.BaseFont)

    assert name({1, 2}) == name({2, 1}) != name({1, 3})


def test_bars_have_the_size_that_they_should() -> None:
    pdf = PdfFile()
    font = embed_barcode_font(pdf)
    page = page_with(b"/B %d 0 R" % font, b"BT /B %.4f Tf 30 30 Td(FTADF)Tj ET" % BARCODE_FONT_SIZE, pdf)
    with pdfium.PdfDocument(page) as document:
        text = document[0].get_textpage()
        boxes = [text.get_charbox(place) for place in range(5)]
    full, tracker, ascender, descender, last = boxes
    third = BAR_HEIGHT / 3
    assert last[0] - full[0] == pytest.approx(4 * BAR_PITCH, abs=0.01)
    assert full[2] - full[0] == pytest.approx(BAR_WIDTH, abs=0.01)
    assert full[1::2] == pytest.approx((30, 30 + BAR_HEIGHT), abs=0.01)
    assert tracker[1::2] == pytest.approx((30 + third, 30 + 2 * third), abs=0.01)
    assert ascender[1::2] == pytest.approx((30 + third, 30 + BAR_HEIGHT), abs=0.01)
    assert descender[1::2] == pytest.approx((30, 30 + 2 * third), abs=0.01)


def test_bars_can_be_read_from_pixels() -> None:
    png = rasterize_pages(sheets(write_batch()), dpi=300, pages=[1])[0]
    ink = np.asarray(Image.open(io.BytesIO(png)).convert("L")) < 128
    scale = 300 / 72
    bottom = len(ink) - 21 * scale
    middles = [round((21 + BAR_WIDTH / 2 + place * BAR_PITCH) * scale) for place in range(len(BARS))]
    up, down = round(bottom - BAR_HEIGHT * 5 / 6 * scale), round(bottom - BAR_HEIGHT / 6 * scale)
    read = "".join("TDAF"[2 * int(ink[up, x]) + int(ink[down, x])] for x in middles)
    assert read == BARS
