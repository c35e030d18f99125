"""Every side of every product as it is printed: sizes, zones, texts in their boxes, previews."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFilter

from quillpost.rendering.codes.barcode import encode_barcode
from quillpost.rendering.codes.qr import QrEncoder
from quillpost.rendering.decoder.service import DecoderSandbox
from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.files import PrintFiles
from quillpost.rendering.images.pdfs import make_printable_pages
from quillpost.rendering.layout.models import Side
from quillpost.rendering.models import INCH, Addressee, Box, Copy, Design, ReturnAddress, SenderName
from quillpost.rendering.pdf.color import OutputIntent
from quillpost.rendering.service import Misfits, Renderer
from support import designs
from support.images import cmyk_profile
from support.page_reader import Glyph, Pages
from support.pdf_files import make_pdf
from support.pdfx_checks import draw_elsewhere, find_errors, find_qpdf_errors

INK = (0.8, 0.2, 0.2)
BLACK, WHITE, RED = (0, 0, 0), (255, 255, 255), (255, 0, 0)
EVERY_PIECE = pytest.mark.parametrize("piece", designs.PIECES)


def look(piece: str, *, art: bytes | None = None) -> Design:
    return designs.design(piece, designs.SHORT_MESSAGE, ink=INK, front=art, background=art)


@cache
def printed(piece: str, *, art: bool = False) -> PrintFiles:
    return designs.compose_item(look(piece, art=designs.picture() if art else None), [designs.FULL])


def files_of(files: PrintFiles) -> list[bytes]:
    return [pdf for pdf in (files.sheets, files.envelopes) if pdf is not None]


def printed_sides(piece: str, *, art: bool = False) -> list[tuple[Side, bytes, int]]:
    """Each side with the file and the page that shows it."""
    files, envelope = printed(piece, art=art), designs.PIECES[piece].envelope
    found = [(side, files.sheets, page) for page, side in enumerate(designs.PIECES[piece].sides)]
    assert (files.envelopes is None) == (envelope is None)
    return [*found, (envelope, files.envelopes, 0)] if files.envelopes and envelope else found


@cache
def drawn_sides(piece: str, *, art: bool) -> list[tuple[Side, Image.Image]]:
    sides = printed_sides(piece, art=art)
    return [(side, designs.image_of(rasterize_pages(pdf, dpi=144, pages=[page])[0])) for side, pdf, page in sides]


@EVERY_PIECE
def test_files_are_ready_for_print_with_their_trim_and_bleed(piece: str, tmp_path: Path) -> None:
    for art in (False, True):
        for pdf in files_of(printed(piece, art=art)):
            assert find_errors(pdf) == []
            assert not find_qpdf_errors(pdf, tmp_path)
    for side, pdf, page in printed_sides(piece):
        document = Pages(pdf).document
        sheet = document.pages[page]
        bleed, width, height = side.bleed, side.trim.width, side.trim.height
        assert [float(x) for x in sheet.trimbox] == [bleed, bleed, bleed + width, bleed + height]
        whole = [0, 0, width + 2 * bleed, height + 2 * bleed]
        assert [float(x) for x in sheet.bleedbox] == [float(x) for x in sheet.mediabox] == whole


@EVERY_PIECE
def test_a_second_renderer_has_all_ink_within_a_pixel_of_ours(piece: str, tmp_path: Path) -> None:
    for art in (False, True):
        drawn = [draw_elsewhere(pdf, 144, tmp_path) for pdf in files_of(printed(piece, art=art))]
        if None in drawn:
            pytest.skip("pdftoppm is not installed")
        every = [page for pages in drawn for page in pages or ()]
        for (side, ours), theirs in zip(drawn_sides(piece, art=art), every, strict=True):
            bleed = round(side.bleed * 2)
            trimmed = theirs.crop((bleed, bleed, bleed + ours.width, bleed + ours.height))
            for one, other in ((ours, trimmed), (trimmed, ours)):
                off = strayed(one, other)
                assert off.max() < 140, (side.name, art)  # a hairline may be a clear gray here and black there
                assert (off > 64).mean() < 0.002, (side.name, art)


def strayed(one: Image.Image, other: Image.Image) -> np.ndarray[Any, np.dtype[np.int16]]:
    """By how much each pixel is darker or lighter than all that the other has around its place."""
    shown, around = np.asarray(one.convert("L")).astype(np.int16), other.convert("L")
    filters = (ImageFilter.MinFilter(3), ImageFilter.MaxFilter(3))
    least, most = (np.asarray(around.filter(rank)).astype(np.int16) for rank in filters)
    by: np.ndarray[Any, np.dtype[np.int16]] = np.maximum(np.maximum(least - shown, shown - most), 0)
    return by


@EVERY_PIECE
def test_every_letter_is_in_the_box_that_it_belongs_to_and_the_barcode_on_one_side(piece: str) -> None:
    bars = []
    for side, pdf, page in printed_sides(piece):
        glyphs, expected = Pages(pdf).glyphs(page), texts_of(side)
        bars.append("".join(glyph.text for glyph in glyphs if glyph.font == "/F3"))
        found: dict[str, list[Glyph]] = {name: [] for name in expected}
        for glyph in glyphs:
            if glyph.ink:
                homes = [name for name in expected if box_of(side, name).expand(0.35).contains(glyph.ink)]
                assert len(homes) == 1, (side.name, glyph)
                found[homes[0]].append(glyph)
        for name, text in expected.items():
            assert sorted("".join(glyph.text for glyph in found[name])) == sorted(text.replace(" ", "")), name
    assert [line for line in bars if line] == [encode_barcode(designs.TRACKING, designs.ROUTING)]


def texts_of(side: Side) -> dict[str, str]:
    """What stands where on a side of the sample pieces."""
    address = "JENNY SKINNER Skinner & Söhne 8380 Harmon Underpass Port Stevenbury SD 98227-5874"
    texts = {
        "message": "Hi Jenny, Two of your neighbors sold in under ten days! Warmly, Dana",
        "address": address if side.handwritten else address.upper(),
        "return_address": "Dana Whitfield PO Box 1180 Austin, TX 78701",
        "indicia": "FIRST-CLASS MAIL U.S. POSTAGE PAID QUILLPOST", "opt_out": designs.OPT_OUT,
        "card": "Acorn Coffee GIFT CARD $25 Scan, or enter this code at q.example.com/gift"
        " 7ABC-DEFG-HJKMN PQRS-TVWX-YZ012",
    }  # fmt: skip
    own = {name: text for name, text in texts.items() if getattr(side, name)}
    if side.art == "front" and not side.message:
        own["preview_area"] = "a note for you MAPLE & MAIN REALTY"
    return own


def box_of(side: Side, name: str) -> Box:
    box = designs.message_box(side, qr=True) if name == "message" else getattr(side, name)
    assert isinstance(box, Box)
    return box


@EVERY_PIECE
def test_art_never_enters_an_ink_free_zone_and_only_addresses_print_there(piece: str) -> None:
    nobody = replace(designs.copy(qr_url=designs.QR_URL, tracking=None), addressee=Addressee())
    files = designs.compose_item(replace(look(piece, art=designs.picture()), return_address=ReturnAddress()), [nobody])
    for page, side in enumerate(designs.PIECES[piece].sides):
        sheet = designs.image_of(rasterize_pages(files.sheets, dpi=72, pages=[page])[0])
        for zone in side.ink_free:
            assert designs.count_colors(designs.cropped(sheet, zone.expand(-1), 72)) == {WHITE}
        if side.art:
            assert BLACK in designs.count_colors(sheet), side.name


@EVERY_PIECE
def test_what_must_be_read_has_clear_paper_around_it_over_any_art(piece: str) -> None:
    for side, sheet in drawn_sides(piece, art=True):
        if side.qr:
            assert designs.count_colors(designs.cropped(sheet, side.qr, 144)) >= {BLACK, WHITE}
            quiet = 4 * side.qr.width / QrEncoder().encode(designs.QR_URL).side
            for edge in designs.ring(side.qr.expand(0.5), quiet - 0.5):
                assert designs.count_colors(designs.cropped(sheet, edge, 144)) == {WHITE}
        if side.return_address and not side.handwritten:
            first_line = replace(side.return_address, bottom=side.return_address.top - 9, width=60.0, height=9.0)
            shown = designs.cropped(sheet, first_line.expand(-0.5), 144).convert("L")
            assert sum(shown.histogram()[200:]) > shown.width * shown.height / 2


def edges_of(hole: Box, shown: Box, height: int, dpi: int) -> tuple[int, int, int, int]:
    """The hole in pixels of a picture that shows so much of the side, and a pixel around it."""
    scale = dpi / INCH
    left, right = (round((edge - shown.left) * scale) for edge in (hole.left, hole.right))
    top, bottom = (height - round((edge - shown.bottom) * scale) for edge in (hole.top, hole.bottom))
    return left - 1, top - 1, right + 1, bottom + 1


@EVERY_PIECE
def test_art_covers_its_area_to_the_edge_of_the_bleed(piece: str) -> None:
    covered = 0
    for side, pdf, page in printed_sides(piece, art=True):
        if not side.art_area:
            continue
        covered += 1
        sheet = designs.full_sheet(pdf, page, 36)
        area = replace(side.art_area, left=side.art_area.left + side.bleed, bottom=side.art_area.bottom + side.bleed)
        inside = designs.cropped(sheet, area.expand(-2), 36)
        for hole in filter(None, (*side.art_holes, side.qr_panel)):
            # What has to stay white is blackened here: what is left of the edges must be art.
            inside.paste(BLACK, edges_of(hole, side.art_area.expand(-2), inside.height, 36))
        right, bottom = inside.size
        edges = [(0, 0, right, 1), (0, bottom - 1, right, bottom), (0, 0, 1, bottom), (right - 1, 0, right, bottom)]
        assert [designs.count_colors(inside.crop(edge)) for edge in edges] == [{BLACK}] * 4
        if side.art_area.right > side.trim.right and not side.art_holes:
            assert sheet.getpixel((sheet.width - 1, sheet.height // 2)) == BLACK
    assert covered == sum(side.art is not None for side in designs.PIECES[piece].sides) > 0


@EVERY_PIECE
def test_colors_stay_exact_under_another_output_profile(piece: str, tmp_path: Path) -> None:
    intent = OutputIntent(cmyk_profile([(255, 128, 128)] * 16), 4, "A coated sheet")
    production = Renderer(designs.make_renderer().hands, designs.PIECES, intent, sandbox=DecoderSandbox())
    art = designs.picture(size=(60, 40), colour="red")
    own = replace(look(piece, art=art), pages=three_pages() if designs.PIECES[piece].extra else None)
    for pdf in files_of(production.compose({0: own}, [designs.FULL], title="A batch", made_at=designs.MADE_AT)):
        assert find_errors(pdf) == []
        assert not find_qpdf_errors(pdf, tmp_path)
        document = Pages(pdf).document
        (stored_intent,) = document.Root.OutputIntents
        assert stored_intent.DestOutputProfile.read_bytes() == intent.profile
        assert all("/DefaultRGB" in sheet.obj.Resources.ColorSpace for sheet in document.pages)


def test_envelopes_without_windows_are_addressed_in_the_hand_and_others_have_only_their_indicia() -> None:
    for piece in ("windowlessletter", "notecard", "giftcard"):
        written = Pages(printed(piece).envelopes or b"").written(0, INK)
        text = "".join(glyph.text for glyph in written)
        assert "JENNYSKINNER" in text
        assert "DanaWhitfield" in text
        assert {glyph.font for glyph in written} == {"/F1"}
        words = [glyph.text for glyph in written]
        assert words.index("JENNY") + 1 == words.index("SKINNER"), "each glyph is a word"
    indicia = designs.page_text(printed("letter").envelopes or b"", 0).split("\n")
    assert indicia == ["FIRST-CLASS MAIL", "U.S. POSTAGE PAID", "QUILLPOST"]


@EVERY_PIECE
def test_a_batch_says_which_pages_are_whose(piece: str) -> None:
    people = [replace(designs.JENNY, name=name) for name in ("Ann Alder", "Bob Birch", "Cy Cedar")]
    files = designs.compose_item(
        look(piece), [designs.copy(31 + number, person) for number, person in enumerate(people)]
    )
    count = len(designs.PIECES[piece].sides)
    assert files.page_ranges == [(1 + count * place, count * (place + 1)) for place in range(3)]
    for place, person in enumerate(people):
        first, last = files.page_ranges[place]
        own = "\n".join(designs.page_text(files.sheets, page) for page in range(first - 1, last))
        if files.envelopes:
            own += designs.page_text(files.envelopes, place)
        assert str(person.name).upper() in own.upper()
        assert f"Hi {str(person.name).split()[0]}," in own
    assert files.envelopes is None or len(Pages(files.envelopes)) == 3
    for pdf in files_of(files):
        with Pages(pdf).document as document:
            (group,) = document.Root.DPartRoot.DPartRootNode.DParts[0]
            parts = [leaf.DPM.CIP4_Root for leaf in group.DParts[0]]
            assert [str(root.CIP4_Recipient.CIP4_UniqueID) for root in parts] == ["31", "32", "33"]
            assert {str(root.CIP4_Intent.CIP4_ProductType) for root in parts} == {designs.PIECES[piece].product}


@EVERY_PIECE
def test_the_preview_is_the_print_pixel_by_pixel(piece: str) -> None:
    sides = designs.PIECES[piece].sides
    for art in (False, True):
        files = printed(piece, art=art)
        drawn = designs.make_renderer().preview(
            look(piece, art=designs.picture() if art else None), designs.FULL, dpi=60
        )
        assert list(drawn.sides) == list(designs.PIECES[piece].previews)
        proof = rasterize_pages(files.sheets, dpi=60, crops=[side.preview_area for side in sides])
        for preview, print_page, side in zip(drawn.sides.values(), proof, sides, strict=True):
            shown, area = designs.image_of(preview), side.preview_area
            assert shown.tobytes() == designs.image_of(print_page).tobytes()
            assert shown.size == (round(area.width / 72 * 60), round(area.height / 72 * 60))
        assert (drawn.envelope is None) == (files.envelopes is None)
        envelope = designs.PIECES[piece].envelope
        if drawn.envelope and files.envelopes and envelope and not envelope.windows:
            (proof_envelope,) = rasterize_pages(files.envelopes, dpi=60)
            assert designs.image_of(drawn.envelope).tobytes() == designs.image_of(proof_envelope).tobytes()


def test_the_plain_front_is_the_printed_one_and_spells_what_its_face_lacks() -> None:
    nobody = Copy(item_id=0, design=0, addressee=Addressee())
    for piece in designs.PIECES:
        unsigned = designs.design(piece, "", sender=SenderName(), return_address=ReturnAddress(), giftcard=None)
        front = designs.make_renderer().render_plain_front(piece, dpi=50)
        assert front == next(iter(designs.make_renderer().preview(unsigned, nobody, dpi=50).sides.values())), piece
    for piece in (*designs.POSTCARDS, "notecard", "giftcard"):
        lines = [line.strip() for line in designs.page_text(printed(piece).sheets, 0).split("\n")]
        assert lines[:2] == ["a note for you", "MAPLE & MAIN REALTY"]
    plain = designs.make_renderer().hands.plain
    assert ("ƒ" in plain, "Ƒ" in plain) == (True, False)
    signed = designs.design("postcard-4x6", "Hi", sender=SenderName("Dana", "ƒloral & Co"))
    assert designs.make_renderer().find_misfits(signed, [designs.JENNY], qr=False) == Misfits(None, {}, {})
    assert (
        designs.page_text(designs.compose_item(signed, [designs.copy(1)]).sheets, 0).split("\n")[1].strip()
        == "FLORAL & CO"
    )


@cache
def three_pages() -> bytes:
    return make_printable_pages(make_pdf(b"1 0 0 rg 50 50 m 300 700 l 500 100 l f ", pages=3)).data


def test_additional_pages_follow_the_cover_of_every_letter_and_are_numbered_in_its_preview(tmp_path: Path) -> None:
    for piece in ("letter", "windowlessletter"):
        files = designs.compose_item(replace(look(piece), pages=three_pages()), [designs.copy(1), designs.copy(2)])
        assert files.page_ranges == [(1, 4), (5, 8)]
        for page in range(8):
            is_cover = page in (0, 4)
            assert ("Hi Jenny," in designs.page_text(files.sheets, page)) == is_cover
            assert (RED in designs.count_colors(designs.full_sheet(files.sheets, page, 18))) != is_cover
        assert find_errors(files.sheets) == []
        assert not find_qpdf_errors(files.sheets, tmp_path)
        assert len(Pages(files.envelopes or b"")) == 2
    letter = replace(look("letter"), pages=three_pages())
    drawn = designs.make_renderer().preview(letter, designs.copy(), dpi=20)
    assert list(drawn.sides) == ["cover", "page 2", "page 3", "page 4"]
    assert RED in designs.count_colors(designs.image_of(drawn.sides["page 4"]))
    alone = designs.make_renderer().preview(replace(letter, pdf_only=True), designs.copy(), dpi=20)
    assert list(alone.sides) == ["address", "page 2", "page 3", "page 4"]


def test_a_pdf_alone_needs_a_sheet_for_the_address_in_a_window_and_none_without() -> None:
    files = designs.compose_item(
        replace(look("letter"), pages=three_pages(), pdf_only=True), [designs.copy(1), designs.copy(2)]
    )
    assert files.page_ranges == [(1, 4), (5, 8)]
    for page in (0, 4):
        text = designs.page_text(files.sheets, page)
        assert [words in text for words in ("JENNY SKINNER", "Dana Whitfield", "Hi Jenny")] == [True, True, False]
        bars = "".join(glyph.text for glyph in Pages(files.sheets).glyphs(page, "/F3"))
        assert bars == encode_barcode(designs.TRACKING, designs.ROUTING)
    assert find_errors(files.sheets) == []
    only = replace(look("windowlessletter"), pages=three_pages(), pdf_only=True)
    files = designs.compose_item(only, [designs.copy(1), designs.copy(2)])
    assert files.page_ranges == [(1, 3), (4, 6)]
    assert [designs.page_text(files.sheets, page) for page in range(6)] == [""] * 6
    assert "JENNY SKINNER" in designs.page_text(files.envelopes or b"", 1)
    assert (
        designs.make_renderer().find_misfits(replace(only, message="word " * 3000), [designs.JENNY], qr=True).messages
        == {}
    )


def test_pieces_of_all_kinds_share_one_batch() -> None:
    looks = {number: look(piece) for number, piece in enumerate(designs.PIECES)}
    files = designs.compose_item(looks, [designs.copy(number, design=number, claim=designs.CLAIM) for number in looks])
    counts = [last - first + 1 for first, last in files.page_ranges]
    assert counts == [len(piece.sides) for piece in designs.PIECES.values()]
    assert files.page_ranges[-1][1] == len(Pages(files.sheets))
    assert len(Pages(files.envelopes or b"")) == sum(piece.envelope is not None for piece in designs.PIECES.values())
    assert find_errors(files.sheets) == []
