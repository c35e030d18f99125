"""Signatures close a message: below its last line, inside its box, in its ink, and once in a file."""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pikepdf
import pytest

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.models import MANNER_NAMES
from quillpost.rendering.handwriting.sheet.models import Signature
from quillpost.rendering.layout.models import DoesNotFit
from quillpost.rendering.layout.signatures import MAX_GROWTH, MAX_RISE
from quillpost.rendering.models import INCH, Box, Design
from support import designs, signatures
from support.page_reader import Pages
from support.pdfx_checks import find_errors, find_qpdf_errors

INK = (0.8, 0.2, 0.2)
FLOWING, FLAT = signatures.flowing_signature(), signatures.flat_signature()
NARROW = Signature((np.array([[0.0, 0.0], [0.3, 0.0], [0.3, 1.0], [0.0, 0.4]]),), 0.3)
SIGNATURES = {"flowing": FLOWING, "flat": FLAT, "narrow": NARROW}
EVERY_PIECE = pytest.mark.parametrize("piece", designs.PIECES)
NOTE = "Hi %FIRST_NAME%,\nsee you soon!\nWarmly,"

_DRAWN = re.compile(
    rb"q ([\d.]+ [\d.]+ [\d.]+) rg (-?[\d.]+) (-?[\d.]+) (-?[\d.]+) (-?[\d.]+) (-?[\d.]+) (-?[\d.]+) cm/S Do Q"
)


def signed(piece: str = "postcard-4x6", message: str = NOTE, signature: Signature = FLOWING, **changes: Any) -> Design:
    return designs.design(piece, message, ink=INK, signature=signature.to_bytes(), **changes)


def message_page(piece: str) -> int:
    product = designs.PIECES[piece]
    return product.sides.index(product.message_side)


def matrices_in(file: Pages, page: int) -> list[tuple[bytes, tuple[float, ...]]]:
    """The ink and the matrix of each signature on a page."""
    found = [match.groups() for stream in file.streams(page) for match in _DRAWN.finditer(stream)]
    return [(ink, tuple(map(float, numbers))) for ink, *numbers in found]


def signature_box(signature: Signature, matrix: tuple[float, ...]) -> Box:
    """Around its ink, point by point."""
    a, b, c, d, e, f = matrix
    points = np.concatenate(signature.outlines) @ np.array([[a, b], [c, d]]) + (e, f)
    (left, bottom), (right, top) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return Box(left, bottom, right - left, top - bottom)


def written_boxes(look: Design, signature: Signature, *, qr: bool, item_id: int = 7) -> tuple[Box, list[Box], Box]:
    """The box of the message, those of its words, and that of the signature."""
    side, page = designs.PIECES[look.product].message_side, message_page(look.product)
    one = designs.copy(item_id, qr_url=designs.QR_URL if qr else None, claim=designs.CLAIM)
    file = Pages(designs.compose_item(look, [one]).sheets)
    box, words = designs.message_box(side, qr=qr), [glyph.ink for glyph in file.written(page, INK) if glyph.ink]
    ((_, matrix),) = matrices_in(file, page)
    assert box
    return box, words, signature_box(signature, matrix)


