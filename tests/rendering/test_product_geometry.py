"""Every piece's geometry."""

from itertools import combinations

import pytest

from quillpost.rendering.layout.models import ProductLayout, Side, box_above_qr
from quillpost.rendering.layout.templates import load_shipped_products
from quillpost.rendering.models import INCH, Box
from support.designs import message_box

PIECES = load_shipped_products()
EVERY_SIDE = [
    pytest.param(side, id=f"{name}-{side.name}") for name, piece in PIECES.items() for side in piece.all_sides
]
PLACES = ("message", "divider", "return_address", "indicia", "address", "barcode", "card", "opt_out")


def inches(*lengths: float) -> Box:
    return Box(*(length * INCH for length in lengths))


def close(box: Box | None) -> tuple[float, ...]:
    assert box is not None
    return tuple(round(length / INCH, 3) for length in (box.left, box.bottom, box.width, box.height))


def test_all_eight_pieces_are_shipped() -> None:
    assert list(PIECES) == [
        "postcard-4x6",
        "postcard-6x9",
        "postcard-6x11",
        "magnacard",
        "letter",
        "windowlessletter",
        "notecard",
        "giftcard",
    ]


@pytest.mark.parametrize(
    ("piece", "sides", "apart"),
    [
        ("postcard-4x6", {"front": (6, 4), "back": (6, 4)}, {}),
        ("postcard-6x9", {"front": (9, 6), "back": (9, 6)}, {}),
        ("postcard-6x11", {"front": (11, 6), "back": (11, 6)}, {}),
        ("magnacard", {"front": (6, 4), "back": (6, 4)}, {}),
        ("letter", {"cover": (8.5, 11)}, {"page": (8.5, 11), "address": (8.5, 11), "envelope": (9.5, 4.125)}),
        ("windowlessletter", {"cover": (8.5, 11)}, {"page": (8.5, 11), "envelope": (9.5, 4.125)}),
        ("notecard", {"outside": (8.5, 5.5), "inside": (8.5, 5.5)}, {"envelope": (5.75, 4.375)}),
        ("giftcard", {"outside": (8.5, 5.5), "inside": (8.5, 5.5)}, {"envelope": (5.75, 4.375)}),
    ],
)
def test_each_piece_has_its_sheets_at_their_finished_size(
    piece: str, sides: dict[str, tuple[float, float]], apart: dict[str, tuple[float, float]]
) -> None:
    def sizes(of: list[Side]) -> dict[str, tuple[float, float]]:
        return {side.name: (side.trim.width / INCH, side.trim.height / INCH) for side in of}

    every = list(PIECES[piece].all_sides)
    assert sizes(list(PIECES[piece].sides)) == sides
    assert sizes(every[len(sides) :]) == apart
    assert {side.bleed for side in every if side.name != "envelope"} == {INCH / 8}


@pytest.mark.parametrize("side", EVERY_SIDE)
def test_nothing_overlaps_on_any_side_with_a_qr_code_or_without(side: Side) -> None:
    for qr in (False, True):
        printed = {name: box for name in PLACES if (box := getattr(side, name))}
        if box := message_box(side, qr=qr):
            printed["message"] = box
        if qr and side.qr:
            printed["qr"] = side.qr
        clashes = [
            (one, other)
            for (one, a), (other, b) in combinations(printed.items(), 2)
            if a.left < b.right and b.left < a.right and a.bottom < b.top and b.bottom < a.top
        ]
        assert clashes == []


@pytest.mark.parametrize("side", EVERY_SIDE)
def test_nothing_is_nearer_to_the_trim_than_three_sixteenths(side: Side) -> None:
    safe = inches(0.1875, 0.1875, side.trim.width / INCH - 0.375, side.trim.height / INCH - 0.375)
    places = {name: getattr(side, name) for name in (*PLACES, "qr")}
    assert [name for name, box in places.items() if box and not safe.contains(box)] == []


@pytest.mark.parametrize(
    ("piece", "zone"),
    [
        ("postcard-4x6", (2.4415, 0.25, 3.2835, 2.375)),
        ("postcard-6x9", (4.725, 0.25, 4, 2.375)),
        ("postcard-6x11", (6.725, 0.25, 4, 2.375)),
        ("magnacard", (2.4415, 0.25, 3.2835, 2.375)),
    ],
)
def test_a_postcards_ink_free_zone_holds_the_address_alone(piece: str, zone: tuple[float, ...]) -> None:
    back = PIECES[piece].find_side("back")
    (ink_free,) = back.ink_free
    assert close(ink_free) == pytest.approx(zone, abs=1e-3)
    met = [name for name in PLACES if (box := getattr(back, name)) and ink_free.overlaps(box)]
    assert met == ["address", "barcode"]
    assert back.address
    assert ink_free.contains(back.address)


