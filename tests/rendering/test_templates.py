"""How templates are read and changed, and every rule that an operator's file is held to."""

import pytest

from quillpost.rendering.layout.templates import (
    InvalidProductTemplate,
    load_products,
    load_shipped_products,
    read_shipped_toml,
)
from quillpost.rendering.models import INCH, Box
from support.designs import message_box

PIECES = load_shipped_products()
PLACES = ("message", "divider", "return_address", "indicia", "address", "barcode", "qr", "card", "opt_out")
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


def close(box: Box | None) -> tuple[float, ...]:
    assert box is not None
    return tuple(round(length / INCH, 3) for length in (box.left, box.bottom, box.width, box.height))


def errors_of(overrides: str, text: str | None = None) -> list[str]:
    with pytest.raises(InvalidProductTemplate) as caught:
        load_products(text or read_shipped_toml(), overrides)
    assert str(caught.value) == "\n".join(caught.value.errors)
    return caught.value.errors


def test_shipped_pieces_are_read_once_for_each_operators_file() -> None:
    assert load_shipped_products() is load_shipped_products()
    changed = load_shipped_products("[letter]\nstock = 'vellum'")
    assert changed["letter"].stock == "vellum"
    assert load_shipped_products()["letter"].stock != "vellum"


def test_an_override_changes_one_value_of_one_side_and_nothing_else() -> None:
    changed = load_products(read_shipped_toml(), "[postcard-4x6.back]\nindicia = [4.6, 3.1, 1.1, 0.6]")
    back, before = changed["postcard-4x6"].find_side("back"), PIECES["postcard-4x6"].find_side("back")
    assert close(back.indicia) == (4.6, 3.1, 1.1, 0.6)
    assert [name for name in PLACES if getattr(back, name) != getattr(before, name)] == ["indicia"]
    assert {name: piece for name, piece in changed.items() if name != "postcard-4x6"} == {
        name: piece for name, piece in PIECES.items() if name != "postcard-4x6"
    }


def test_what_is_worked_out_follows_an_override() -> None:
    changed = load_products(
        read_shipped_toml(), "[postcard-6x9.back]\nqr = [0.4, 0.4, 1.5, 1.5]\n[postcard-6x9.front]\nbleed = 0.25"
    )["postcard-6x9"]
    above = changed.find_side("back").message_above_qr
    assert above
    assert above.bottom == pytest.approx((0.4 + 1.5 + 1 / 6) * INCH)
    assert changed.find_side("front").art_area == changed.find_side("front").trim.expand(0.25 * INCH)


def test_the_place_above_a_qr_code_can_be_given() -> None:
    changed = load_products(read_shipped_toml(), "[postcard-6x9.back]\nmessage_above_qr = [1.5, 0.7, 3, 4.9]")
    assert close(message_box(changed["postcard-6x9"].find_side("back"), qr=True)) == (1.5, 0.7, 3, 4.9)


@pytest.mark.parametrize(
    "key", ["art", "divider", "return_address", "indicia", "barcode", "opt_out", "message_above_qr"]
)
def test_what_is_not_needed_can_be_left_out(key: str) -> None:
    changed = load_products(read_shipped_toml(), f"[postcard-4x6.back]\n{key} = false")["postcard-4x6"].find_side(
        "back"
    )
    if key == "message_above_qr":
        assert changed.message_above_qr == PIECES["postcard-4x6"].find_side("back").message_above_qr
    else:
        assert getattr(changed, key) is None
    assert key != "art" or changed.art_area is None


@pytest.mark.parametrize("key", ["message", "address", "qr", "size", "ink_free", "panel"])
def test_what_is_needed_cannot_be_left_out(key: str) -> None:
    assert errors_of(f"[postcard-4x6.back]\n{key} = false")[0].startswith(f"postcard-4x6, back: {key} must be")


def test_all_errors_are_named_at_once() -> None:
    assert errors_of("[letter.cover]\nqr = 3\nbleed = 7\n[notecard.inside]\nart = 'sky'") == [
        "letter, cover: qr must be [left, bottom, width, height] in inches.",
        "letter, cover: bleed must be from 0 to 0.5 in.",
        'notecard, inside: art must be "front" or "background".',
    ]