def letters_of(piece: str) -> Iterator[tuple[str, str]]:
    """Messages with the size that they are in; the long one fills much of its box."""
    words = 14 if piece == "giftcard" else 30
    yield from (
        (NOTE, "auto"),
        (NOTE, "small"),
        ("Thank you!", "large"),
        ("some words of mine " * (words // 4), "auto"),
    )


@EVERY_PIECE
def test_a_signature_stands_below_the_last_line_inside_the_box_of_the_message(
    piece: str, subtests: pytest.Subtests
) -> None:
    side = designs.PIECES[piece].message_side
    for name, signature in SIGNATURES.items():
        for number, (message, size) in enumerate(letters_of(piece)):
            for qr in (False, True):
                with subtests.test(signature=name, message=message, size=size, qr=qr):
                    look = signed(piece, message, signature, font_size=size, manner=MANNER_NAMES[number % 3])
                    box, words, shown = written_boxes(look, signature, qr=qr)
                    text = designs.around(words)
                    assert box.expand(designs.HAIR).contains(shown)
                    assert shown.top <= text.bottom + designs.HAIR
                    assert abs(shown.left - text.left) < 0.35 * INCH
                    assert shown.width <= 0.56 * box.width
                    assert shown.height <= 0.95 * INCH
                    assert not any(zone.overlaps(shown) for zone in side.ink_free)
                    assert not (qr and side.qr and side.qr.overlaps(shown))


def test_a_signature_is_about_two_lines_high_and_small_on_small_pieces() -> None:
    heights = {
        piece: written_boxes(signed(piece, signature=NARROW, font_size="medium"), NARROW, qr=False)[2].height / INCH
        for piece in ("giftcard", "postcard-4x6", "letter")
    }
    assert 0.33 < heights["giftcard"] < heights["postcard-4x6"]
    assert heights["postcard-4x6"] == pytest.approx(heights["letter"], rel=0.1)
    small, large = (
        written_boxes(signed("letter", NOTE, NARROW, font_size=size), NARROW, qr=False)[2].height
        for size in ("small", "large")
    )
    assert 1.3 < large / small < 1.8
    wide = written_boxes(signed("letter", NOTE, FLAT, font_size="large"), FLAT, qr=False)[2]
    assert wide.width < 2.5 * INCH


def test_a_short_note_and_its_signature_are_centered_together() -> None:
    for piece in ("postcard-6x9", "notecard"):
        box, words, shown = written_boxes(signed(piece), FLOWING, qr=False)
        both = designs.around([*words, shown])
        above, below = box.top - both.top, both.bottom - box.bottom
        assert both.left - box.left == pytest.approx((box.width - both.width) / 2, abs=0.2 * INCH)
        assert 0.36 < above / (above + below) < 0.5
    box, words, _ = written_boxes(signed("letter"), FLOWING, qr=False)
    assert box.top - designs.around(words).top < INCH / 8


def test_the_ink_is_that_of_the_note_and_the_text_of_the_page_stays_as_it_was() -> None:
    look = signed("notecard")
    page = message_page("notecard")
    files = [designs.compose_item(own).sheets for own in (look, replace(look, signature=None))]
    ((ink, _),) = matrices_in(Pages(files[0]), page)
    assert tuple(map(float, ink.split())) == INK
    assert designs.page_text(files[0], page) == designs.page_text(files[1], page)
    assert matrices_in(Pages(files[1]), page) == []
    drawn = designs.image_of(rasterize_pages(files[0], dpi=200, pages=[page])[0])
    box = written_boxes(look, FLOWING, qr=False)[2]
    shown = np.asarray(designs.cropped(drawn, box, 200)).reshape(-1, 3).astype(int)
    darkest = shown[shown.sum(axis=1).argmin()]
    assert np.abs(darkest - 255 * np.array(INK)).max() < 5


def test_each_signature_differs_a_little_and_the_same_piece_has_the_same_bytes() -> None:
    look, page = signed("notecard", font_size="medium", manner="lively"), message_page("notecard")
    people = [replace(designs.JENNY, address=f"{number} Elm Street") for number in range(60)]
    copies = [designs.copy(number, person) for number, person in enumerate(people)]
    file = Pages(designs.compose_item(look, copies).sheets)
    matrices = [matrices_in(file, page + 2 * number)[0][1] for number in range(60)]
    heights = np.array([matrix[0] for matrix in matrices])
    rises = np.array([matrix[1] / matrix[0] for matrix in matrices])
    assert 1.03 < heights.max() / heights.min() <= (1 + MAX_GROWTH) / (1 - MAX_GROWTH) + 0.001
    assert np.degrees(np.arctan(np.abs(rises).max())) < 2
    assert np.abs(rises).max() <= MAX_RISE + 0.001
    assert np.ptp(rises) > 0.02
    assert len({matrix[4] for matrix in matrices}) > 20
    alone = Pages(designs.compose_item(look, copies[9:10]).sheets)
    assert matrices_in(alone, page)[0][1] == matrices[9]
    files = [designs.compose_item(look, copies[:3]).sheets for _ in range(2)]
    assert files[0] == files[1]


def forms_in(pdf: bytes) -> list[bytes]:
    with pikepdf.open(io.BytesIO(pdf)) as document:
        streams = [thing for thing in document.objects if isinstance(thing, pikepdf.Stream)]
        return [stream.read_bytes() for stream in streams if stream.get("/Subtype") == "/Form"]


def test_designs_share_one_form_and_each_has_its_own_signature(tmp_path: Path) -> None:
    looks = {
        0: signed(),
        1: signed("postcard-6x9", "Hello", front=designs.picture()),
        2: signed("notecard", signature=FLAT),
        3: designs.design(message=NOTE),
        4: signed("giftcard", hand=designs.LETTERING),
    }
    copies = [designs.copy(number, design=number % 5, claim=designs.CLAIM) for number in range(40)]
    files = designs.compose_item(looks, copies)
    assert len(forms_in(files.sheets)) == 2
    assert files.envelopes
    assert forms_in(files.envelopes) == []
    document = Pages(files.sheets).document
    resources = [
        document.pages[first - 1 + message_page(looks[number].product)].obj.Resources
        for number, (first, _) in enumerate(files.page_ranges[:5])
    ]
    forms = [page.XObject.S.objgen for page in resources if "/XObject" in page]
    assert len(forms) == 4
    assert forms[0] == forms[1] == forms[3] != forms[2]
    for pdf in (files.sheets, files.envelopes):
        assert find_errors(pdf) == []
        assert not find_qpdf_errors(pdf, tmp_path)
    costs = []
    for look in (looks[0], replace(looks[0], signature=None)):
        few, many = (designs.compose_item(look, [designs.copy(n) for n in range(count)]).sheets for count in (10, 210))
        costs.append((len(many) - len(few)) / 200)
    assert costs[0] - costs[1] < 100


@EVERY_PIECE
def test_a_preview_shows_the_signature_and_envelopes_have_none(piece: str) -> None:
    look = signed(piece)
    shown, plain = (
        designs.make_renderer().preview(own, designs.copy(claim=designs.CLAIM), dpi=50)
        for own in (look, replace(look, signature=None))
    )
    side = designs.PIECES[piece].message_side.name
    name = next(name for name, of_side in designs.PIECES[piece].previews.items() if of_side == side)
    assert shown.sides[name] != plain.sides[name]
    assert all(shown.sides[other] == plain.sides[other] for other in shown.sides if other != name)
    assert shown.envelope == plain.envelope


def test_a_signature_takes_room_and_a_misfit_counts_its_lines() -> None:
    renderer, refused, smaller = designs.make_renderer(), 0, 0
    for count in range(60, 160, 2):
        plain = designs.design(message="word " * count, ink=INK)
        look = replace(plain, signature=NARROW.to_bytes())
        without, found = (renderer.find_misfits(own, [designs.JENNY], qr=True) for own in (plain, look))
        if found.messages:
            with pytest.raises(DoesNotFit) as refusal:
                designs.compose_item(look, [designs.copy(qr_url=designs.QR_URL)])
            assert refusal.value.message == found.messages[0].message
            refused += not without.messages
            lines, lines_without = (of.messages[0].overflow_lines if of.messages else 0 for of in (found, without))
            assert lines_without < lines <= lines_without + 4
            advised = int(re.findall(r"about (\d+) characters", found.messages[0].message)[0])
            shorter = replace(look, message=look.message[: -advised - 5])
            assert not renderer.find_misfits(shorter, [designs.JENNY], qr=True).messages
        else:
            assert found.smallest_size
            assert without.smallest_size
            assert found.smallest_size <= without.smallest_size
            smaller += found.smallest_size < without.smallest_size
            assert not renderer.find_misfits(look, [designs.JENNY], qr=False).messages
            designs.compose_item(look, [designs.copy(qr_url=designs.QR_URL), designs.copy()])
    assert refused > 1
    assert smaller > 5


def test_a_signature_needs_no_message_and_a_pdf_of_the_senders_own_has_none() -> None:
    for message in ("", " \n ", "%CUSTOM1%"):
        for piece in ("postcard-4x6", "notecard", "giftcard"):
            look, page = signed(piece, message), message_page(piece)
            pdf = designs.compose_item(look, [designs.FULL]).sheets
            ((_, matrix),) = matrices_in(Pages(pdf), page)
            box = designs.message_box(designs.PIECES[piece].message_side, qr=True)
            assert box
            assert box.contains(signature_box(FLOWING, matrix))
            assert find_errors(pdf) == []
            assert not designs.make_renderer().find_misfits(look, [designs.JENNY], qr=True).messages
    look = signed("letter", pdf_only=True)
    assert forms_in(designs.compose_item(look).sheets) == []
