"""Every product's geometry, how its template is read and changed, and every rule that an operator's file is held to."""

import pytest

from quillpost.rendering.layout import templates
from quillpost.rendering.layout.models import ProductLayout, Side, box_above_qr
from quillpost.rendering.models import INCH, Box
from support.designs import PIECES, inches, message_box

PLACES = ("message", "divider", "return_address", "indicia", "address", "barcode", "card", "opt_out")
EVERY_SIDE = {f"{name}, {side.name}": side for name, piece in PIECES.items() for side in piece.all_sides}


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


def test_an_ink_free_zone_holds_the_address_alone_and_handwriting_on_a_small_card_is_as_wide_as_it_allows() -> None:
    zones = {"postcard-4x6": (2.4415, 3.2835), "postcard-6x9": (4.725, 4), "postcard-6x11": (6.725, 4)}
    for piece, (left, width) in (zones | {"magnacard": zones["postcard-4x6"]}).items():
        back = PIECES[piece].find_side("back")
        (ink_free,) = back.ink_free
        assert inches(ink_free) == pytest.approx((left, 0.25, width, 2.375), abs=1e-3)
        met = [name for name in PLACES if (found := getattr(back, name)) and ink_free.overlaps(found)]
        assert met == ["address", "barcode"]
        assert back.address
        assert ink_free.contains(back.address)
        if piece in ("postcard-4x6", "magnacard"):
            assert back.message
            assert back.divider
            assert back.message.left == INCH * 3 / 16
            assert back.message.width > 2.15 * INCH
            assert ink_free.left - back.divider.left < 0.05 * INCH
            assert 0 < back.divider.left - back.message.right < 0.06 * INCH


def test_envelopes_have_windows_or_are_addressed_by_hand() -> None:
    envelope = PIECES["letter"].find_side("envelope")
    assert [name for name in PLACES if getattr(envelope, name)] == ["indicia"]
    assert [inches(window) for window in envelope.windows] == [(0.625, 0.75, 4.5, 1.625), (0.625, 2.667, 3.5, 1)]
    assert envelope.ink_free == envelope.windows
    handwritten = {name for name, side in EVERY_SIDE.items() if side.handwritten}
    assert handwritten == {f"{piece}, envelope" for piece in ("windowlessletter", "notecard", "giftcard")}
    assert [name for name, piece in PIECES.items() if piece.address_sheet] == ["letter"]
    assert [name for name, piece in PIECES.items() if piece.extra] == ["letter", "windowlessletter"]


def test_a_folded_card_has_its_art_and_words_on_the_right_panel_and_some_products_are_others_with_a_difference() -> (
    None
):
    for piece in ("notecard", "giftcard"):
        outside, inside = PIECES[piece].sides
        panel = box(4.25, 0, 4.25, 5.5)
        assert outside.preview_area == inside.preview_area == panel
        assert (outside.art, inside.art) == ("front", "background")
        assert inches(outside.art_area) == inches(inside.art_area) == (4.25, -0.125, 4.375, 5.75)
        assert all(found is None or panel.contains(found) for found in (inside.message, inside.qr, inside.card))
        assert dict(PIECES[piece].previews) == {"front": "outside", "back": "inside"}
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


BARE = """
[card]
title = "card"
product = "Card"
stock = "paper"
previews = { back = "back" }
[card.back]
size = [6, 4]
message = [0.25, 0.7, 2, 3]
address = [2.5, 0.7, 2.9, 1.2]
"""


def changed(side: str, overrides: str) -> ProductLayout:
    return templates.load_products(templates.read_shipped_toml(), f"[{side}]\n{overrides}")[side.partition(".")[0]]


def errors_of(overrides: str) -> list[str]:
    with pytest.raises(templates.InvalidProductTemplate) as caught:
        templates.load_products(templates.read_shipped_toml(), overrides)
    assert str(caught.value) == "\n".join(caught.value.errors)
    return caught.value.errors


