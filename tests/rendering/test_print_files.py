"""Files for print: they obey PDF/X-4 and PDF/VT-1, name whose each page is, and embed of fonts only what is used."""

import io
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pikepdf
import pypdfium2 as pdfium
import pytest
from fontTools.pens.recordingPen import RecordingPen
from fontTools.ttLib import TTFont
from PIL import Image, ImageCms

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.fonts import assemble_font, read_tables, subset_outlines
from quillpost.rendering.models import BAR_HEIGHT, BAR_PITCH, BAR_WIDTH
from quillpost.rendering.pdf import color
from quillpost.rendering.pdf.files import PdfFile, PrintMetadata, information_dictionary, xmp_packet
from quillpost.rendering.pdf.fonts import BARCODE_FONT_SIZE, embed_barcode_font, embed_font, shaped_glyph_texts
from support.designs import page_text
from support.pdfx_checks import find_errors
from support.printed_sides import BARS, BOXES, MADE_AT, NAMES, hand, shaped, sheets, write_batch


def profile_of(space: bytes, device_class: bytes = b"prtr") -> bytes:
    """Our own profile, said to be of other colors."""
    return color.SRGB.profile[:12] + device_class + space + color.SRGB.profile[20:]


CMYK = color.OutputIntent(profile_of(b"CMYK"), 4, "A coated sheet")
GRAY = color.OutputIntent(profile_of(b"GRAY"), 1, "A laser printer")


def opened(pdf: bytes) -> pikepdf.Pdf:
    return pikepdf.open(io.BytesIO(pdf))


def broken(change: Callable[[Any], object]) -> list[str]:
    """What is wrong with a sound file after one change."""
    changed = io.BytesIO()
    with opened(sheets(write_batch())) as document:
        change(document)
        document.save(changed, min_version="1.6", fix_metadata_version=False)
    return [error for error in find_errors(changed.getvalue()) if not error.startswith("version")]


BREAKS: dict[str, Callable[[Any], object]] = {
    "information: no /Title": lambda document: document.docinfo.__delitem__("/Title"),
    "metadata: none": lambda document: document.Root.__delitem__("/Metadata"),
    "intent: no profile": lambda document: document.Root.OutputIntents[0].__delitem__("/DestOutputProfile"),
    "boxes: page 1 has not all of them": lambda document: document.pages[1].obj.__delitem__("/TrimBox"),
    "Medium cannot be read back": lambda document: document.pages[1].obj.Resources.Font.H.__delitem__("/ToUnicode"),
    "forbidden: /OpenAction in the catalog": lambda document: document.Root.__setitem__("/OpenAction", [1]),
    "parts: page 1 is not in the part that it names": lambda document: document.pages[1].obj.__delitem__("/DPart"),
}


def test_a_broken_rule_is_found_and_our_files_break_none(subtests: pytest.Subtests) -> None:
    assert find_errors(sheets(write_batch(), pieces=230)) == []
    for intent in (CMYK, GRAY):
        assert find_errors(sheets(write_batch(intent))) == [], intent.condition
    assert broken(lambda document: None) == []
    for error, change in BREAKS.items():
        with subtests.test(error):
            assert any(error in found for found in broken(change))
    assert find_errors(sheets(write_batch(), extra=b"0 0 0 1 k 0 0 9 9 re f")) == [
        "colour: /DeviceCMYK where the intent has 3 components"
    ]
    sound = sheets(write_batch())
    assert find_errors(sound.replace(b"/ID[", b"/IX[")) == ["identity: no /ID of twice 16 bytes"]
    assert {"metadata: none", "intent: 0 instead of one", "parts: no tree"} <= set(find_errors(sheets(None)))


def test_a_file_says_what_it_is_whose_its_pages_are_and_what_is_on_them() -> None:
    pdf = sheets(write_batch(), pieces=101)
    assert [page_text(pdf, 2 * place + 1).split("\n") for place in range(3)] == [[name, BARS] for name in NAMES]
    with opened(pdf) as document:
        groups = document.Root.DPartRoot.DPartRootNode.DParts[0]
        leaves = [part for group in groups for part in group.DParts[0]]
        assert [len(group.DParts[0]) for group in groups] == [100, 1]
        names = [str(leaf.DPM.CIP4_Root.CIP4_Recipient.CIP4_UniqueID) for leaf in leaves]
        assert names == [str(700 + place) for place in range(101)]
        assert str(leaves[0].DPM.CIP4_Root.CIP4_Intent.CIP4_ProductType) == "Postcard"
    with opened(sheets(None)) as document:
        assert "/DPartRoot" not in document.Root
        assert "/DPart" not in document.pages[0].obj
        assert str(document.docinfo.Producer) == "Quillpost"


