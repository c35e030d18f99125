"""What a preview shows in the windows of an envelope: the sheet that lies behind them, and nothing in print."""

from dataclasses import replace

import numpy as np
import pytest

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.images.pdfs import make_printable_pages
from quillpost.rendering.layout.rules import largest_visible_area
from quillpost.rendering.layout.windows import sheet_place
from quillpost.rendering.models import INCH, Addressee, Box, Design
from support import designs
from support.page_reader import Pages
from support.pdf_files import make_pdf

DPI = 144
LETTER = designs.PIECES["letter"]
ENVELOPE, COVER = LETTER.find_side("envelope"), LETTER.find_side("cover")


def looks() -> list[Design]:
    pages = make_printable_pages(make_pdf(b"1 0 0 rg 50 50 m 300 700 l 500 100 l f ", pages=1)).data
    art = designs.picture("PNG", size=(60, 40), colour="red")
    return [
        designs.design("letter", designs.SHORT_MESSAGE),
        designs.design("letter", designs.SHORT_MESSAGE, front=art),
        designs.design("letter", "", pages=pages, pdf_only=True),
    ]


@pytest.mark.parametrize("look", looks(), ids=["plain", "art", "pdf_only"])
def test_a_window_shows_what_the_real_sheet_has_there(look: Design) -> None:
    drawn = designs.make_renderer().preview(look, designs.FULL, dpi=DPI)
    assert drawn.envelope
    shown = np.asarray(designs.image_of(drawn.envelope).convert("L"))
    (page,) = rasterize_pages(designs.compose_item(look, [designs.FULL]).sheets, dpi=DPI, pages=[0])
    sheet = np.asarray(designs.image_of(page).convert("L"))
    across, up = (round(length * DPI / INCH) for length in sheet_place(ENVELOPE, COVER))
    for window in ENVELOPE.windows:
        left, right = (round(edge * DPI / INCH) for edge in (window.left + 9, window.right - 9))
        top, bottom = (round((ENVELOPE.trim.top - edge) * DPI / INCH) for edge in (window.top - 9, window.bottom + 9))
        in_window = shown[top:bottom, left:right] < 128
        down = sheet.shape[0] - shown.shape[0] + up
        behind = sheet[top + down : bottom + down, left - across : right - across] < 128
        assert in_window.mean() > 0.005
        # The sheet lies between the pixels: an edge of a letter may be a pixel off.
        assert (in_window != behind).mean() < 0.25 * behind.mean()


def test_windows_have_a_film_and_an_edge_in_previews_and_print_has_neither() -> None:
    look = designs.design("letter", "Hi!")
    preview = designs.make_renderer().preview(look, designs.copy(), dpi=DPI).envelope
    files = designs.compose_item(look, [designs.copy()])
    assert preview
    assert files.envelopes
    (page,) = rasterize_pages(files.envelopes, dpi=DPI)
    shown, printed = designs.image_of(preview), designs.image_of(page)
    assert shown.size == printed.size
    for window in ENVELOPE.windows:
        inside = Box(window.left + 12, window.bottom + 6, 12, window.height - 12)
        film = designs.cropped(shown, inside, DPI)
        assert len(designs.count_colors(film)) == 1
        assert 225 < np.asarray(film.convert("L")).min() < 250, "a light tint"
        assert designs.count_colors(designs.cropped(printed, window.expand(3), DPI)) == {(255, 255, 255)}
        edge = designs.cropped(shown, Box(window.left - 2, window.bottom + window.height / 2, 4, 4), DPI)
        assert min(edge.convert("L").tobytes()) < 200
    # The rest of the envelope is the print.
    right = Box(ENVELOPE.trim.right - 3 * INCH, 0, 3 * INCH, ENVELOPE.trim.height)
    assert designs.cropped(shown, right, DPI).tobytes() == designs.cropped(printed, right, DPI).tobytes()
    assert "JENNY" not in designs.page_text(files.envelopes, 0)


def test_the_sheet_lies_in_the_middle_of_where_it_can_slide() -> None:
    across, up = sheet_place(ENVELOPE, COVER)
    # It is 1 in narrower and 0.458 in lower than its envelope, and the lower two thirds are folded behind.
    assert (across / INCH, up / INCH) == pytest.approx((0.5, 0.229 - 7.333), abs=0.001)
    for window in ENVELOPE.windows:
        on_sheet = replace(window, left=window.left - across, bottom=window.bottom - up)
        assert largest_visible_area(window, ENVELOPE, COVER).contains(on_sheet)
    address = COVER.address
    assert address
    in_envelope = replace(address, left=address.left + across, bottom=address.bottom + up)
    assert ENVELOPE.windows[0].contains(in_envelope)


def test_windows_show_a_cover_that_is_not_previewed_itself_and_a_side_alone_has_no_envelope() -> None:
    renderer = designs.make_renderer()
    alone = renderer.preview(designs.design("letter", "Hi!"), designs.copy(), dpi=20, only_preview="cover")
    assert alone.envelope is None
    whole = renderer.preview(looks()[0], designs.copy(), dpi=40)
    with_pages = replace(looks()[0], pages=looks()[2].pages)
    without_cover = renderer.preview(with_pages, designs.copy(), dpi=40, excluded_previews=["cover"])
    assert without_cover.envelope == whole.envelope, "the sheet lies behind its windows all the same"


def test_the_message_and_the_addresses_of_a_letter_share_their_left_margin() -> None:
    boxes = (COVER.message, COVER.address, COVER.return_address, COVER.qr, COVER.opt_out, COVER.barcode)
    assert {box.left for box in boxes if box} == {0.75 * INCH}
    assert COVER.message
    assert COVER.trim.right - COVER.message.right == COVER.message.left
    glyphs = Pages(designs.compose_item(designs.design("letter", designs.MESSAGE), [designs.copy()]).sheets).glyphs(0)
    starts = {
        font: min(glyph.ink.left for glyph in glyphs if glyph.ink and glyph.font == font) for font in ("/F1", "/F2")
    }
    assert starts["/F1"] == pytest.approx(starts["/F2"], abs=INCH / 8)


def test_nobody_without_an_address_fails_the_preview() -> None:
    nobody = replace(designs.copy(tracking=None), addressee=Addressee())
    assert designs.make_renderer().preview(designs.design("letter", "Hi!"), nobody, dpi=20).envelope
