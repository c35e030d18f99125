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
from quillpost.rendering.layout.panels import bounding_box
from quillpost.rendering.layout.text import (
    ASCENT,
    TextBlock,
    clean_line,
    draw_address,
    draw_block,
    draw_indicia,
    fit_lines,
    fit_return_address,
    rectangle_path,
)
from quillpost.rendering.models import INCH, Box, Copy, Design
from quillpost.rendering.pdf.fonts import BARCODE_FONT_SIZE

_OPT_OUT_SETTINGS = ((6.0, 1.15), (5.5, 1.15), (5.0, 1.15))
_OPT_OUT_MARGIN = 2.0
_PANEL_GAP = INCH / 4  # white panels that are nearer to one another become one
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
    if side.divider and not (art and side.art_holes):  # the edge of a white panel divides as well
        parts.append(draw_divider(side.divider))
    if side.return_address and not side.handwritten:
        parts.append(_draw_return_address(side.return_address, design, face))
    if side.indicia:
        parts.append(draw_indicia(design.indicia, side.indicia, face))
    if side.card and design.giftcard:
        parts.append(giftcards.draw_card(side.card, design.giftcard, face))
    return b"".join(parts)


def draw_personal(side: Side, design: Design, copy: Copy, codes: ItemCodes, face: CachedFace) -> bytes:
    """What only this copy has, except handwriting."""
    has_qr = side.qr is not None and copy.qr_url is not None
    opt_out = fit_opt_out(copy.opt_out, side.opt_out, face) if side.opt_out and copy.opt_out else None
    is_over_art = find_art(side, design) is not None
    parts = [draw_white_panel(panel) for panel in _personal_panels(side, opt_out, has_qr=has_qr)] if is_over_art else []
    if side.address and not side.handwritten:
        parts.append(draw_address(copy.addressee, side.address, face))
    if side.barcode and codes.barcode:
        parts.append(draw_barcode(codes.barcode, side.barcode))
    if side.qr and copy.qr_url is not None:
        parts.append(draw_qr(codes.qr_encoder.encode(copy.qr_url), side.qr))
    if side.card and copy.claim:
        symbol = codes.qr_encoder.encode(copy.claim.url)
        parts.append(giftcards.draw_claim(side.card, copy.claim, symbol, face))
    if opt_out:
        parts.append(draw_opt_out(opt_out, face))
    return b"".join(parts)


def find_art(side: Side, design: Design) -> bytes | None:
    """The sender's picture under everything on this side."""
    return design.front if side.art == "front" else design.background if side.art else None


def _personal_panels(side: Side, opt_out: "OptOutLine | None", *, has_qr: bool) -> list[Box]:
    """The white panels on art of what only some copies have, one for both where they are near."""
    panels = [side.qr_panel] if has_qr and side.qr_panel else []
    if opt_out and _is_on_art(side, opt_out.panel):
        if panels and panels[0].expand(_PANEL_GAP).overlaps(opt_out.panel):
            # As much white around the line as around the code.
            joined = bounding_box(panels[0], opt_out.area.expand(QR_QUIET_ZONE))
            if not (side.message_above_qr and joined.overlaps(side.message_above_qr)):
                return [joined]
        panels.append(opt_out.panel)
    return panels


def _is_on_art(side: Side, box: Box) -> bool:
    area = side.art_area or side.bleed_box
    return area.overlaps(box) and not any(hole.contains(box) for hole in side.art_holes)


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


def _draw_return_address(box: Box, design: Design, face: CachedFace) -> bytes:
    block = fit_return_address(design.return_address, box, face)
    return draw_block(block, box, face) if block else b""


def draw_divider(line: Box) -> bytes:
    return b"q .78 G .5 w %.2f %.2f m %.2f %.2f l S Q\n" % (line.left, line.bottom, line.right, line.top)


def draw_barcode(bars: bytes, box: Box) -> bytes:
    """The postal barcode from its 65 letters of TDAF, as wide and as high as the box."""
    return b"%b%b)Tj ET\n" % (_barcode_prefix(box.left, box.bottom, box.width, box.height), bars)


@lru_cache(maxsize=64)
def _barcode_prefix(left: float, bottom: float, width: float, height: float) -> bytes:
    """Cached: all barcodes of a batch stand in the same place."""
    scales = (width / _BARCODE_WIDTH, height / models.BAR_HEIGHT)
    return b"BT 0 g %b %.3f Tf %.4f 0 0 %.4f %.2f %.2f Tm(" % (BAR_FONT, BARCODE_FONT_SIZE, *scales, left, bottom)


class OptOutLine(NamedTuple):
    """How to get no more mail; `area` is that of its letters."""

    block: TextBlock
    area: Box

    @property
    def panel(self) -> Box:
        return self.area.expand(_OPT_OUT_MARGIN)


def fit_opt_out(text: str, box: Box, face: CachedFace) -> OptOutLine | None:
    """If the text is too long, only its last word. Raises DoesNotFit."""
    line = clean_line(text, face)
    if not line:
        return None
    try:
        block = fit_lines([line], box, _OPT_OUT_SETTINGS, face, "opt-out line")
    except DoesNotFit:
        block = fit_lines([line.rsplit(" ", 1)[-1]], box, _OPT_OUT_SETTINGS, face, "opt-out line")
    height = block.height
    return OptOutLine(block, Box(box.left, box.bottom + (box.height - height) / 2, block.measure_width(face), height))


def draw_opt_out(opt_out: OptOutLine, face: CachedFace) -> bytes:
    size, area = opt_out.block.size, opt_out.area
    text_start = (PLAIN_FONT, size, area.left, area.top - size * ASCENT)
    return b"BT .35 g %b %.1f Tf %.2f %.2f Td%bTj ET\n" % (*text_start, face.encode(opt_out.block.lines[0]))