def test_shipped_pieces_are_read_once_for_each_operators_file_which_changes_what_it_names_and_nothing_else() -> None:
    assert templates.load_shipped_products() is templates.load_shipped_products()
    assert templates.load_shipped_products("[letter]\nstock = 'vellum'")["letter"].stock == "vellum"
    assert templates.load_shipped_products()["letter"].stock != "vellum"
    found = templates.load_products(
        templates.read_shipped_toml(), "[postcard-4x6.back]\nindicia = [4.6, 3.1, 1.1, 0.6]"
    )
    back, before = found["postcard-4x6"].find_side("back"), PIECES["postcard-4x6"].find_side("back")
    assert inches(back.indicia) == (4.6, 3.1, 1.1, 0.6)
    assert [name for name in (*PLACES, "qr") if getattr(back, name) != getattr(before, name)] == ["indicia"]
    assert [name for name, piece in found.items() if piece != PIECES[name]] == ["postcard-4x6"]


def test_what_is_worked_out_can_be_given_and_only_what_is_not_needed_be_left_out(subtests: pytest.Subtests) -> None:
    for key in ("art", "divider", "return_address", "indicia", "barcode", "opt_out"):
        with subtests.test(key):
            back = changed("postcard-4x6.back", f"{key} = false").find_side("back")
            assert getattr(back, key) is None
            assert key != "art" or back.art_area is None
    back = changed("postcard-4x6.back", "message_above_qr = false").find_side("back")
    assert back.message_above_qr == PIECES["postcard-4x6"].find_side("back").message_above_qr
    for key in ("message", "address", "qr", "size", "ink_free", "panel"):
        with subtests.test(key):
            errors = errors_of(f"[postcard-4x6.back]\n{key} = false")
            assert errors[0].startswith(f"postcard-4x6, back: {key} must be")
    card = changed("postcard-6x9.back", "qr = [0.4, 0.4, 1.5, 1.5]\n[postcard-6x9.front]\nbleed = 0.25")
    above = card.find_side("back").message_above_qr
    assert above
    assert above.bottom == pytest.approx((0.4 + 1.5 + 1 / 6) * INCH)
    assert card.find_side("front").art_area == card.find_side("front").trim.expand(0.25 * INCH)
    given = changed("postcard-6x9.back", "message_above_qr = [1.5, 0.7, 2.6, 4.9]").find_side("back")
    assert inches(message_box(given, qr=True)) == (1.5, 0.7, 2.6, 4.9)


BOX = "must be [left, bottom, width, height] in inches."
BOXES = "must be a list of boxes, each [left, bottom, width, height] in inches."
SIZE = "must be [width, height] in inches."
MEANINGLESS = [
    ("[postcard-5x7.back]\nqr = [1, 1, 1, 1]", f"There is no piece postcard-5x7; the pieces are {', '.join(PIECES)}."),
    ("[postcard-4x6.envelope]\nsize = [6, 4]", "postcard-4x6: there is no side envelope; its sides are front, back."),
    ("[postcard-4x6.back]\nstamp = [1, 1, 1, 1]", 'postcard-4x6, back: a side has no "stamp".'),
    ("[postcard-4x6]\ncolour = 'red'", 'postcard-4x6: a piece has no "colour".'),
    ("[postcard-4x6]\nlike = 'letter'", 'postcard-4x6: a piece has no "like".'),
    ("[postcard-4x6]\nback = 3", 'postcard-4x6: a piece has no "back".'),
    ("postcard-4x6 = 3", "postcard-4x6: a piece is a table with sides."),
    ("[postcard-4x6]\nstock = 14", "postcard-4x6: stock must be a text."),
    ("[postcard-4x6]\ntitle = ' '", "postcard-4x6: title must be a text."),
    ("[postcard-4x6]\npreviews = 'back'", "postcard-4x6: previews must name a side for each preview."),
    (
        "[postcard-4x6.previews]\nback = 'inside'",
        "postcard-4x6: the preview back shows a side inside, which it does not have.",
    ),
    ("[letter.cover]\nmessage_align = 'middle'", 'letter, cover: message_align must be "center" or "top".'),
    ("[letter.cover]\nhandwritten = 1", "letter, cover: handwritten must be true or false."),
    ("[letter.cover]\nsize = [8.5]", f"letter, cover: size {SIZE}"),
    ("[letter.cover]\nsize = [8.5, 0]", f"letter, cover: size {SIZE}"),
    ("[letter.cover]\nbleed = -0.1", "letter, cover: bleed must be from 0 to 0.5 in."),
    ("[letter.cover]\nbleed = true", "letter, cover: bleed must be from 0 to 0.5 in."),
    ("[letter.cover]\nink_free = [1, 1, 1, 1]", f"letter, cover: ink_free {BOXES}"),
    ("[letter.envelope]\nwindows = [1, 1, 1, 1]", f"letter, envelope: windows {BOXES}"),
    ("[letter.envelope]\ninsert = 3", f"letter, envelope: insert {SIZE}"),
    *(
        (f"[letter.cover]\nqr = {value}", f"letter, cover: qr {BOX}")
        for value in ("[1, 1, 1]", "[1, 1, 1, 0]", "[1, 1, -1, 1]", "[1, 1, nan, 1]", "[1, 1, inf, 1]")
    ),
    ("[postcard-4x6.back]\ndivider = [2.4, 1, 0, 0]", f"postcard-4x6, back: divider {BOX}"),
    ("[postcard-4x6.back]\ndivider = true", f"postcard-4x6, back: divider {BOX}"),
]


