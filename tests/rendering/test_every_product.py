"""Every side of every piece as it is printed: sizes, zones, texts in their boxes, previews."""

from collections.abc import Iterator
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
from quillpost.rendering.models import INCH, Addressee, Box, Copy, Design, GiftcardClaim, ReturnAddress, SenderName
from quillpost.rendering.pdf.color import OutputIntent
from quillpost.rendering.service import Misfits, Renderer
from support.designs import (
    JENNY,
    MADE_AT,
    PIECES,
    POSTCARDS,
    QR_URL,
    ROUTING,
    SHORT_MESSAGE,
    TRACKING,
    compose_item,
    copy,
    count_colors,
    cropped,
    design,
    full_sheet,
    image_of,
    make_renderer,
    message_box,
    page_text,
    picture,
)
from support.images import cmyk_profile
from support.page_reader import Glyph, Pages
from support.pdf_files import make_pdf
from support.pdfx_checks import find_errors, find_qpdf_errors, second_opinion

INK = (0.8, 0.2, 0.2)
BLACK, WHITE = (0, 0, 0), (255, 255, 255)
OPT_OUT = "No more mail? quillpost.example/stop ABC123"
CLAIM = GiftcardClaim("7ABC-DEFG-HJKMN-PQRS-TVWX-YZ012", "https://q.example.com/gift/7ABCDEFGHJKMNPQRSTVWXYZ012")
FULL = copy(qr_url=QR_URL, claim=CLAIM, opt_out=OPT_OUT)
EVERY_PIECE = pytest.mark.parametrize("piece", PIECES)


def look(piece: str, *, art: bytes | None = None) -> Design:
    return design(piece, SHORT_MESSAGE, ink=INK, front=art, background=art)


@cache
def printed(piece: str, *, art: bool = False) -> PrintFiles:
    return compose_item(look(piece, art=picture() if art else None), [FULL])


def printed_sides(piece: str, *, art: bool = False) -> Iterator[tuple[Side, bytes, int]]:
    """Each side with the file and the page that shows it."""
    files = printed(piece, art=art)
    for page, side in enumerate(PIECES[piece].sides):
        yield side, files.sheets, page
    envelope = PIECES[piece].envelope
    assert (files.envelopes is None) == (envelope is None)
    if files.envelopes and envelope:
        yield envelope, files.envelopes, 0


@EVERY_PIECE
def test_pages_have_their_trim_and_bleed(piece: str) -> None:
    for side, pdf, page in printed_sides(piece):
        file = Pages(pdf)
        sheet = file.document.pages[page]
        bleed, width, height = side.bleed, side.trim.width, side.trim.height
        assert [float(x) for x in sheet.trimbox] == [bleed, bleed, bleed + width, bleed + height]
        whole = [0, 0, width + 2 * bleed, height + 2 * bleed]
        assert [float(x) for x in sheet.bleedbox] == [float(x) for x in sheet.mediabox] == whole


@EVERY_PIECE
@pytest.mark.parametrize("art", [False, True], ids=["paper", "art"])
def test_files_are_ready_for_print(piece: str, art: bool, tmp_path: Path) -> None:
    files = printed(piece, art=art)
    for pdf in filter(None, (files.sheets, files.envelopes)):
        assert find_errors(pdf) == []
        assert not find_qpdf_errors(pdf, tmp_path)


@EVERY_PIECE
@pytest.mark.parametrize("art", [False, True], ids=["paper", "art"])
def test_a_second_renderer_has_all_ink_within_a_pixel_of_ours(piece: str, art: bool, tmp_path: Path) -> None:
    for side, pdf, page in printed_sides(piece, art=art):
        theirs = second_opinion(pdf, page, 144, tmp_path)
        if theirs is None:
            pytest.skip("pdftoppm is not installed")
        ours = image_of(rasterize_pages(pdf, dpi=144, pages=[page])[0])
        bleed = round(side.bleed * 2)
        theirs = theirs.crop((bleed, bleed, bleed + ours.width, bleed + ours.height))
        for one, other in ((ours, theirs), (theirs, ours)):
            off = strayed(one, other)
            assert off.max() < 140  # a hairline may be a clear grey here and black there
            assert (off > 64).mean() < 0.002