NAMES = ", ".join(PIECES)


@pytest.mark.parametrize(
    ("overrides", "error"),
    [
        ("[postcard-5x7.back]\nqr = [1, 1, 1, 1]", f"There is no piece postcard-5x7; the pieces are {NAMES}."),
        (
            "[postcard-4x6.envelope]\nsize = [6, 4]",
            "postcard-4x6: there is no side envelope; its sides are front, back.",
        ),
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
        ("[letter.cover]\nsize = [8.5]", "letter, cover: size must be [width, height] in inches."),
        ("[letter.cover]\nsize = [8.5, 0]", "letter, cover: size must be [width, height] in inches."),
        ("[letter.cover]\nbleed = -0.1", "letter, cover: bleed must be from 0 to 0.5 in."),
        ("[letter.cover]\nbleed = true", "letter, cover: bleed must be from 0 to 0.5 in."),
        (
            "[letter.cover]\nink_free = [1, 1, 1, 1]",
            "letter, cover: ink_free must be a list of boxes, each [left, bottom, width, height] in inches.",
        ),
        (
            "[letter.envelope]\nwindows = [1, 1, 1, 1]",
            "letter, envelope: windows must be a list of boxes, each [left, bottom, width, height] in inches.",
        ),
        ("[letter.envelope]\ninsert = 3", "letter, envelope: insert must be [width, height] in inches."),
    ],
)
def test_an_operators_file_may_not_say_what_means_nothing(overrides: str, error: str) -> None:
    assert errors_of(overrides) == [error]


@pytest.mark.parametrize("value", ["[1, 1, 1]", "[1, 1, 1, 0]", "[1, 1, -1, 1]", "[1, 1, nan, 1]", "[1, 1, inf, 1]"])
def test_a_box_that_is_none_is_refused(value: str) -> None:
    assert errors_of(f"[letter.cover]\nqr = {value}") == [
        "letter, cover: qr must be [left, bottom, width, height] in inches."
    ]


@pytest.mark.parametrize(("value", "ok"), [("[2.4, 1, 0, 2]", True), ("[2.4, 1, 0, 0]", False), ("true", False)])
def test_a_divider_is_a_line(value: str, ok: bool) -> None:
    overrides = f"[postcard-4x6.back]\ndivider = {value}"
    if ok:
        assert load_products(read_shipped_toml(), overrides)
    else:
        assert errors_of(overrides) == ["postcard-4x6, back: divider must be [left, bottom, width, height] in inches."]


def test_a_file_that_is_no_toml_is_refused_with_its_line() -> None:
    (error,) = errors_of("[postcard-4x6.back\nqr = 1")
    assert error.startswith("The template cannot be read: ")
    assert "line 1" in error


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (BARE.replace('stock = "paper"\n', ""), "card: stock is missing."),
        (BARE.replace("size = [6, 4]\n", ""), "card, back: size is missing."),
        (BARE.replace("card.back", "card.lid"), "card, lid: there is no such side."),
        (BARE + '[other]\nlike = "nothing"', 'other: a piece has no "like".'),
        (BARE.replace("message = [0.25, 0.7, 2, 3]\n", ""), "card: no side carries the message."),
        (BARE.replace("address = [2.5, 0.7, 2.9, 1.2]\n", ""), "card: no side carries the address."),
    ],
)
def test_a_text_that_describes_no_whole_piece_is_refused(text: str, error: str) -> None:
    assert load_products(BARE)["card"].title == "card"
    with pytest.raises(InvalidProductTemplate) as caught:
        load_products(text)
    assert caught.value.errors == [error]


CARD = "postcard-4x6, back: "