def test_the_same_pieces_give_the_same_bytes_and_another_moment_another_identity() -> None:
    made, later = write_batch(), replace(write_batch(), made_at=MADE_AT.replace(year=2027))
    assert sheets(made) == sheets(made)
    one, other = (bytes(opened(sheets(metadata)).trailer.ID[0]) for metadata in (made, later))
    assert one != other
    pdf = PdfFile()
    assert color.icc_color_space(pdf, color.SRGB.profile, 3) == color.icc_color_space(pdf, color.SRGB.profile, 3)
    assert color.icc_color_space(pdf, color.SRGB.profile, 3) != color.icc_color_space(pdf, CMYK.profile, 4)
    assert pdf.finish().count(b"/N 3/Filter") == 1, "a profile is in a file once"
    names = []
    for used in ({1, 2}, {2, 1}, {1, 3}):
        with font_in(written_page([], used)) as font:
            names.append(str(font.BaseFont))
    assert names[0] == names[1] != names[2], "the name of a part of a font depends on the part"


def test_parts_pages_times_and_titles_are_checked_as_a_file_is_made() -> None:
    with pytest.raises(ValueError, match="belongs to a part"):
        PdfFile(write_batch()).add_page(b"", [])
    pdf = PdfFile(write_batch())
    pdf.begin_part(b"1")
    with pytest.raises(ValueError, match="without pages"):
        pdf.begin_part(b"2")
    with pytest.raises(ValueError, match="time zone"):
        PrintMetadata("Batch", datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="title"):
        PrintMetadata(" ", MADE_AT)


def test_our_srgb_is_srgb_and_colors_look_the_same_with_every_output_profile(subtests: pytest.Subtests) -> None:
    steps = np.stack(np.meshgrid(*[np.arange(0, 256, 15).astype(np.uint8)] * 3), -1).reshape(18, -1, 3)
    for name, profile in {"display": color.DISPLAY_PROFILE, "output": color.OUTPUT_PROFILE}.items():
        ours, theirs = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
        for rendering in ImageCms.Intent:
            for source, target in ((ours, theirs), (theirs, ours)):
                with subtests.test(name, rendering=rendering.name):
                    moved = ImageCms.profileToProfile(
                        Image.fromarray(steps), source, target, renderingIntent=rendering, outputMode="RGB"
                    )
                    assert moved is not None
                    assert np.abs(np.asarray(moved).astype(int) - steps).max() <= 1
    pictures = [rasterize_pages(sheets(write_batch(intent)), dpi=36, pages=[0])[0] for intent in (color.SRGB, CMYK)]
    direct, defined = (np.asarray(Image.open(io.BytesIO(png))).astype(int) for png in pictures)
    assert np.abs(direct - defined).max() <= 1


def test_an_operators_profile_is_read_or_refused_with_the_reason(subtests: pytest.Subtests) -> None:
    display = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    theirs, ours = display[:12] + b"prtr" + display[16:], color.SRGB.profile
    assert color.read_output_intent(theirs) == color.OutputIntent(theirs, 3, "sRGB built-in")
    assert color.read_output_intent(ours + b"rest") == color.SRGB
    assert color.read_output_intent(CMYK.profile).components == 4
    old_form = b"desc" + bytes(4) + struct.pack(">I", 7) + b"Coated\0"
    data = ours[:128] + struct.pack(">I4sII", 1, b"desc", 144, len(old_form)) + old_form
    assert color.read_output_intent(struct.pack(">I", len(data)) + data[4:]).condition == "Coated"
    refused = [
        (b"", "not an ICC profile"), (b"\x89PNG" + bytes(500), "not an ICC profile"), (ours[:-1], "cut off"),
        (profile_of(b"RGB ", b"link"), "class link"), (color.DISPLAY_PROFILE, "class mntr"),
        (profile_of(b"Lab "), "colors are Lab"), (ours[:20] + b"????" + ours[24:], r"connects to \?"),
        (ours[:128] + b"\xff\xff\xff\xff" + ours[132:], "list of tags"),
        (ours[:136] + b"\xff\xff\xff\xff" + ours[140:], "tag desc runs past"),
        (ours[:132] + b"none" + ours[136:], "no description"),
    ]  # fmt: skip
    for data, reason in refused:
        with subtests.test(reason), pytest.raises(ValueError, match=reason):
            color.read_output_intent(data)


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


