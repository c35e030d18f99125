"""One side as operators: what all copies of a design share, and what differs by recipient."""

from collections.abc import Sequence
from typing import NamedTuple

from quillpost.rendering.codes.qr import QrEncoder, draw_qr
from quillpost.rendering.handwriting.text import CachedFace
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.layout import fronts, furniture, giftcards
from quillpost.rendering.layout.fronts import FrontBranding, PlacedPicture, draw_branded_front
from quillpost.rendering.layout.models import QR_QUIET_ZONE, Side
from quillpost.rendering.layout.paragraphs import Passage, SizeRange
from quillpost.rendering.models import Addressee, Box, Copy, Design

_PASSAGES_PER_ITEM = 3
# So many modules have to be clear around a QR code.
_QUIET_MODULES = 4
_PANEL_MARGIN = 3.0

# On an envelope a person writes neither tiny nor across all of it.
_ADDRESS_SIZES = SizeRange(10.0, 19.0)
_RETURN_SIZES = SizeRange(8.0, 12.0)


class ItemCodes(NamedTuple):
    """The codes of one copy, ready to be drawn."""

    barcode: bytes | None
    qr_encoder: QrEncoder


def move_to_trim(side: Side) -> bytes:
    return b"1 0 0 1 %.2f %.2f cm\n" % (side.bleed, side.bleed) if side.bleed else b""


def draw_shared(
    side: Side, design: Design, art: bytes, logo: PlacedPicture | None, vocabulary: Vocabulary, face: CachedFace
) -> bytes:
    """What every copy has on this side; `art` draws the picture, or is empty."""
    parts = [art]
    if side.is_cover and not art:
        parts.append(_draw_generated_front(side, design, logo, vocabulary, face))
    if side.divider:
        parts.append(furniture.draw_divider(side.divider))
    if side.return_address and not side.handwritten:
        parts.append(_draw_return_address(side, side.return_address, design, face, over_art=bool(art)))
    if side.indicia:
        parts.append(furniture.draw_indicia(design.indicia, side.indicia, face))
    if side.card and design.giftcard:
        parts.append(giftcards.draw_card(side.card, design.giftcard, face))
    return b"".join(parts)


def draw_personal(side: Side, design: Design, copy: Copy, codes: ItemCodes, face: CachedFace) -> bytes:
    """What only this copy has, except handwriting."""
    parts = []
    if side.address and not side.handwritten:
        parts.append(furniture.draw_address(copy.addressee, side.address, face))
    if side.barcode and codes.barcode:
        parts.append(furniture.draw_barcode(codes.barcode, side.barcode))
    if side.qr and copy.qr_url is not None:
        symbol = codes.qr_encoder.encode(copy.qr_url)
        if side.art and (design.front if side.art == "front" else design.background) is not None:
            quiet_zone = min(_QUIET_MODULES * side.qr.width / symbol.side, QR_QUIET_ZONE)
            parts.append(draw_white_panel(side.qr.expand(quiet_zone)))
        parts.append(draw_qr(symbol, side.qr))
    if side.card and copy.claim:
        symbol = codes.qr_encoder.encode(copy.claim.url)
        parts.append(giftcards.draw_claim(side.card, copy.claim, symbol, face))
    if side.opt_out and copy.opt_out:
        parts.append(furniture.draw_opt_out(copy.opt_out, side.opt_out, face))
    return b"".join(parts)


def make_message_passage(
    side: Side, design: Design, text: str, seed: int, *, qr: bool, sizes: SizeRange, is_even: bool
) -> Passage | None:
    box = side.message_box(qr=qr)
    if not box or not text:
        return None
    passage_seed, is_centered = _PASSAGES_PER_ITEM * seed, side.message_align == "center"
    return Passage("message", text, box, sizes, design.ink, passage_seed, is_even, is_centered=is_centered)


def make_address_passage(
    side: Side, design: Design, addressee: Addressee, seed: int, *, is_even: bool
) -> Passage | None:
    if not side.handwritten or not side.address:
        return None
    lines = furniture.handwritten_address_lines(addressee)
    if not lines:
        return None
    passage_seed = _PASSAGES_PER_ITEM * seed + 1
    text = "\n".join(lines)
    return Passage("address", text, side.address, _ADDRESS_SIZES, design.ink, passage_seed, is_even, keeps_words=True)


def make_return_passage(side: Side, design: Design, seed: int, *, is_even: bool) -> Passage | None:
    box = side.return_address
    if not side.handwritten or not box:
        return None
    lines = furniture.handwritten_return_lines(design.return_address)
    if not lines:
        return None
    passage_seed = _PASSAGES_PER_ITEM * seed + 2
    text = "\n".join(lines)
    return Passage("return address", text, box, _RETURN_SIZES, design.ink, passage_seed, is_even, keeps_words=True)


def clip_art(area: Box, holes: Sequence[Box]) -> bytes:
    """Clips to the area without the holes: one for each, as holes may overlap."""
    inside = furniture.rectangle_path(area) + b" W n"
    return b" ".join([inside, *(_clip_around(hole, area) for hole in holes if hole.overlaps(area))])


def _clip_around(hole: Box, area: Box) -> bytes:
    """A clip to the area without the hole, by the even-odd rule."""
    left, bottom = min(hole.left, area.left) - 1, min(hole.bottom, area.bottom) - 1
    right, top = max(hole.right, area.right) + 1, max(hole.top, area.top) + 1
    outer_box = Box(left, bottom, right - left, top - bottom)
    return b"%b %b W* n" % (furniture.rectangle_path(outer_box), furniture.rectangle_path(hole))


def draw_white_panel(box: Box) -> bytes:
    return b"q 1 g %b f Q\n" % furniture.rectangle_path(box)


def _draw_generated_front(
    side: Side, design: Design, logo: PlacedPicture | None, vocabulary: Vocabulary, face: CachedFace
) -> bytes:
    greeting = fronts.write_greeting(vocabulary)
    paper_box = side.art_area or side.bleed_box
    if design.branding is None:
        return fronts.draw_plain_front(side.preview_area, paper_box, greeting, design.sender, face)
    brand = FrontBranding(design.branding, logo, design.sender)
    return draw_branded_front(side.preview_area, paper_box, greeting, brand, face)


def _draw_return_address(side: Side, box: Box, design: Design, face: CachedFace, *, over_art: bool) -> bytes:
    operators = furniture.draw_return_address(design.return_address, box, face)
    panel = furniture.return_address_box(design.return_address, box, face) if over_art else None
    is_clear = any(zone.contains(box) for zone in side.ink_free)
    return operators if panel is None or is_clear else draw_white_panel(panel.expand(_PANEL_MARGIN)) + operators