@pytest.mark.parametrize("piece", ["postcard-4x6", "magnacard"])
def test_the_handwriting_on_a_small_card_is_as_wide_as_its_zones_allow(piece: str) -> None:
    back = PIECES[piece].find_side("back")
    assert back.message
    assert back.divider
    assert back.message.left == INCH * 3 / 16
    assert back.message.width > 2.15 * INCH
    assert back.ink_free[0].left - back.divider.left < 0.05 * INCH
    assert 0 < back.divider.left - back.message.right < 0.06 * INCH


@pytest.mark.parametrize(
    "side",
    [p for p in EVERY_SIDE if p.values[0].name in ("back", "envelope") and p.values[0].address],  # type: ignore[union-attr]
)
def test_the_post_finds_address_and_barcode_where_it_looks(side: Side) -> None:
    assert side.address
    assert side.barcode
    assert side.address.left >= INCH / 2
    assert side.address.right <= side.trim.width - INCH / 2
    assert side.address.bottom >= 5 / 8 * INCH
    assert side.address.top <= 2.75 * INCH
    assert 3.5 * INCH <= side.trim.width - side.barcode.left <= 4.25 * INCH
    assert side.barcode.top + 0.028 * INCH <= 5 / 8 * INCH
    assert side.barcode.bottom >= 3 / 16 * INCH


def test_a_windowed_letters_envelope_carries_the_indicia_beside_its_windows() -> None:
    envelope = PIECES["letter"].envelope
    assert envelope
    assert [name for name in PLACES if getattr(envelope, name)] == ["indicia"]
    windows = [(0.625, 0.75, 4.5, 1.625), (0.625, 2.667, 3.5, 1)]
    assert [close(window) for window in envelope.windows] == windows
    assert envelope.ink_free == envelope.windows


def test_envelopes_without_windows_are_addressed_by_hand_and_others_are_not() -> None:
    handwritten = {(name, side.name) for name, piece in PIECES.items() for side in piece.all_sides if side.handwritten}
    assert handwritten == {(name, "envelope") for name in ("windowlessletter", "notecard", "giftcard")}


def test_only_a_windowed_letter_needs_a_sheet_for_the_address() -> None:
    assert [name for name, piece in PIECES.items() if piece.address_sheet] == ["letter"]
    assert [name for name, piece in PIECES.items() if piece.extra] == ["letter", "windowlessletter"]


@pytest.mark.parametrize("piece", ["notecard", "giftcard"])
def test_a_folded_card_has_its_art_and_its_words_on_the_right_panel(piece: str) -> None:
    outside, inside = PIECES[piece].sides
    panel = inches(4.25, 0, 4.25, 5.5)
    assert outside.preview_area == inside.preview_area == panel
    assert (outside.art, inside.art) == ("front", "background")
    assert close(outside.art_area) == close(inside.art_area) == (4.25, -0.125, 4.375, 5.75)
    for box in (inside.message, inside.qr, inside.card):
        assert box is None or panel.contains(box)
    assert dict(PIECES[piece].previews) == {"front": "outside", "back": "inside"}


def test_a_gift_card_is_a_notecard_with_a_card_under_the_message() -> None:
    inside = PIECES["giftcard"].find_side("inside")
    assert inside.card
    assert inside.message
    assert close(inside.card)[2:] == (3.375, 2.125)
    assert inside.card.top < inside.message.bottom
    assert PIECES["giftcard"].envelope == PIECES["notecard"].envelope
    assert PIECES["giftcard"].find_side("outside") == PIECES["notecard"].find_side("outside")


def test_a_magnacard_is_a_small_postcard_on_another_stock() -> None:
    assert PIECES["magnacard"].sides == PIECES["postcard-4x6"].sides
    assert PIECES["magnacard"].stock == "magnet 20 mil"
    assert PIECES["postcard-4x6"].stock != "magnet 20 mil"


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_each_piece_has_one_side_for_the_message_and_knows_it(piece: ProductLayout) -> None:
    with_message = [side for side in piece.all_sides if side.message]
    assert with_message == [piece.message_side]
    assert piece.message_side.qr


@pytest.mark.parametrize("side", EVERY_SIDE)
def test_art_fills_its_sheet_or_its_panel_and_the_bleed(side: Side) -> None:
    assert (side.art is None) == (side.art_area is None)
    if side.art_area and side.panel is None:
        assert side.art_area == side.bleed_box == side.trim.expand(INCH / 8)


def test_a_message_ends_a_sixth_above_the_qr_code() -> None:
    back = PIECES["postcard-4x6"].find_side("back")
    with_qr = message_box(back, qr=True)
    assert with_qr
    assert back.qr
    assert back.message
    assert with_qr.bottom == pytest.approx(back.qr.top + INCH / 6)
    assert with_qr.top == pytest.approx(back.message.top)
    assert message_box(back, qr=False) == back.message


def test_a_qr_code_beside_the_message_leaves_all_of_it() -> None:
    message = inches(1, 1, 3, 3)
    assert box_above_qr(message, inches(5, 1, 1, 1)) == message
    assert box_above_qr(message, inches(1, 1, 1, 1)).height == pytest.approx((2 - 1 / 6) * INCH)