def test_an_operators_file_may_not_say_what_means_nothing(subtests: pytest.Subtests) -> None:
    for overrides, error in MEANINGLESS:
        with subtests.test(overrides):
            assert errors_of(overrides) == [error]
    assert changed("postcard-4x6.back", "divider = [2.4, 1, 0, 2]").find_side("back").divider
    (error,) = errors_of("[postcard-4x6.back\nqr = 1")
    assert error.startswith("The template cannot be read: ")
    assert "line 1" in error
    (error,) = errors_of("[postcard-4x6.back]\nhandwritten = true")
    assert "postcard-4x6, back" in error
    assert "only an envelope" in error
    several = "[letter.cover]\nqr = 3\nbleed = 7\n[notecard.inside]\nart = 'sky'"
    assert errors_of(several) == [
        f"letter, cover: qr {BOX}",
        "letter, cover: bleed must be from 0 to 0.5 in.",
        'notecard, inside: art must be "front" or "background".',
    ]


def test_a_text_that_describes_no_whole_piece_is_refused(subtests: pytest.Subtests) -> None:
    assert templates.load_products(BARE)["card"].title == "card"
    texts = {
        "card: stock is missing.": BARE.replace('stock = "paper"\n', ""),
        "card, back: size is missing.": BARE.replace("size = [6, 4]\n", ""),
        "card, lid: there is no such side.": BARE.replace("card.back", "card.lid"),
        'other: a piece has no "like".': BARE + '[other]\nlike = "nothing"',
        "card: no side carries the message.": BARE.replace("message = [0.25, 0.7, 2, 3]\n", ""),
        "card: no side carries the address.": BARE.replace("address = [2.5, 0.7, 2.9, 1.2]\n", ""),
    }
    for error, text in texts.items():
        with subtests.test(error):
            with pytest.raises(templates.InvalidProductTemplate) as caught:
                templates.load_products(text)
            assert caught.value.errors == [error]