def test_every_page_is_where_it_was_added_and_a_recipient_costs_few_bytes() -> None:
    for count in (1, 99, 100, 101, 250):
        pdf = PdfFile()
        for place in range(count):
            pdf.add_page(BOXES + b"/Resources<<>>", [pdf.add_stream(b"%% page %d\n" % place)])
        with opened(pdf.finish()) as document:
            assert document.check_pdf_syntax() == []
            texts = [page.obj.Contents[0].read_bytes() for page in document.pages]
        assert texts == [b"%% page %d\n" % place for place in range(count)]
    many, few = ([len(sheets(metadata, pieces=n)) for metadata in (write_batch(), None)] for n in (1200, 200))
    assert (many[0] - few[0]) / 1000 - (many[1] - few[1]) / 1000 < 45


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


def test_any_text_survives_as_a_title_and_as_a_pdf_string(subtests: pytest.Subtests) -> None:
    for title in ("Plain", "Brackets (and) \\", "Zoë & <Co>", "李", "a\x00b\ud800c"):
        with subtests.test(title=repr(title)):
            metadata = PrintMetadata(title, write_batch().made_at)
            information = pikepdf.Object.parse(information_dictionary(metadata))
            shown = str(information.Title).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            assert f">{shown}</rdf:li>" in xmp_packet(metadata, bytes(16)).decode()
    for text in ("", "plain", "(a\\b)", "é李😀", "tab\there"):
        assert str(pikepdf.Object.parse(color.text_string(text))) == text


def test_a_font_is_taken_apart_and_thinned_to_the_used_glyphs_and_no_others() -> None:
    program, used = hand().program, {2, 5, 40}
    thin = subset_outlines(program, used)
    whole, part = (TTFont(io.BytesIO(data)) for data in (program, thin))
    assert part["maxp"].numGlyphs == whole["maxp"].numGlyphs
    for number in range(whole["maxp"].numGlyphs):
        assert outline(part, number) == (outline(whole, number) if number in used | {0} else [])
    metrics, full_metrics = part["hmtx"].metrics, whole["hmtx"].metrics
    assert all(metrics[part.getGlyphName(n)] == full_metrics[whole.getGlyphName(n)] for n in used)
    assert len(zlib.compress(thin)) < len(zlib.compress(program)) / 10
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
    program = hand().program
    again = assemble_font(read_tables(program))
    assert read_tables(again).keys() == read_tables(program).keys()
    assert TTFont(io.BytesIO(again))["maxp"].numGlyphs == TTFont(io.BytesIO(program))["maxp"].numGlyphs
    # The checksum over the whole of a font is a constant of the format.
    assert int(np.frombuffer(again, ">u4").sum(dtype=np.uint64)) & 0xFFFFFFFF == 0xB1B0AFBA


def test_every_glyph_reads_back_as_its_letter_and_a_ligature_as_its_letters() -> None:
    numbers = shaped("Fifi ")
    assert len(numbers) < 5  # f and i were joined
    assert page_text(written_page(numbers, set(numbers)), 0).strip() == "Fifi"
    assert shaped_glyph_texts(hand()).keys() == set(range(len(hand().advances)))
    assert "ff" in shaped_glyph_texts(hand()).values()
    assert page_text(written_page(shaped("Zoë"), None), 0) == "Zoë", "a face may be embedded whole"


def test_widths_are_those_of_the_program_and_a_face_that_is_only_drawn_looks_the_same() -> None:
    with font_in(written_page([], {4, 5, 6, 30, 31})) as font:
        listed = list(font.DescendantFonts[0].W)
        program = TTFont(io.BytesIO(font.DescendantFonts[0].FontDescriptor.FontFile2.read_bytes()))
        widths = {int(listed[at]) + i: int(w) for at in range(0, len(listed), 2) for i, w in enumerate(listed[at + 1])}
    metrics = program["hmtx"].metrics
    assert widths == {n: metrics[program.getGlyphName(n)][0] for n in (4, 5, 6, 30, 31)}
    assert min(widths.values()) > 0
    numbers = shaped("Zoë")
    drawn, printed = (written_page(numbers, set(numbers), is_temporary=is_drawn) for is_drawn in (True, False))
    assert rasterize_pages(drawn, dpi=150) == rasterize_pages(printed, dpi=150)
    with font_in(drawn) as only_drawn, font_in(printed) as readable:
        assert ["/ToUnicode" in font for font in (only_drawn, readable)] == [False, True]


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
