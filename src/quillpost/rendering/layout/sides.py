"""One side as operators: what all copies of a design share, and what differs by recipient."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from quillpost.rendering import models
from quillpost.rendering.codes.qr import QrEncoder, draw_qr
from quillpost.rendering.handwriting.text import BAR_FONT, PLAIN_FONT, CachedFace
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.layout import fronts, giftcards
from quillpost.rendering.layout.fronts import BrandedFront, FrontBranding, PlacedPicture
from quillpost.rendering.layout.models import QR_QUIET_ZONE, DoesNotFit, Side
from quillpost.rendering.layout.text import (
    ASCENT,
    clean_line,
    draw_address,
    draw_block,
    draw_indicia,
    fit_lines,
    fit_return_address,
    rectangle_path,
)
from quillpost.rendering.models import Box, Copy, Design
from quillpost.rendering.pdf.fonts import BARCODE_FONT_SIZE

# So many modules have to be clear around a QR code.
_QUIET_MODULES = 4
_PANEL_MARGIN = 3.0
_OPT_OUT_SETTINGS = ((6.0, 1.15), (5.5, 1.15), (5.0, 1.15))
_OPT_OUT_MARGIN = 2.0
_BARCODE_WIDTH = models.BAR_PITCH * (models.BAR_COUNT - 1) + models.BAR_WIDTH


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
        parts.append(draw_divider(side.divider))
    if side.return_address and not side.handwritten:
        parts.append(_draw_return_address(side, side.return_address, design, face, over_art=bool(art)))
    if side.indicia:
        parts.append(draw_indicia(design.indicia, side.indicia, face))
    if side.card and design.giftcard:
        parts.append(giftcards.draw_card(side.card, design.giftcard, face))
    return b"".join(parts)


def draw_personal(side: Side, design: Design, copy: Copy, codes: ItemCodes, face: CachedFace) -> bytes:
    """What only this copy has, except handwriting."""
    parts = []
    if side.address and not side.handwritten:
        parts.append(draw_address(copy.addressee, side.address, face))
    if side.barcode and codes.barcode:
        parts.append(draw_barcode(codes.barcode, side.barcode))
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
        parts.append(draw_opt_out(copy.opt_out, side.opt_out, face))
    return b"".join(parts)


def clip_art(area: Box, holes: Sequence[Box]) -> bytes:
    """Clips to the area without the holes: one for each, as holes may overlap."""
    inside = rectangle_path(area) + b" W n"
    return b" ".join([inside, *(_clip_around(hole, area) for hole in holes if hole.overlaps(area))])


def _clip_around(hole: Box, area: Box) -> bytes:
    """A clip to the area without the hole, by the even-odd rule."""
    left, bottom = min(hole.left, area.left) - 1, min(hole.bottom, area.bottom) - 1
    right, top = max(hole.right, area.right) + 1, max(hole.top, area.top) + 1
    outer_box = Box(left, bottom, right - left, top - bottom)
    return b"%b %b W* n" % (rectangle_path(outer_box), rectangle_path(hole))


def draw_white_panel(box: Box) -> bytes:
    return b"q 1 g %b f Q\n" % rectangle_path(box)


def _draw_generated_front(
    side: Side, design: Design, logo: PlacedPicture | None, vocabulary: Vocabulary, face: CachedFace
) -> bytes:
    greeting = fronts.write_greeting(vocabulary)
    paper_box = side.art_area or side.bleed_box
    if design.branding is None:
        return fronts.draw_plain_front(side.preview_area, paper_box, greeting, design.sender, face)
    brand = FrontBranding(design.branding, logo, design.sender)
    return BrandedFront(side.preview_area, brand, face).draw(paper_box, greeting)


def _draw_return_address(side: Side, box: Box, design: Design, face: CachedFace, *, over_art: bool) -> bytes:
    block = fit_return_address(design.return_address, box, face)
    if block is None:
        return b""
    panel = b""
    if over_art and not any(zone.contains(box) for zone in side.ink_free):
        text_area = Box(box.left, box.top - block.height, block.measure_width(face), block.height)
        panel = draw_white_panel(text_area.expand(_PANEL_MARGIN))
    return panel + draw_block(block, box, face)


def draw_divider(line: Box) -> bytes:
    return b"q .78 G .5 w %.2f %.2f m %.2f %.2f l S Q\n" % (line.left, line.bottom, line.right, line.top)


def draw_barcode(bars: bytes, box: Box) -> bytes:
    """The postal barcode from its 65 letters of TDAF, as wide and as high as the box."""
    return b"%b%b)Tj ET\n" % (_barcode_prefix(box), bars)


@lru_cache(maxsize=64)
def _barcode_prefix(box: Box) -> bytes:
    """Cached: all barcodes of a batch stand in the same place."""
    scales = (box.width / _BARCODE_WIDTH, box.height / models.BAR_HEIGHT)
    return b"BT 0 g %b %.3f Tf %.4f 0 0 %.4f %.2f %.2f Tm(" % (
        BAR_FONT,
        BARCODE_FONT_SIZE,
        *scales,
        box.left,
        box.bottom,
    )


def draw_opt_out(text: str, box: Box, face: CachedFace) -> bytes:
    """How to get no more mail, gray on white to be readable over any art; if too long, only its last word."""
    line = clean_line(text, face)
    if not line:
        return b""
    try:
        block = fit_lines([line], box, _OPT_OUT_SETTINGS, face, "opt-out line")
    except DoesNotFit:
        line = line.rsplit(" ", 1)[-1]
        block = fit_lines([line], box, _OPT_OUT_SETTINGS, face, "opt-out line")
    height = block.height
    panel = Box(box.left, box.bottom + (box.height - height) / 2, block.measure_width(face), height)
    text_start = (PLAIN_FONT, block.size, panel.left, panel.top - block.size * ASCENT)
    background = b"q 1 g %b f Q" % rectangle_path(panel.expand(_OPT_OUT_MARGIN))
    return background + b" BT .35 g %b %.1f Tf %.2f %.2f Td%bTj ET\n" % (*text_start, face.encode(line))
