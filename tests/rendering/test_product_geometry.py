"""Every product's geometry."""

from itertools import combinations

import pytest

from quillpost.rendering.layout.models import Side, box_above_qr
from quillpost.rendering.models import INCH, Box
from support.designs import PIECES, inches, message_box

EVERY_SIDE = {f"{name}, {side.name}": side for name, piece in PIECES.items() for side in piece.all_sides}
PLACES = ("message", "divider", "return_address", "indicia", "address", "barcode", "card", "opt_out")


def box(*lengths: float) -> Box:
    return Box(*(length * INCH for length in lengths))


Sizes = dict[str, tuple[float, float]]
CARD, SHEET, ENVELOPE = (8.5, 5.5), (8.5, 11), (9.5, 4.125)
FOLDED: tuple[Sizes, Sizes] = ({"outside": CARD, "inside": CARD}, {"envelope": (5.75, 4.375)})
SIZES: dict[str, tuple[Sizes, Sizes]] = {
    "postcard-4x6": ({"front": (6, 4), "back": (6, 4)}, {}),
    "postcard-6x9": ({"front": (9, 6), "back": (9, 6)}, {}),
    "postcard-6x11": ({"front": (11, 6), "back": (11, 6)}, {}),
    "magnacard": ({"front": (6, 4), "back": (6, 4)}, {}),
    "letter": ({"cover": SHEET}, {"page": SHEET, "address": SHEET, "envelope": ENVELOPE}),
    "windowlessletter": ({"cover": SHEET}, {"page": SHEET, "envelope": ENVELOPE}),
    "notecard": FOLDED,
    "giftcard": FOLDED,
}


def test_each_of_the_eight_pieces_has_its_sheets_at_their_finished_size() -> None:
    def sizes(of: list[Side]) -> Sizes:
        return {side.name: (side.trim.width / INCH, side.trim.height / INCH) for side in of}

    assert list(PIECES) == list(SIZES)
    for name, (sides, apart) in SIZES.items():
        every = list(PIECES[name].all_sides)
        assert sizes(list(PIECES[name].sides)) == sides
        assert sizes(every[len(sides) :]) == apart
        assert {side.bleed for side in every if side.name != "envelope"} == {INCH / 8}


def test_on_every_side_nothing_overlaps_and_nothing_is_nearer_to_the_trim_than_three_sixteenths(
    subtests: pytest.Subtests,
) -> None:
    for name, side in EVERY_SIDE.items():
        with subtests.test(name):
            for qr in (False, True):
                printed = {place: found for place in PLACES if (found := getattr(side, place))}
                if message := message_box(side, qr=qr):
                    printed["message"] = message
                if qr and side.qr:
                    printed["qr"] = side.qr
                pairs = combinations(printed.items(), 2)
                assert [(one, other) for (one, a), (other, b) in pairs if meet(a, b)] == []
            safe = box(0.1875, 0.1875, side.trim.width / INCH - 0.375, side.trim.height / INCH - 0.375)
            places = {place: getattr(side, place) for place in (*PLACES, "qr")}
            assert [place for place, found in places.items() if found and not safe.contains(found)] == []
            assert (side.art is None) == (side.art_area is None)
            if side.art_area and side.panel is None:
                assert side.art_area == side.bleed_box == side.trim.expand(INCH / 8)


def meet(a: Box, b: Box) -> bool:
    """Lines have no area, and may not be met either."""
    return a.left < b.right and b.left < a.right and a.bottom < b.top and b.bottom < a.top


def test_a_postcards_ink_free_zone_holds_the_address_alone() -> None:
    zones = {"postcard-4x6": (2.4415, 3.2835), "postcard-6x9": (4.725, 4), "postcard-6x11": (6.725, 4)}
    for piece, (left, width) in (zones | {"magnacard": zones["postcard-4x6"]}).items():
        back = PIECES[piece].find_side("back")
        (ink_free,) = back.ink_free
        assert inches(ink_free) == pytest.approx((left, 0.25, width, 2.375), abs=1e-3)
        met = [name for name in PLACES if (found := getattr(back, name)) and ink_free.overlaps(found)]
        assert met == ["address", "barcode"]
        assert back.address
        assert ink_free.contains(back.address)


