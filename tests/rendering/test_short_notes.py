"""Where a message lies in the room that it has: short notes in the middle of a card, letters at their top."""

import pytest

from quillpost.rendering.decoder.service import DecoderSandbox
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.layout.models import Passage, SizeRange
from quillpost.rendering.layout.paragraphs import lay_out_passages
from quillpost.rendering.layout.passages import write_passages
from quillpost.rendering.layout.templates import load_products, read_shipped_toml
from quillpost.rendering.models import INCH, Box
from quillpost.rendering.service import Renderer
from support.designs import HANDS, PIECES, QR_URL, compose_item, copy, design, make_renderer, message_box
from support.page_reader import Pages

INK = (0.8, 0.2, 0.2)
CARDS = [name for name in PIECES if "letter" not in name]
NOTES = {"one word": "Hello!", "two lines": "Thank you!\nDana", "a greeting": "Hi %FIRST_NAME%,\nsee you!"}


def written(piece: str, message: str, hand: int, *, qr: bool, realism: bool = True) -> tuple[Box, Box]:
    """The box that the handwriting has, and the one around its ink."""
    side = PIECES[piece].message_side
    look = design(piece, message, hand=hand, ink=INK, realism=realism)
    page = PIECES[piece].sides.index(side)
    inks = [
        glyph.ink
        for glyph in Pages(compose_item(look, [copy(qr_url=QR_URL if qr else None)]).sheets).written(page, INK)
        if glyph.ink
    ]
    left, bottom = min(ink.left for ink in inks), min(ink.bottom for ink in inks)
    right, top = max(ink.right for ink in inks), max(ink.top for ink in inks)
    box = message_box(side, qr=qr)
    assert box
    return box, Box(left, bottom, right - left, top - bottom)


@pytest.mark.parametrize("piece", CARDS)
@pytest.mark.parametrize("message", NOTES.values(), ids=NOTES)
@pytest.mark.parametrize("hand", HANDS)
def test_a_short_note_lies_in_the_optical_center_of_a_card(piece: str, message: str, hand: int) -> None:
    checked = 0
    for qr in (False, True):
        box, ink = written(piece, message, hand, qr=qr)
        assert box.contains(ink)
        above, below = box.top - ink.top, ink.bottom - box.bottom
        if above + below > 1.25 * INCH:
            assert ink.left - box.left == pytest.approx((box.width - ink.width) / 2, abs=0.2 * INCH)
            assert 0.36 < above / (above + below) < 0.5
        checked += above + below > 1.25 * INCH
    assert checked


@pytest.mark.parametrize("piece", ["letter", "windowlessletter"])
@pytest.mark.parametrize("message", NOTES.values(), ids=NOTES)
def test_a_letter_begins_at_its_top_left(piece: str, message: str) -> None:
    box, ink = written(piece, message, HANDS[0], qr=True)
    assert box.top - ink.top < INCH / 8
    assert ink.left - box.left < INCH / 4


def test_the_lines_of_a_short_note_are_flush_left() -> None:
    look = design("notecard", "Hello dear friend\nhow\nare you", ink=INK, realism=False)
    glyphs = Pages(compose_item(look).sheets).written(1, INK)
    starts: dict[int, float] = {}
    for glyph in glyphs:
        starts.setdefault(round(glyph.baseline), glyph.left)
    assert len(starts) == 3
    assert max(starts.values()) - min(starts.values()) < 0.1 * INCH


@pytest.mark.parametrize("piece", CARDS)
def test_a_message_that_fills_its_box_stays_where_it_was(piece: str) -> None:
    box = PIECES[piece].message_side.message
    assert box
    words = Vocabulary(make_renderer().hands.hand(HANDS[0]))
    unmoved = 0
    for count in range(20, 140, 4):
        at_top = Passage("message", "some words " * count, box, SizeRange(11.0, 26.0), INK, 5)
        centered = at_top._replace(is_centered=True)
        ((_, layout),) = lay_out_passages(words, [at_top, centered])
        spare = box.height - layout.heights[0]
        one, other = write_passages(words, layout)
        if layout.fits[0] and spare < layout.leading * layout.sizes[0]:
            unmoved += 1
            assert one == other
    assert unmoved > 3


def test_an_operator_can_have_notes_begin_at_the_top() -> None:
    pieces = load_products(read_shipped_toml(), "[postcard-4x6.back]\nmessage_align = 'top'")
    assert pieces["postcard-4x6"].message_side.message_align == "top"
    at_top = Renderer(make_renderer().hands, pieces, sandbox=DecoderSandbox()).preview(
        design(message="Hello!", ink=INK), copy(), dpi=50
    )
    centered = make_renderer().preview(design(message="Hello!", ink=INK), copy(), dpi=50)
    assert at_top.sides["back"] != centered.sides["back"]