def strayed(one: Image.Image, other: Image.Image) -> np.ndarray[Any, np.dtype[np.int64]]:
    """By how much each pixel is darker or lighter than all that the other has around its place."""
    shown, around = np.asarray(one.convert("L")).astype(np.int64), other.convert("L")
    least, most = (
        np.asarray(around.filter(rank(3))).astype(np.int64) for rank in (ImageFilter.MinFilter, ImageFilter.MaxFilter)
    )
    by: np.ndarray[Any, np.dtype[np.int64]] = np.maximum(np.maximum(least - shown, shown - most), 0)
    return by


@EVERY_PIECE
def test_every_letter_is_in_the_box_that_it_belongs_to(piece: str) -> None:
    for side, pdf, page in printed_sides(piece):
        expected = texts_of(piece, side)
        found: dict[str, list[Glyph]] = {name: [] for name in expected}
        for glyph in Pages(pdf).glyphs(page):
            if glyph.ink:
                homes = [name for name in expected if box_of(side, name).expand(0.35).contains(glyph.ink)]
                assert len(homes) == 1, (side.name, glyph)
                found[homes[0]].append(glyph)
        for name, text in expected.items():
            assert sorted("".join(glyph.text for glyph in found[name])) == sorted(text.replace(" ", "")), name


def texts_of(piece: str, side: Side) -> dict[str, str]:
    """What stands where on a side of the sample pieces, without spaces."""
    return_address = "Dana Whitfield PO Box 1180 Austin, TX 78701"
    address = "JENNY SKINNER Skinner & Söhne 8380 Harmon Underpass Port Stevenbury SD 98227-5874"
    texts = {
        "message": "Hi Jenny, Two of your neighbors sold in under ten days! Warmly, Dana",
        "address": address if side.handwritten else address.upper(),
        "return_address": return_address,
        "indicia": "FIRST-CLASS MAIL U.S. POSTAGE PAID QUILLPOST",
        "opt_out": OPT_OUT,
        "card": "Acorn Coffee GIFT CARD $25 Scan, or enter this code at q.example.com/gift"
        " 7ABC-DEFG-HJKMN PQRS-TVWX-YZ012",
    }
    own = {name: text for name, text in texts.items() if getattr(side, name)}
    if side.art == "front" and not side.message:
        own["preview_area"] = "a note for you MAPLE & MAIN REALTY"
    return own


def box_of(side: Side, name: str) -> Box:
    box = message_box(side, qr=True) if name == "message" else getattr(side, name)
    assert box
    return box


@EVERY_PIECE
def test_the_barcode_is_on_one_side_alone(piece: str) -> None:
    bars = ["".join(glyph.text for glyph in Pages(pdf).glyphs(page, "/F3")) for _, pdf, page in printed_sides(piece)]
    assert [line for line in bars if line] == [encode_barcode(TRACKING, ROUTING)]


@EVERY_PIECE
def test_art_never_enters_an_ink_free_zone_and_only_addresses_print_there(piece: str) -> None:
    nobody = replace(copy(qr_url=QR_URL, tracking=None), addressee=Addressee())
    unsigned = replace(look(piece, art=picture()), return_address=ReturnAddress())
    files = compose_item(unsigned, [nobody])
    for page, side in enumerate(PIECES[piece].sides):
        sheet = image_of(rasterize_pages(files.sheets, dpi=72, pages=[page])[0])
        for zone in side.ink_free:
            assert count_colors(cropped(sheet, zone.expand(-1), 72)) == {WHITE}
            assert BLACK in count_colors(cropped(sheet, zone.expand(6), 72))


