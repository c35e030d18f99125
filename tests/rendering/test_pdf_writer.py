"""Our own PDF files: pages, metadata, and fonts of which only what is used is embedded."""

import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

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


def written_page(numbers: Sequence[int], embedded: set[int] | None, size: int = 20, **how: Any) -> bytes:
    """A page on which these glyphs of the hand are shown."""
    pdf = PdfFile()
    font = embed_font(pdf, hand(), embedded, **how)
    codes = b"".join(b"%04X" % number for number in numbers)
    content = b"BT /H %d Tf 9 99 Td<%b>Tj ET" % (size, codes)
    pdf.add_page(BOXES + b"/Resources<</Font<</H %d 0 R>>>>" % font, [pdf.add_stream(content)])
    return pdf.finish()


@contextmanager
def font_in(pdf: bytes) -> Iterator[Any]:
    with opened(pdf) as document:
        yield document.pages[0].obj.Resources.Font.H


def test_every_page_is_where_it_was_added() -> None:
    for count in (1, 99, 100, 101, 250):
        pdf = PdfFile()
        for place in range(count):
            pdf.add_page(BOXES + b"/Resources<<>>", [pdf.add_stream(b"%% page %d\n" % place)])
        with opened(pdf.finish()) as document:
            assert document.check_pdf_syntax() == []
            texts = [page.obj.Contents[0].read_bytes() for page in document.pages]
        assert texts == [b"%% page %d\n" % place for place in range(count)]


def test_a_reserved_number_may_be_put_late_or_never_and_a_shared_stream_is_written_once() -> None:
    pdf = PdfFile()
    late, never = pdf.reserve(), pdf.reserve()
    pdf.add_page(BOXES + b"/Resources<</Late %d 0 R/Never %d 0 R>>" % (late, never), [pdf.add_stream(b"")])
    pdf.put(late, b"(here)")
    first = pdf.add_shared_stream(b"same")
    assert pdf.add_shared_stream(b"same") == first
    assert first not in {pdf.add_shared_stream(b"same", b"/N 3"), pdf.add_shared_stream(b"other")}
    with opened(pdf.finish()) as document:
        assert document.check_pdf_syntax() == []
        resources = document.pages[0].obj.Resources
        assert str(resources.Late) == "here"
        assert "/Never" not in resources


def test_a_plain_file_ignores_parts_and_names_its_producer() -> None:
    with opened(sheets(None)) as document:
        assert "/DPartRoot" not in document.Root
        assert "/DPart" not in document.pages[0].obj
        assert str(document.docinfo.Producer) == "Quillpost"


def test_a_recipient_costs_few_bytes() -> None:
    many, few = ([len(sheets(metadata, pieces=n)) for metadata in (write_batch(), None)] for n in (1200, 200))
    assert (many[0] - few[0]) / 1000 - (many[1] - few[1]) / 1000 < 45


def test_any_text_survives_as_a_title_and_as_a_pdf_string(subtests: pytest.Subtests) -> None:
    for title in ("Plain", "Brackets (and) \\", "Zoë & <Co>", "李", "a\x00b\ud800c"):
        with subtests.test(title=repr(title)):
            metadata = PrintMetadata(title, write_batch().made_at)
            information = pikepdf.Object.parse(information_dictionary(metadata))
            shown = str(information.Title).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            assert f">{shown}</rdf:li>" in xmp_packet(metadata, bytes(16)).decode()
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
        assert outline(part, number) == (outline(whole, number) if number in used | {0} else [])
    metrics, full_metrics = part["hmtx"].metrics, whole["hmtx"].metrics
    assert all(metrics[part.getGlyphName(n)] == full_metrics[whole.getGlyphName(n)] for n in used)
    assert len(zlib.compress(thin)) < len(zlib.compress(program)) / 10


def test_a_font_with_short_offsets_is_thinned_alike() -> None:
    font = TTFont(io.BytesIO(hand().source))
    for table in {"GSUB", "GPOS", "GDEF"} & set(font.keys()):
        del font[table]
    font["glyf"].padding = 4
    short = io.BytesIO()
    font.save(short)
    assert font["head"].indexToLocFormat == 0
    whole, part = (TTFont(io.BytesIO(d)) for d in (short.getvalue(), subset_outlines(short.getvalue(), {3})))
    assert outline(part, 3) == outline(whole, 3) != []
    assert outline(part, 4) == []


def test_every_take_reads_back_as_its_letter_and_a_ligature_as_its_letters() -> None:
    takes = hand().takes
    numbers = [number for take in range(takes + 1) for number in shaped("Fifi ", take)]
    assert len(numbers) < 5 * (takes + 1)  # f and i were joined
    assert text_of(written_page(numbers, set(numbers), size=6), 0).strip() == " ".join(["Fifi"] * (takes + 1))
    assert shaped_glyph_texts(hand()).keys() == set(range(len(hand().advances)))
    assert "ff" in shaped_glyph_texts(hand()).values()
    assert text_of(written_page(shaped("Zoë", takes), None), 0) == "Zoë", "a face may be embedded whole"


def test_widths_in_the_file_are_those_of_the_program() -> None:
    with font_in(written_page([], {4, 5, 6, 30, 31})) as font:
        listed = list(font.DescendantFonts[0].W)
        program = TTFont(io.BytesIO(font.DescendantFonts[0].FontDescriptor.FontFile2.read_bytes()))
        widths = {int(listed[at]) + i: int(w) for at in range(0, len(listed), 2) for i, w in enumerate(listed[at + 1])}
    metrics = program["hmtx"].metrics
    assert widths == {n: metrics[program.getGlyphName(n)][0] for n in (4, 5, 6, 30, 31)}
    assert min(widths.values()) > 0


def test_a_face_that_is_only_drawn_looks_the_same() -> None:
    numbers = shaped("Zoë", 2)
    drawn, printed = (written_page(numbers, set(numbers), is_temporary=is_drawn) for is_drawn in (True, False))
    assert rasterize_pages(drawn, dpi=150) == rasterize_pages(printed, dpi=150)
    with font_in(drawn) as only_drawn, font_in(printed) as readable:
        assert ["/ToUnicode" in font for font in (only_drawn, readable)] == [False, True]


def test_the_name_of_a_part_of_a_font_depends_on_the_part() -> None:
    names = []
    for used in ({1, 2}, {2, 1}, {1, 3}):
        with font_in(written_page([], used)) as font:
            names.append(str(font.BaseFont))
    assert names[0] == names[1] != names[2]


def test_bars_have_the_size_that_they_should() -> None:
    pdf = PdfFile()
    resources = b"/Resources<</Font<</B %d 0 R>>>>" % embed_barcode_font(pdf)
    pdf.add_page(BOXES + resources, [pdf.add_stream(b"BT /B %.4f Tf 30 30 Td(FTADF)Tj ET" % BARCODE_FONT_SIZE)])
    with pdfium.PdfDocument(pdf.finish()) as document:
        text = document[0].get_textpage()
        full, tracker, ascender, descender, last = (text.get_charbox(place) for place in range(5))
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
    assert "".join("TDAF"[2 * int(ink[up, x]) + int(ink[down, x])] for x in middles) == BARS
