"""The white panels of a side with art: few, aligned, and under all that is printed on them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from PIL import Image

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.layout.models import Side
from quillpost.rendering.layout.panels import box_from_edges, extend_to_edges, join_boxes
from quillpost.rendering.layout.templates import load_products, read_shipped_toml
from quillpost.rendering.models import INCH, Box
from support import designs

RED, WHITE = (255, 0, 0), (255, 255, 255)
DPI = 144
SIDES = [
    pytest.param(piece, page, id=f"{piece}-{side.name}")
    for piece, layout in designs.PIECES.items()
    for page, side in enumerate(layout.sides)
    if side.art and side.message
]


def drawn(piece: str, page: int, *, is_full: bool) -> Image.Image:
    """A side over plain red art, bleed and all."""
    art = designs.picture("PNG", size=(60, 40), colour="red")
    copy = designs.FULL if is_full else designs.copy(claim=designs.CLAIM if piece == "giftcard" else None)
    design = designs.design(piece, "Hi!", front=art, background=art)
    return designs.full_sheet(designs.compose_item(design, [copy]).sheets, page, DPI)


def white_share(sheet: Image.Image, side: Side, box: Box) -> float:
    shown = designs.cropped(sheet, replace(box, left=box.left + side.bleed, bottom=box.bottom + side.bleed), DPI)
    return float((np.asarray(shown) == WHITE).all(axis=2).mean())


def has_art(sheet: Image.Image, side: Side, box: Box) -> bool:
    shown = designs.cropped(sheet, replace(box, left=box.left + side.bleed, bottom=box.bottom + side.bleed), DPI)
    return RED in designs.count_colors(shown)


def printed_boxes(side: Side) -> list[Box]:
    names = ("return_address", "indicia", "address", "barcode")
    return [box for name in names if (box := getattr(side, name))]


@pytest.mark.parametrize(("piece", "page"), SIDES)
def test_art_is_left_out_in_two_panels_at_most_and_never_under_the_message(piece: str, page: int) -> None:
    side = designs.PIECES[piece].sides[page]
    assert len(side.art_holes) <= 2
    assert side.message
    assert not any(hole.overlaps(side.message) for hole in side.art_holes)
    for box in printed_boxes(side):
        assert any(hole.contains(box) for hole in side.art_holes)


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize(("piece", "page"), SIDES)
def test_what_is_printed_for_the_post_stands_on_white_and_the_message_on_art(
    piece: str, page: int, is_full: bool
) -> None:
    side, sheet = designs.PIECES[piece].sides[page], drawn(piece, page, is_full=is_full)
    for box in printed_boxes(side):
        assert not has_art(sheet, side, box)
        assert white_share(sheet, side, box) > 0.3
    message = designs.message_box(side, qr=is_full)
    assert message
    assert has_art(sheet, side, message)
    assert white_share(sheet, side, message) == 0
    if is_full and side.opt_out:
        line = replace(side.opt_out, width=INCH * 1.5).expand(-1)
        assert not has_art(sheet, side, line)
        assert white_share(sheet, side, line) > 0.3
    if is_full and side.qr:
        assert not has_art(sheet, side, side.qr.expand(INCH / 7))


@pytest.mark.parametrize(("piece", "page"), SIDES)
def test_no_strip_of_art_is_left_between_a_panel_and_the_edge_of_a_postcard(piece: str, page: int) -> None:
    side = designs.PIECES[piece].sides[page]
    if not side.faces_post:
        pytest.skip("only postcards are printed for the post to their edges")
    sheet = drawn(piece, page, is_full=False)
    right = replace(side.bleed_box, left=side.trim.right - INCH, width=INCH + side.bleed)
    assert not has_art(sheet, side, right), "to the bleed, at the top and at the bottom as well"
    assert has_art(sheet, side, Box(-side.bleed, side.trim.top - INCH, INCH, INCH + side.bleed))


@pytest.mark.parametrize("piece", ["postcard-4x6", "magnacard"])
def test_the_panel_of_a_small_card_is_one_with_that_of_its_qr_code(piece: str) -> None:
    side = designs.PIECES[piece].find_side("back")
    column, foot = sorted(side.art_holes, key=lambda hole: -hole.height)
    own = side.qr_panel
    assert own
    assert (foot.left, foot.right) == (side.bleed_box.left, side.bleed_box.right)
    assert (column.bottom, column.top, column.right) == (
        side.bleed_box.bottom,
        side.bleed_box.top,
        side.bleed_box.right,
    )
    assert (own.left, own.bottom) == (side.bleed_box.left, side.bleed_box.bottom)
    assert own.right == column.left, "what all copies share is not drawn over"
    assert side.message_above_qr
    assert own.top == pytest.approx(side.message_above_qr.bottom)
    sheet = drawn(piece, 1, is_full=True)
    assert not has_art(sheet, side, replace(own.expand(-1), width=side.trim.width))


@pytest.mark.parametrize("piece", ["letter", "windowlessletter"])
def test_a_letters_opt_out_line_shares_the_panel_of_its_qr_code(piece: str) -> None:
    side, sheet = designs.PIECES[piece].find_side("cover"), drawn(piece, 0, is_full=True)
    assert side.qr
    assert side.opt_out
    between = Box(side.qr.left, side.opt_out.top, INCH, side.qr.bottom - side.opt_out.top)
    assert white_share(sheet, side, between.expand(-1)) == 1
    assert side.qr.left == side.opt_out.left


def test_an_operators_card_has_a_panel_wherever_its_texts_are() -> None:
    """A return address that is moved beside the message keeps a panel of its own."""
    changes = (
        "[postcard-6x9.back]\nreturn_address = [0.4, 5.2, 2.5, 0.5]\nmessage = [0.3, 1.6, 3.85, 3.4]\n"
        "message_above_qr = [0.3, 1.6, 3.85, 3.4]"
    )
    side = load_products(read_shipped_toml(), changes)["postcard-6x9"].find_side("back")
    assert side.message
    assert side.return_address
    assert any(hole.contains(side.return_address) for hole in side.art_holes)
    assert not any(hole.overlaps(side.message) for hole in side.art_holes)


def test_boxes_are_joined_around_what_they_avoid() -> None:
    corners = [Box(x, y, 10, 10) for x, y in product((0, 90), (0, 90))]
    assert join_boxes(corners, None) == [Box(0, 0, 100, 100)]
    middle = Box(40, 40, 20, 20)
    around = join_boxes(corners, middle)
    assert len(around) == 2
    assert not any(box.overlaps(middle) for box in around)
    assert all(any(box.contains(corner) for box in around) for corner in corners)
    assert join_boxes([], None) == []
    twins = [Box(0, 0, 10, 10)] * 2
    assert join_boxes(twins, None) == twins[:1]


def test_a_box_reaches_to_the_edges_that_are_near() -> None:
    sheet, outer = Box(0, 0, 100, 100), Box(-9, -9, 118, 118)
    near = extend_to_edges(Box(10, 40, 20, 20), sheet, outer, max_gap=10)
    assert near == box_from_edges((-9, 40, 30, 60))
    assert extend_to_edges(near, sheet, outer, max_gap=10) == near
    avoided = Box(0, 45, 10, 10)
    assert extend_to_edges(Box(10, 40, 20, 20), sheet, outer, max_gap=10, avoided=avoided) == Box(10, 40, 20, 20)
    assert extend_to_edges(sheet, sheet, outer, max_gap=0) == outer


def test_previews_show_the_same_panels() -> None:
    art = designs.picture("PNG", size=(60, 40), colour="red")
    design = designs.design("postcard-6x9", "Hi!", background=art)
    preview = designs.image_of(designs.make_renderer().preview(design, designs.FULL, dpi=72).sides["back"])
    (page,) = rasterize_pages(designs.compose_item(design, [designs.FULL]).sheets, dpi=72, pages=[1])
    assert preview.tobytes() == designs.image_of(page).tobytes()