@EVERY_PIECE
def test_what_must_be_read_has_clear_paper_around_it_over_any_art(piece: str) -> None:
    for side, pdf, page in printed_sides(piece, art=True):
        sheet = image_of(rasterize_pages(pdf, dpi=144, pages=[page])[0])
        if side.qr:
            assert count_colors(cropped(sheet, side.qr, 144)) >= {BLACK, WHITE}
            modules = QrEncoder().encode(QR_URL).side
            for edge in ring(side.qr, 4 * side.qr.width / modules):
                assert count_colors(cropped(sheet, edge, 144)) == {WHITE}
        if side.return_address and not side.handwritten:
            first_line = replace(side.return_address, bottom=side.return_address.top - 9, width=60.0, height=9.0)
            shown = cropped(sheet, first_line.expand(-0.5), 144).convert("L")
            assert sum(shown.histogram()[200:]) > shown.width * shown.height / 2


def ring(box: Box, width: float) -> list[Box]:
    """What lies around a box, that far, in four strips."""
    outer, hair = box.expand(width), 0.5
    return [
        Box(outer.left, outer.bottom, outer.width, width - hair),
        Box(outer.left, box.top + hair, outer.width, width - hair),
        Box(outer.left, outer.bottom, width - hair, outer.height),
        Box(box.right + hair, outer.bottom, width - hair, outer.height),
    ]


@EVERY_PIECE
def test_print_metadata_assigns_pages_to_recipients_and_products(piece: str) -> None:
    files = compose_item(look(piece), [copy(31), copy(41)])
    for pdf in filter(None, (files.sheets, files.envelopes)):
        file = Pages(pdf)
        (group,) = file.document.Root.DPartRoot.DPartRootNode.DParts[0]
        parts = [leaf.DPM.CIP4_Root for leaf in group.DParts[0]]
        assert [str(root.CIP4_Recipient.CIP4_UniqueID) for root in parts] == ["31", "41"]
        assert {str(root.CIP4_Intent.CIP4_ProductType) for root in parts} == {PIECES[piece].product}


