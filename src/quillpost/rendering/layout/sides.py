"""One side of a piece as operators: what all copies of a design share, and what is one recipient's alone."""

from collections.abc import Sequence
from typing import NamedTuple

from quillpost.rendering.codes.qr import QrEncoder, draw_qr
from quillpost.rendering.geometry import Box
from quillpost.rendering.handwriting.plain import Lettering
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.layout import fronts, furniture, giftcards
from quillpost.rendering.layout.fronts import Brand, PlacedPicture, draw_branded_front
from quillpost.rendering.layout.paragraphs import Passage, Sizes
from quillpost.rendering.layout.products import QR_QUIET, Side
from quillpost.rendering.models import Addressee, Copy, Design

_PASSAGES_A_PIECE = 3
# So many modules have to be clear around a QR code.
_QUIET_MODULES = 4
_PANEL_MARGIN = 3.0

# On an envelope a person writes neither tiny nor across all of it.
_ADDRESS_SIZES = Sizes(10.0, 19.0)
_RETURN_SIZES = Sizes(8.0, 12.0)


class Codes(NamedTuple):
    """What machines read on one copy, ready to be drawn."""

    bars: bytes | None
    qr: QrEncoder


def to_trim(side: Side) -> bytes:
    """Moves the origin from the corner of the sheet to that of the finished piece."""
    return b"1 0 0 1 %.2f %.2f cm\n" % (side.bleed, side.bleed) if side.bleed else b""


def shared(
    side: Side,
    design: Design,
    art: bytes,
    logo: PlacedPicture | None,
    vocabulary: Vocabulary,
    face: Lettering,
) -> bytes:
    """What every copy has on this side; `art` draws the picture, or is empty without one."""
    parts = [art]
    if side.is_cover and not art:
        parts.append(_own_front(side, design, logo, vocabulary, face))
    if side.divider:
        parts.append(furniture.draw_divider(side.divider))
    if side.return_address and not side.handwritten:
        parts.append(_return_address(side, side.return_address, design, face, over_art=bool(art)))
    if side.indicia:
        parts.append(furniture.draw_indicia(design.indicia, side.indicia, face))
    if side.card and design.giftcard:
        parts.append(giftcards.draw_card(side.card, design.giftcard, face))
    return b"".join(parts)


def personal(side: Side, design: Design, copy: Copy, codes: Codes, face: Lettering) -> bytes:
    """What only this copy has, but for its handwriting."""
    parts = []
    if side.address and not side.handwritten:
        parts.append(furniture.draw_address(copy.addressee, side.address, face))
    if side.barcode and codes.bars:
        parts.append(furniture.draw_bars(codes.bars, side.barcode))
    if side.qr and copy.qr_url is not None:
        symbol = codes.qr.encode(copy.qr_url)
        if _has_art(side, design):
            quiet = min(_QUIET_MODULES * side.qr.width / symbol.side, QR_QUIET)
            parts.append(white(side.qr.grown(quiet)))
        parts.append(draw_qr(symbol, side.qr))
    if side.card and copy.claim:
        symbol = codes.qr.encode(copy.claim.url)
        parts.append(giftcards.draw_claim(side.card, copy.claim, symbol, face))
    if side.opt_out and copy.opt_out:
        parts.append(furniture.draw_opt_out(copy.opt_out, side.opt_out, face))
    return b"".join(parts)


def message_passage(
    side: Side, design: Design, text: str, seed: int, *, qr: bool, sizes: Sizes, is_even: bool
) -> Passage | None:
    """The message in its place on this side, if it has one."""
    box = side.message_box(qr=qr)
    if not box or not text:
        return None
    own, is_centered = _PASSAGES_A_PIECE * seed, side.message_align == "center"
    return Passage("message", text, box, sizes, design.ink, own, is_even, is_centered=is_centered)


def address_passage(
    side: Side, design: Design, addressee: Addressee, seed: int, *, is_even: bool
) -> Passage | None:
    """The address on a side where it is in the hand."""
    if not side.handwritten or not side.address:
        return None
    lines = furniture.written_lines(addressee)
    if not lines:
        return None
    own = _PASSAGES_A_PIECE * seed + 1
    text = "\n".join(lines)
    return Passage("address", text, side.address, _ADDRESS_SIZES, design.ink, own, is_even, keeps_words=True)


def return_passage(side: Side, design: Design, seed: int, *, is_even: bool) -> Passage | None:
    """The return address on such a side."""
    box = side.return_address
    if not side.handwritten or not box:
        return None
    lines = furniture.written_return_lines(design.return_address)
    if not lines:
        return None
    own = _PASSAGES_A_PIECE * seed + 2
    text = "\n".join(lines)
    return Passage("return address", text, box, _RETURN_SIZES, design.ink, own, is_even, keeps_words=True)


def masked(area: Box, holes: Sequence[Box]) -> bytes:
    """Clips that keep art inside its area and out of the holes: one for each, as holes may overlap."""
    inside = furniture.rectangle(area) + b" W n"
    return b" ".join([inside, *(_around(hole, area) for hole in holes if hole.meets(area))])


def _around(hole: Box, area: Box) -> bytes:
    """A clip to all of the area but the hole, by the even-odd rule: both lie within a larger box."""
    left, bottom = min(hole.left, area.left) - 1, min(hole.bottom, area.bottom) - 1
    right, top = max(hole.right, area.right) + 1, max(hole.top, area.top) + 1
    around = Box(left, bottom, right - left, top - bottom)
    return b"%b %b W* n" % (furniture.rectangle(around), furniture.rectangle(hole))


def white(box: Box) -> bytes:
    """A quiet panel, so that a reader finds its contrast over any background."""
    return b"q 1 g %b f Q\n" % furniture.rectangle(box)


def _own_front(
    side: Side, design: Design, logo: PlacedPicture | None, vocabulary: Vocabulary, face: Lettering
) -> bytes:
    """A cover without art: its sender's branding, or plain."""
    greeting = fronts.greeting_in(vocabulary)
    paper = side.art_area or side.bleed_box
    if design.branding is None:
        return fronts.draw_plain_front(side.shown, paper, greeting, design.sender, face)
    brand = Brand(design.branding, logo, design.sender)
    return draw_branded_front(side.shown, paper, greeting, brand, face)


def _has_art(side: Side, design: Design) -> bool:
    picture = design.front if side.art == "front" else design.background
    return side.art is not None and picture is not None


def _return_address(side: Side, box: Box, design: Design, face: Lettering, *, over_art: bool) -> bytes:
    drawn = furniture.draw_return_address(design.return_address, box, face)
    panel = furniture.return_panel(design.return_address, box, face) if over_art else None
    is_clear = any(zone.contains(box) for zone in side.ink_free)
    return drawn if panel is None or is_clear else white(panel.grown(_PANEL_MARGIN)) + drawn