def test_the_handwriting_on_a_small_card_is_as_wide_as_its_zones_allow() -> None:
    for piece in ("postcard-4x6", "magnacard"):
        back = PIECES[piece].find_side("back")
        assert back.message
        assert back.divider
        assert back.message.left == INCH * 3 / 16
        assert back.message.width > 2.15 * INCH
        assert back.ink_free[0].left - back.divider.left < 0.05 * INCH
        assert 0 < back.divider.left - back.message.right < 0.06 * INCH


def test_the_post_finds_address_and_barcode_where_it_looks() -> None:
    outer = [side for side in EVERY_SIDE.values() if side.name in ("back", "envelope") and side.address]
    assert len(outer) == 7
    for side in outer:
        assert side.address
        assert side.barcode
        read_area = Box(INCH / 2, 5 / 8 * INCH, side.trim.width - INCH, 17 / 8 * INCH)
        assert read_area.contains(side.address)
        assert 3.5 * INCH <= side.trim.width - side.barcode.left <= 4.25 * INCH
        assert side.barcode.top + 0.028 * INCH <= 5 / 8 * INCH
        assert side.barcode.bottom >= 3 / 16 * INCH


def test_envelopes_have_windows_or_are_addressed_by_hand() -> None:
    envelope = PIECES["letter"].find_side("envelope")
    assert [name for name in PLACES if getattr(envelope, name)] == ["indicia"]
    assert [inches(window) for window in envelope.windows] == [(0.625, 0.75, 4.5, 1.625), (0.625, 2.667, 3.5, 1)]
    assert envelope.ink_free == envelope.windows
    handwritten = {name for name, side in EVERY_SIDE.items() if side.handwritten}
    assert handwritten == {f"{piece}, envelope" for piece in ("windowlessletter", "notecard", "giftcard")}
    assert [name for name, piece in PIECES.items() if piece.address_sheet] == ["letter"]
    assert [name for name, piece in PIECES.items() if piece.extra] == ["letter", "windowlessletter"]


def test_a_folded_card_has_its_art_and_its_words_on_the_right_panel() -> None:
    for piece in ("notecard", "giftcard"):
        outside, inside = PIECES[piece].sides
        panel = box(4.25, 0, 4.25, 5.5)
        assert outside.preview_area == inside.preview_area == panel
        assert (outside.art, inside.art) == ("front", "background")
        assert inches(outside.art_area) == inches(inside.art_area) == (4.25, -0.125, 4.375, 5.75)
        assert all(found is None or panel.contains(found) for found in (inside.message, inside.qr, inside.card))
        assert dict(PIECES[piece].previews) == {"front": "outside", "back": "inside"}


def test_some_products_are_others_with_a_difference() -> None:
    inside = PIECES["giftcard"].find_side("inside")
    assert inside.card
    assert inside.message
    assert inches(inside.card)[2:] == (3.375, 2.125)
    assert inside.card.top < inside.message.bottom
    assert PIECES["giftcard"].envelope == PIECES["notecard"].envelope
    assert PIECES["giftcard"].find_side("outside") == PIECES["notecard"].find_side("outside")
    assert PIECES["magnacard"].sides == PIECES["postcard-4x6"].sides
    assert PIECES["magnacard"].stock == "magnet 20 mil" != PIECES["postcard-4x6"].stock


def test_each_piece_has_one_side_for_the_message_which_ends_a_sixth_above_the_qr_code() -> None:
    for piece in PIECES.values():
        assert [side for side in piece.all_sides if side.message] == [piece.message_side]
        assert piece.message_side.qr
    back = PIECES["postcard-4x6"].find_side("back")
    with_qr = message_box(back, qr=True)
    assert with_qr
    assert back.qr
    assert back.message
    assert (with_qr.bottom, with_qr.top) == pytest.approx((back.qr.top + INCH / 6, back.message.top))
    assert message_box(back, qr=False) == back.message
    beside, below = box_above_qr(box(1, 1, 3, 3), box(5, 1, 1, 1)), box_above_qr(box(1, 1, 3, 3), box(1, 1, 1, 1))
    assert beside == box(1, 1, 3, 3)
    assert below.height == pytest.approx((2 - 1 / 6) * INCH)