@EVERY_PIECE
def test_colors_stay_exact_under_another_output_profile(piece: str, tmp_path: Path) -> None:
    intent = OutputIntent(cmyk_profile([(255, 128, 128)] * 16), 4, "A coated sheet")
    production = Renderer(make_renderer().hands, PIECES, intent, sandbox=DecoderSandbox())
    art = picture(size=(60, 40), colour="red")
    product_design = replace(look(piece, art=art), pages=three_pages() if PIECES[piece].extra else None)
    files = production.compose({0: product_design}, [FULL], title="A batch", made_at=MADE_AT)
    for pdf in filter(None, (files.sheets, files.envelopes)):
        assert find_errors(pdf) == []
        assert not find_qpdf_errors(pdf, tmp_path)
        file = Pages(pdf)
        (stored_intent,) = file.document.Root.OutputIntents
        assert stored_intent.DestOutputProfile.read_bytes() == intent.profile
        for sheet in file.document.pages:
            assert "/DefaultRGB" in sheet.obj.Resources.ColorSpace


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
        sheet = full_sheet(pdf, page, 36)
        area = replace(side.art_area, left=side.art_area.left + side.bleed, bottom=side.art_area.bottom + side.bleed)
        inside = cropped(sheet, area.expand(-2), 36)
        for hole in side.art_holes:
            # What has to stay white is blackened here: what is left of the edges must be art.
            inside.paste(BLACK, edges_of(hole, side.art_area.expand(-2), inside.height, 36))
        edges = [
            inside.crop((0, 0, inside.width, 1)),
            inside.crop((0, inside.height - 1, inside.width, inside.height)),
            inside.crop((0, 0, 1, inside.height)),
            inside.crop((inside.width - 1, 0, inside.width, inside.height)),
        ]
        assert [count_colors(edge) for edge in edges] == [{BLACK}] * 4
        if side.art_area.right > side.trim.right:
            assert sheet.getpixel((sheet.width - 1, sheet.height // 2)) == BLACK
    assert covered == sum(side.art is not None for side in PIECES[piece].sides) > 0


@pytest.mark.parametrize("piece", ["notecard", "giftcard"])
def test_the_fold_of_a_card_is_free_of_text(piece: str) -> None:
    for side, pdf, page in printed_sides(piece):
        if side.name == "envelope":
            continue
        fold = side.trim.width / 2
        for glyph in Pages(pdf).glyphs(page):
            if glyph.ink:
                assert glyph.ink.right < fold - INCH / 8 or glyph.ink.left > fold + INCH / 8
        lines = cropped(full_sheet(pdf, page, 72), Box(fold + 5, 40, 3, side.trim.height - 60), 72)
        assert count_colors(lines) == {WHITE}


@pytest.mark.parametrize("piece", ["windowlessletter", "notecard", "giftcard"])
def test_envelopes_without_windows_are_addressed_in_the_hand(piece: str) -> None:
    envelopes = printed(piece).envelopes
    assert envelopes
    file = Pages(envelopes)
    written = "".join(glyph.text for glyph in file.written(0, INK))
    assert "JENNYSKINNER" in written
    assert "DanaWhitfield" in written
    assert {glyph.font for glyph in file.written(0, INK)} == {"/F1"}
    shapes = {glyph.number for glyph in file.written(0, INK) if glyph.text == "e"}
    assert len(shapes) > 1


def test_a_windowed_envelope_has_nothing_but_its_indicia() -> None:
    envelopes = printed("letter").envelopes
    assert envelopes
    assert page_text(envelopes, 0).split("\n") == ["FIRST-CLASS MAIL", "U.S. POSTAGE PAID", "QUILLPOST"]


@EVERY_PIECE
def test_a_batch_says_which_pages_are_whose(piece: str) -> None:
    people = [replace(JENNY, name=name) for name in ("Ann Alder", "Bob Birch", "Cy Cedar")]
    files = compose_item(look(piece), [copy(number, person) for number, person in enumerate(people)])
    count = len(PIECES[piece].sides)
    assert files.page_ranges == [(1 + count * place, count * (place + 1)) for place in range(3)]
    for place, person in enumerate(people):
        first, last = files.page_ranges[place]
        own = "\n".join(page_text(files.sheets, page) for page in range(first - 1, last))
        if files.envelopes:
            own += page_text(files.envelopes, place)
        assert str(person.name).upper() in own.upper()
        assert f"Hi {str(person.name).split()[0]}," in own
    if files.envelopes:
        assert len(Pages(files.envelopes)) == 3


@EVERY_PIECE
@pytest.mark.parametrize("art", [False, True], ids=["paper", "art"])
def test_the_preview_is_the_print_pixel_by_pixel(piece: str, art: bool) -> None:
    files = printed(piece, art=art)
    drawn = make_renderer().preview(look(piece, art=picture() if art else None), FULL, dpi=60)
    sides = PIECES[piece].sides
    assert list(drawn.sides) == list(PIECES[piece].previews)
    proof = rasterize_pages(files.sheets, dpi=60, crops=[side.preview_area for side in sides])
    for preview, print_page, side in zip(drawn.sides.values(), proof, sides, strict=True):
        shown = image_of(preview)
        assert shown.tobytes() == image_of(print_page).tobytes()
        assert shown.size == (round(side.preview_area.width / 72 * 60), round(side.preview_area.height / 72 * 60))
    assert (drawn.envelope is None) == (files.envelopes is None)
    if drawn.envelope and files.envelopes:
        proof = rasterize_pages(files.envelopes, dpi=60)
        assert image_of(drawn.envelope).tobytes() == image_of(proof[0]).tobytes()


@EVERY_PIECE
def test_the_plain_front_is_the_printed_one(piece: str) -> None:
    unsigned = design(piece, "", sender=SenderName(), return_address=ReturnAddress(), giftcard=None)
    front = make_renderer().render_plain_front(piece, dpi=50)
    nobody = Copy(item_id=0, design=0, addressee=Addressee())
    assert front == next(iter(make_renderer().preview(unsigned, nobody, dpi=50).sides.values()))


@pytest.mark.parametrize("piece", [*POSTCARDS, "notecard", "giftcard"])
def test_a_front_without_art_is_not_an_empty_page(piece: str) -> None:
    lines = [line.strip() for line in page_text(printed(piece).sheets, 0).split("\n")]
    assert lines[:2] == ["a note for you", "MAPLE & MAIN REALTY"]


def test_a_capital_that_the_face_lacks_is_spelt_as_any_letter_is() -> None:
    assert "ƒ" in make_renderer().hands.plain
    assert "Ƒ" not in make_renderer().hands.plain
    signed = design("postcard-4x6", "Hi", sender=SenderName("Dana", "ƒloral & Co"))
    assert make_renderer().find_misfits(signed, [JENNY], qr=False) == Misfits(None, {}, {})
    lines = page_text(compose_item(signed, [copy(1)]).sheets, 0).split("\n")
    assert lines[1].strip() == "FLORAL & CO"


def three_pages() -> bytes:
    triangle = b"1 0 0 rg 50 50 m 300 700 l 500 100 l f "
    return make_printable_pages(make_pdf(triangle, pages=3)).data


RED = (255, 0, 0)


@pytest.mark.parametrize("piece", ["letter", "windowlessletter"])
def test_additional_pages_follow_the_cover_of_every_letter(piece: str, tmp_path: Path) -> None:
    files = compose_item(replace(look(piece), pages=three_pages()), [copy(1), copy(2)])
    assert files.page_ranges == [(1, 4), (5, 8)]
    assert "Hi Jenny," in page_text(files.sheets, 0)
    assert "Hi Jenny," in page_text(files.sheets, 4)
    for page in (1, 2, 3, 5, 6, 7):
        assert RED in count_colors(full_sheet(files.sheets, page, 18))
    assert find_errors(files.sheets) == []
    assert not find_qpdf_errors(files.sheets, tmp_path)
    envelopes = Pages(files.envelopes or b"")
    assert len(envelopes) == 2


def test_a_pdf_alone_in_a_window_envelope_comes_after_a_sheet_with_the_address() -> None:
    files = compose_item(replace(look("letter"), pages=three_pages(), pdf_only=True), [copy(1), copy(2)])
    assert files.page_ranges == [(1, 4), (5, 8)]
    for page in (0, 4):
        text = page_text(files.sheets, page)
        assert "JENNY SKINNER" in text
        assert "Hi Jenny" not in text
        assert "Dana Whitfield" in text
        bars = "".join(glyph.text for glyph in Pages(files.sheets).glyphs(page, "/F3"))
        assert bars == encode_barcode(TRACKING, ROUTING)
    assert find_errors(files.sheets) == []


def test_a_pdf_alone_without_a_window_is_the_whole_letter() -> None:
    only = replace(look("windowlessletter"), pages=three_pages(), pdf_only=True)
    files = compose_item(only, [copy(1), copy(2)])
    assert files.page_ranges == [(1, 3), (4, 6)]
    assert [page_text(files.sheets, page) for page in range(6)] == [""] * 6
    assert files.envelopes
    assert "JENNY SKINNER" in page_text(files.envelopes, 1)
    assert make_renderer().find_misfits(replace(only, message="word " * 3000), [JENNY], qr=True).messages == {}


def test_previews_of_a_letter_number_its_further_pages() -> None:
    letter = replace(look("letter"), pages=three_pages())
    drawn = make_renderer().preview(letter, copy(), dpi=20)
    assert list(drawn.sides) == ["cover", "page 2", "page 3", "page 4"]
    assert RED in count_colors(image_of(drawn.sides["page 4"]))
    alone = make_renderer().preview(replace(letter, pdf_only=True), copy(), dpi=20)
    assert list(alone.sides) == ["address", "page 2", "page 3", "page 4"]


def test_pieces_of_all_kinds_share_one_batch() -> None:
    looks = {number: look(piece) for number, piece in enumerate(PIECES)}
    files = compose_item(looks, [copy(number, design=number, claim=CLAIM) for number in looks])
    counts = [last - first + 1 for first, last in files.page_ranges]
    assert counts == [len(piece.sides) for piece in PIECES.values()]
    assert files.page_ranges[-1][1] == len(Pages(files.sheets))
    assert files.envelopes
    assert len(Pages(files.envelopes)) == sum(piece.envelope is not None for piece in PIECES.values())
    assert find_errors(files.sheets) == []