@pytest.mark.parametrize(
    ("overrides", "error"),
    [
        (
            "[postcard-4x6.back]\nindicia = [4.9, 3.14, 1.08, 0.61]",
            CARD + "the indicia is not 3/16 in inside the trim, and might be cut.",
        ),
        (
            "[postcard-4x6.back]\nmessage = [0.1, 0.2, 2.1, 3.6]",
            CARD + "the message is not 3/16 in inside the trim, and might be cut.",
        ),
        (
            "[postcard-4x6.back]\nreturn_address = [2.5, 2.2, 1.9, 0.4]",
            CARD + "the return address reaches into an ink-free zone.",
        ),
        (
            "[postcard-4x6.back]\nindicia = [4.6, 2.5, 1, 0.6]\nopt_out = false",
            CARD + "the indicia reaches into an ink-free zone.",
        ),
        (
            "[postcard-4x6.back]\nmessage = [0.1875, 0.2, 2.4, 3.6]\ndivider = false",
            CARD + "the message reaches into an ink-free zone.",
        ),
        ("[postcard-4x6.back]\ndivider = [2.5, 2, 0, 1]", CARD + "the divider reaches into an ink-free zone."),
        ("[postcard-4x6.back]\nqr = [2, 0.2, 0.7, 0.7]", CARD + "the QR code reaches into an ink-free zone."),
        ("[postcard-4x6.back]\nopt_out = [2.6, 2.6, 2, 0.1]", CARD + "the opt-out line reaches into an ink-free zone."),
        ("[postcard-4x6.back]\naddress = [2.43, 0.65, 2.9, 1.3]", CARD + "the address is not inside an ink-free zone."),
        (
            "[postcard-4x6.back]\nbarcode = [2.5665, 0.306, 2.9291, 0.145]",
            CARD + "the barcode must begin 3 1/2 to 4 1/4 in from the right edge.",
        ),
        (
            "[magnacard.back]\nbarcode = [1.7, 0.306, 2.9291, 0.145]",
            "magnacard, back: the barcode must begin 3 1/2 to 4 1/4 in from the right edge.",
        ),
        (
            "[notecard.envelope]\nbarcode = [2.3, 0.3, 2.9291, 0.145]",
            "notecard, envelope: the barcode must begin 3 1/2 to 4 1/4 in from the right edge.",
        ),
        (
            "[postcard-6x9.back]\nbarcode = [5.05, 0.49, 2.9291, 0.145]",
            "postcard-6x9, back: the barcode is outside the barcode zone, the lower right 4 3/4 by 5/8 in.",
        ),
        (
            "[postcard-4x6.back]\nmessage = [0.1875, 0.2, 2.155, 3.6]",
            CARD + "the message reaches into the barcode zone, the lower right 4 3/4 by 5/8 in.",
        ),
        (
            "[postcard-4x6.back]\nqr = [0.75, 0.2, 0.75, 0.75]",
            CARD + "the QR code reaches into the barcode zone, the lower right 4 3/4 by 5/8 in.",
        ),
        (
            "[postcard-6x11.back]\ndivider = [6.665, 0.4, 0, 5.2]",
            "postcard-6x11, back: the divider reaches into the barcode zone, the lower right 4 3/4 by 5/8 in.",
        ),
        (
            "[postcard-6x9.back]\nmessage_above_qr = [1.7, 0.5, 2.8, 3]",
            "postcard-6x9, back: the message above the QR code reaches into the barcode zone,"
            " the lower right 4 3/4 by 5/8 in.",
        ),
        (
            "[postcard-4x6.front]\naddress = [2.72, 0.65, 2.76, 1.35]",
            "postcard-4x6, front: a front that carries art cannot carry the address.",
        ),
        (
            "[letter.envelope]\nindicia = [8.1, 0.3, 1.1, 0.7]",
            "letter, envelope: the indicia reaches into the barcode zone, the lower right 4 3/4 by 5/8 in.",
        ),
        (
            "[letter.envelope]\nwindows = [[0.625, 0.5, 4.5, 1.875], [0.625, 2.625, 3.5, 1]]",
            "letter, envelope: a window reaches into the barcode zone, the lower right 4 3/4 by 5/8 in.",
        ),
        (
            "[letter.envelope]\nwindows = [[0.625, 1.425, 4, 1], [0.625, 2.75, 3.25, 0.875]]",
            "letter, cover: no window shows the whole address and barcode"
            " when the sheet slides by the 1 by 0.458 in that its envelope leaves it.",
        ),
        (
            "[letter.address]\nbarcode = [0.75, 8.1, 2.9291, 0.135]",
            "letter, address: no window shows the whole address and barcode"
            " when the sheet slides by the 1 by 0.458 in that its envelope leaves it.",
        ),
        (
            "[letter.cover]\nreturn_address = [0.75, 10.03, 3, 0.48]",
            "letter, cover: no window shows the whole return address"
            " when the sheet slides by the 1 by 0.458 in that its envelope leaves it.",
        ),
        ("[letter.cover]\nmessage = [1, 0.9, 6.5, 7]", "letter, cover: the message reaches into an ink-free zone."),
        ("[letter.envelope]\ninsert = [8.5, 4.2]", "letter, envelope: the folded insert is larger than the envelope."),
        (
            "[letter.envelope]\ninsert = [8, 3.6667]",
            "letter, cover: the insert of the envelope must be as wide as the sheet.",
        ),
        (
            "[windowlessletter.envelope]\nwindows = [[3.5, 2.8, 2, 1]]",
            "windowlessletter, envelope: insert is missing, the size of the folded sheet behind the windows.",
        ),
        (
            "[postcard-4x6.back]\nbarcode = [2.57, 0.306, 2.6, 0.145]",
            CARD + "the barcode must be 2.68 to 3.23 in wide, or its 65 bars cannot be read.",
        ),
        (
            "[postcard-6x9.back]\nbarcode = [4.9, 0.306, 3.3, 0.145]",
            "postcard-6x9, back: the barcode must be 2.68 to 3.23 in wide, or its 65 bars cannot be read.",
        ),
        (
            "[postcard-4x6.back]\nbarcode = [2.57, 0.306, 2.9, 0.2]",
            CARD + "the barcode must be 0.125 to 0.165 in high, or its bars cannot be read.",
        ),
        (
            "[postcard-4x6.back]\naddress = [2.72, 0.65, 1.9, 1.3]",
            CARD + "the address is too small; it needs at least 2 by 0.55 in.",
        ),
        (
            "[postcard-4x6.back]\nreturn_address = [2.6, 3.2, 0.9, 0.5]",
            CARD + "the return address is too small; it needs at least 1 by 0.4 in.",
        ),
        (
            "[postcard-4x6.back]\nindicia = [5, 3.4, 0.4, 0.4]",
            CARD + "the indicia is too small; it needs at least 0.5 by 0.3 in.",
        ),
        (
            "[postcard-4x6.back]\nopt_out = [2.6, 2.7, 1, 0.1]",
            CARD + "the opt-out line is too small; it needs at least 1.5 by 0.09 in.",
        ),
        (
            "[postcard-4x6.back]\nmessage = [0.1875, 0.2, 1.4, 3.6]\nmessage_above_qr = [0.2, 1.2, 1.3, 2]",
            CARD + "the message is too small; it needs at least 1.5 by 1 in.",
        ),
        (
            "[postcard-4x6.back]\nqr = [0.1875, 2.8, 0.75, 0.75]",
            CARD + "the message above the QR code is too small; it needs at least 1.5 by 0.5 in.",
        ),
        (
            "[postcard-4x6.back]\nqr = [0.1875, 0.2, 0.5, 0.5]",
            CARD + "the QR code is too small; it needs at least 0.6 by 0.6 in.",
        ),
        ("[postcard-4x6.back]\nqr = [0.1875, 0.2, 0.75, 0.8]", CARD + "the QR code is not square."),
        ("[postcard-4x6.back]\nindicia = [4.4, 3.14, 1, 0.6]", CARD + "the return address and the indicia overlap."),
        (
            "[postcard-4x6.back]\nmessage_above_qr = [0.1875, 0.9, 2.1, 2.5]",
            CARD + "the message above the QR code and the QR code overlap.",
        ),
        (
            "[postcard-6x9.back]\nmessage_above_qr = [0.3, 1.6, 4, 3]",
            "postcard-6x9, back: the message above the QR code reaches past the message.",
        ),
        (
            "[postcard-4x6.back]\nink_free = [[2.4415, 0.25, 3.6, 2.375]]",
            CARD + "an ink-free zone reaches past the trim.",
        ),
        ("[postcard-4x6.front]\nart_area = [0, 0, 6.2, 4]", "postcard-4x6, front: the art reaches past the bleed."),
        (
            "[postcard-6x9.back]\naddress = [5.05, 0.65, 3.5, 1.4]",
            "postcard-6x9, back: the address is outside the postal read area,"
            " 5/8 to 2 3/4 in high and 1/2 in from the sides.",
        ),
        (
            "[notecard.envelope]\naddress = [1.8, 1.2, 3.4, 1.8]",
            "notecard, envelope: the address is outside the postal read area,"
            " 5/8 to 2 3/4 in high and 1/2 in from the sides.",
        ),
        (
            "[windowlessletter.envelope]\nbarcode = [4.5, 0.3, 2.93, 0.145]",
            "windowlessletter, envelope: the barcode is outside the barcode zone, the lower right 4 3/4 by 5/8 in.",
        ),
        (
            "[windowlessletter.envelope]\nindicia = [8.6, 0.3, 0.6, 0.4]",
            "windowlessletter, envelope: the indicia reaches into the barcode zone, the lower right 4 3/4 by 5/8 in.",
        ),
        (
            "[letter.cover]\naddress = [0.75, 8.37, 3.25, 0.6]",
            "letter, cover: the address is too near to the barcode, which needs 1/8 in clear on both sides.",
        ),
        (
            "[letter.cover]\nreturn_address = [0.75, 9.3, 3, 0.5]",
            "letter, cover: the return address reaches into an ink-free zone.",
        ),
        (
            "[letter.cover]\nreturn_address = [3.8, 8.8, 0.9, 0.3]\naddress = [0.75, 8.405, 3, 0.72]",
            "letter, cover: the return address reaches into an ink-free zone.",
        ),
        (
            "[letter.envelope]\nindicia = [3.8, 3, 1, 0.6]",
            "letter, envelope: the indicia reaches into an ink-free zone.",
        ),
        ("[notecard.inside]\npanel = [4.25, 0, 4.5, 5.5]", "notecard, inside: the panel reaches past the trim."),
        (
            "[notecard.inside]\nmessage = [4, 0.45, 3.45, 4.6]\nmessage_above_qr = [4.65, 1.5, 3, 2]",
            "notecard, inside: the message lies across the fold.",
        ),
        (
            "[giftcard.inside]\ncard = [4.6875, 0.9, 3.375, 2.125]",
            "giftcard, inside: the message and the gift card overlap.",
        ),
        (
            "[giftcard.inside]\ncard = [4.6875, 0.42, 2.4, 1.5]",
            "giftcard, inside: the gift card is too small; it needs at least 2.5 by 1.6 in.",
        ),
    ],
)
def test_a_template_that_cannot_be_printed_is_refused_by_name(overrides: str, error: str) -> None:
    assert error in errors_of(overrides)


def test_a_tighter_fold_takes_smaller_windows() -> None:
    windows = "windows = [[0.625, 0.95, 4.5, 1.4], [0.625, 2.8, 3.5, 0.9]]"
    folded = load_products(read_shipped_toml(), f"[letter.envelope]\ninsert = [8.5, 3.875]\n{windows}")["letter"]
    cover = folded.find_side("cover")
    assert [close(zone) for zone in cover.ink_free] == [(0, 7.825, 5.125, 1.65), (0, 9.675, 4.125, 1.15)]
    assert len(errors_of(f"[letter.envelope]\n{windows}")) == 4


def test_only_an_envelope_can_be_handwritten() -> None:
    (error,) = errors_of("[postcard-4x6.back]\nhandwritten = true")
    assert "postcard-4x6, back" in error
    assert "only an envelope" in error