CUT = "is not 3/16 in inside the trim, and might be cut."
INK_FREE = "reaches into an ink-free zone."
BEGIN = "the barcode must begin 3 1/2 to 4 1/4 in from the right edge."
ZONE = "the barcode zone, the lower right 4 3/4 by 5/8 in."
SLIDES = "when the sheet slides by the 1 by 0.458 in that its envelope leaves it."
READ_AREA = "the address is outside the postal read area, 5/8 to 2 3/4 in high and 1/2 in from the sides."
WIDE = "the barcode must be 2.68 to 3.23 in wide, or its 65 bars cannot be read."
HIGH = "the barcode must be 0.125 to 0.165 in high, or its bars cannot be read."
NEAR = "the address is too near to the barcode, which needs 1/8 in clear on both sides."
SMALL = "is too small; it needs at least"
HIDDEN = f"letter, cover: no window shows the whole address and barcode {SLIDES}"
UNPRINTABLE = {
    "postcard-4x6.back": [
        ("indicia = [4.9, 3.14, 1.08, 0.61]", f"the indicia {CUT}"),
        ("message = [0.1, 0.2, 2.1, 3.6]", f"the message {CUT}"),
        ("return_address = [2.5, 2.2, 1.9, 0.4]", f"the return address {INK_FREE}"),
        ("indicia = [4.6, 2.5, 1, 0.6]\nopt_out = false", f"the indicia {INK_FREE}"),
        ("message = [0.1875, 0.2, 2.4, 3.6]\ndivider = false", f"the message {INK_FREE}"),
        ("divider = [2.5, 2, 0, 1]", f"the divider {INK_FREE}"),
        ("qr = [2, 0.2, 0.7, 0.7]", f"the QR code {INK_FREE}"),
        ("opt_out = [2.6, 2.6, 2, 0.1]", f"the opt-out line {INK_FREE}"),
        ("address = [2.43, 0.65, 2.9, 1.3]", "the address is not inside an ink-free zone."),
        ("barcode = [2.5665, 0.306, 2.9291, 0.145]", BEGIN),
        ("message = [0.1875, 0.2, 2.155, 3.6]", f"the message reaches into {ZONE}"),
        ("qr = [0.75, 0.2, 0.75, 0.75]", f"the QR code reaches into {ZONE}"),
        ("barcode = [2.57, 0.306, 2.6, 0.145]", WIDE),
        ("barcode = [2.57, 0.306, 2.9, 0.2]", HIGH),
        ("address = [2.72, 0.65, 1.9, 1.3]", "the address is too small; it needs at least 2 by 0.55 in."),
        ("return_address = [2.6, 3.2, 0.9, 0.5]", "the return address is too small; it needs at least 1 by 0.4 in."),
        ("indicia = [5, 3.4, 0.4, 0.4]", "the indicia is too small; it needs at least 0.5 by 0.3 in."),
        ("opt_out = [2.6, 2.7, 1, 0.1]", "the opt-out line is too small; it needs at least 1.5 by 0.09 in."),
        (
            "message = [0.1875, 0.2, 1.4, 3.6]\nmessage_above_qr = [0.2, 1.2, 1.3, 2]",
            f"the message {SMALL} 1.5 by 1 in.",
        ),
        ("qr = [0.1875, 2.8, 0.75, 0.75]", f"the message above the QR code {SMALL} 1.5 by 0.5 in."),
        ("qr = [0.1875, 0.2, 0.5, 0.5]", "the QR code is too small; it needs at least 0.6 by 0.6 in."),
        ("qr = [0.1875, 0.2, 0.75, 0.8]", "the QR code is not square."),
        ("indicia = [4.4, 3.14, 1, 0.6]", "the return address and the indicia overlap."),
        ("message_above_qr = [0.1875, 0.9, 2.1, 2.5]", "the message above the QR code and the QR code overlap."),
        ("ink_free = [[2.4415, 0.25, 3.6, 2.375]]", "an ink-free zone reaches past the trim."),
    ],
    "postcard-4x6.front": [
        ("address = [2.72, 0.65, 2.76, 1.35]", "a front that carries art cannot carry the address."),
        ("art_area = [0, 0, 6.2, 4]", "the art reaches past the bleed."),
    ],
    "postcard-6x9.back": [
        ("barcode = [5.05, 0.49, 2.9291, 0.145]", f"the barcode is outside {ZONE}"),
        ("message_above_qr = [1.7, 0.5, 2.8, 3]", f"the message above the QR code reaches into {ZONE}"),
        ("barcode = [4.9, 0.306, 3.3, 0.145]", WIDE),
        ("message_above_qr = [0.3, 1.6, 4, 3]", "the message above the QR code reaches past the message."),
        ("address = [5.05, 0.65, 3.5, 1.4]", READ_AREA),
    ],
    "postcard-6x11.back": [("divider = [6.665, 0.4, 0, 5.2]", f"the divider reaches into {ZONE}")],
    "magnacard.back": [("barcode = [1.7, 0.306, 2.9291, 0.145]", BEGIN)],
    "letter.cover": [
        ("return_address = [0.75, 10.03, 3, 0.48]", f"no window shows the whole return address {SLIDES}"),
        ("message = [1, 0.9, 6.5, 7]", f"the message {INK_FREE}"),
        ("address = [0.75, 8.37, 3.25, 0.6]", NEAR),
        ("return_address = [0.75, 9.3, 3, 0.5]", f"the return address {INK_FREE}"),
        ("return_address = [3.8, 8.8, 0.9, 0.3]\naddress = [0.75, 8.405, 3, 0.72]", f"the return address {INK_FREE}"),
    ],
    "letter.address": [
        ("barcode = [0.75, 8.1, 2.9291, 0.135]", f"no window shows the whole address and barcode {SLIDES}")
    ],
    "letter.envelope": [
        ("indicia = [8.1, 0.3, 1.1, 0.7]", f"the indicia reaches into {ZONE}"),
        ("windows = [[0.625, 0.5, 4.5, 1.875], [0.625, 2.625, 3.5, 1]]", f"a window reaches into {ZONE}"),
        ("insert = [8.5, 4.2]", "the folded insert is larger than the envelope."),
        ("indicia = [3.8, 3, 1, 0.6]", f"the indicia {INK_FREE}"),
        # What is wrong on the letter's cover with these changes of its envelope:
        ("windows = [[0.625, 1.425, 4, 1], [0.625, 2.75, 3.25, 0.875]]", HIDDEN),
        ("insert = [8, 3.6667]", "letter, cover: the insert of the envelope must be as wide as the sheet."),
    ],
    "windowlessletter.envelope": [
        ("windows = [[3.5, 2.8, 2, 1]]", "insert is missing, the size of the folded sheet behind the windows."),
        ("barcode = [4.5, 0.3, 2.93, 0.145]", f"the barcode is outside {ZONE}"),
        ("indicia = [8.6, 0.3, 0.6, 0.4]", f"the indicia reaches into {ZONE}"),
    ],
    "notecard.envelope": [
        ("barcode = [2.3, 0.3, 2.9291, 0.145]", BEGIN),
        ("address = [1.8, 1.2, 3.4, 1.8]", READ_AREA),
    ],
    "notecard.inside": [
        ("panel = [4.25, 0, 4.5, 5.5]", "the panel reaches past the trim."),
        ("message = [4, 0.45, 3.45, 4.6]\nmessage_above_qr = [4.65, 1.5, 3, 2]", "the message lies across the fold."),
    ],
    "giftcard.inside": [
        ("card = [4.6875, 0.9, 3.375, 2.125]", "the message and the gift card overlap."),
        ("card = [4.6875, 0.42, 2.4, 1.5]", "the gift card is too small; it needs at least 2.5 by 1.6 in."),
    ],
}


def test_an_unprintable_template_is_refused_by_name_and_a_tight_fold_has_small_windows(
    subtests: pytest.Subtests,
) -> None:
    for side, cases in UNPRINTABLE.items():
        for overrides, error in cases:
            with subtests.test(side, overrides=overrides):
                sentence = error if error.startswith("letter, cover") else f"{side.replace('.', ', ')}: {error}"
                assert sentence in errors_of(f"[{side}]\n{overrides}")
    windows = "windows = [[0.625, 0.95, 4.5, 1.4], [0.625, 2.8, 3.5, 0.9]]"
    cover = changed("letter.envelope", f"insert = [8.5, 3.875]\n{windows}").find_side("cover")
    assert [inches(zone) for zone in cover.ink_free] == [(0, 7.825, 5.125, 1.65), (0, 9.675, 4.125, 1.15)]
    assert len(errors_of(f"[letter.envelope]\n{windows}")) == 4
