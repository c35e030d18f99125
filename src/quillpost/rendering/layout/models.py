"""What a product is made of: printed sides, and where everything on each of them goes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quillpost.rendering.layout.panels import bounding_box, extend_to_edges, join_boxes
from quillpost.rendering.models import DEFAULT_MANNER, INCH, Box, Ink

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

QR_QUIET_ZONE = INCH / 6

MAX_FONT_SIZE, MIN_FONT_SIZE = 26.0, 11.0
FIXED_SIZES = {"large": 22.0, "medium": 17.0, "small": 13.0}
WANDER_ROOM = 0.05  # in font sizes, above and below: a person's lines are not quite level

# In the lower right corner of what the post sees, room for a barcode and for nothing else.
_BARCODE_ZONE_WIDTH, _BARCODE_ZONE_HEIGHT = INCH * 4.75, INCH * 5 / 8

_PIXEL_MARGIN = 0.5  # of a printer, and of previews down to 144 dpi
_PANEL_MARGIN = 3.0
_NARROWEST_ART = INCH * 1.5  # beside a panel; less looks like a leftover

SAFE_MARGIN = INCH * 3 / 16
"""What is nearer to the edge of the sheet might be cut."""

_CARD_SIDE_NAMES = frozenset({"front", "back"})  # the faces of a card that is mailed without an envelope


@dataclass(frozen=True, kw_only=True)
class Side:
    """One printed side of a sheet, in points from the lower left of the trim.

    `art` says which picture lies under everything, "front" or "background", and `art_area` where, with its bleed. In
    the `ink_free` zones only the addresses and the barcode print. A message that does not fill its box lies in its
    `center`, or begins at the `top`. On a `handwritten` side the addresses are in the hand. `panel` is the part of a
    folded sheet that a preview shows. An envelope may have `windows`; `insert` is then the size of its folded sheet.
    """

    name: str
    trim: Box
    bleed: float = 0.0
    art: str | None = None
    art_area: Box | None = None
    message: Box | None = None
    message_above_qr: Box | None = None
    message_align: str = "center"
    divider: Box | None = None
    return_address: Box | None = None
    indicia: Box | None = None
    address: Box | None = None
    barcode: Box | None = None
    qr: Box | None = None
    card: Box | None = None
    opt_out: Box | None = None
    ink_free: tuple[Box, ...] = ()
    handwritten: bool = False
    panel: Box | None = None
    windows: tuple[Box, ...] = ()
    insert: tuple[float, float] | None = None

    @property
    def bleed_box(self) -> Box:
        return self.trim.expand(self.bleed)

    @property
    def is_cover(self) -> bool:
        """Whether this is the front of a card, which without art gets a generated one."""
        return self.art == "front" and self.message is None

    @property
    def faces_post(self) -> bool:
        """Whether postal machines see this side: an envelope, or the face of a card with the address."""
        return self.name == "envelope" or (self.address is not None and self.name in _CARD_SIDE_NAMES)

    @property
    def barcode_zone(self) -> Box | None:
        """The zone of a side that faces the post in which only the barcode prints."""
        if not self.faces_post:
            return None
        right, bottom = self.trim.right, self.trim.bottom
        return Box(right - _BARCODE_ZONE_WIDTH, bottom, _BARCODE_ZONE_WIDTH, _BARCODE_ZONE_HEIGHT)

    @cached_property
    def art_holes(self) -> tuple[Box, ...]:
        """Where art is left out: all that is printed for the post on as few panels as leave the message its box.

        They are a pixel larger than what must be clear, and reach through the bleed where only a strip of art would
        be left.
        """
        zones = (*self.ink_free, *filter(None, (self.barcode_zone,)))
        texts = filter(None, (self.return_address, self.indicia))
        boxes = [zone.expand(_PIXEL_MARGIN) for zone in zones] + [text.expand(_PANEL_MARGIN) for text in texts]
        return tuple(
            extend_to_edges(panel, self.trim, self.bleed_box, max_gap=_NARROWEST_ART, avoided=self.message)
            for panel in join_boxes(boxes, self.message)
        )

    @cached_property
    def qr_panel(self) -> Box | None:
        """The white panel of a QR code on art. One that meets a hole of the art is made one panel with it."""
        if self.qr is None:
            return None
        clear_zone = self.qr.expand(QR_QUIET_ZONE)
        panel = extend_to_edges(clear_zone, self.trim, self.bleed_box, max_gap=SAFE_MARGIN)
        for hole in self.art_holes:
            joined = bounding_box(panel, hole)
            if hole.overlaps(panel) and not (self.message_above_qr and joined.overlaps(self.message_above_qr)):
                panel = joined
        # The panel is drawn after what all copies share: it ends at a hole that rises above it.
        beside = [hole for hole in self.art_holes if hole.top > panel.top]
        left = max([panel.left, *(hole.right for hole in beside if hole.right <= clear_zone.left)])
        right = min([panel.right, *(hole.left for hole in beside if hole.left >= clear_zone.right)])
        return replace(panel, left=left, width=right - left)

    @property
    def is_personal(self) -> bool:
        return any((self.message, self.address, self.barcode, self.qr, self.card, self.opt_out))

    @property
    def preview_area(self) -> Box:
        return self.panel or self.trim


@dataclass(frozen=True, kw_only=True)
class ProductLayout:
    """One kind of mail; `sides` are its printed sheets in order.

    Letters have further sheets: `extra` for each additional page, and `address_sheet` before a letter that is only the
    sender's PDF. `previews` names the side behind each preview. `product` is the kind of item in the print file's
    document parts, `stock` the paper on the print ticket.
    """

    name: str
    title: str
    product: str
    stock: str
    sides: tuple[Side, ...]
    extra: Side | None = None
    address_sheet: Side | None = None
    envelope: Side | None = None
    previews: Mapping[str, str]

    @cached_property
    def all_sides(self) -> tuple[Side, ...]:
        return (*self.sides, *filter(None, (self.extra, self.address_sheet, self.envelope)))

    @cached_property
    def message_side(self) -> Side:
        return next(side for side in self.sides if side.message)

    def find_side(self, name: str) -> Side:
        return next(side for side in self.all_sides if side.name == name)

    def art_areas(self, art: str) -> list[Box]:
        return [side.art_area for side in self.sides if side.art == art and side.art_area]


def box_above_qr(message: Box, qr: Box) -> Box:
    """What is left of the message's box above a QR code in its lower corner; all of it beside one."""
    if not message.overlaps(qr.expand(QR_QUIET_ZONE)):
        return message
    bottom = qr.top + QR_QUIET_ZONE
    return replace(message, bottom=bottom, height=message.top - bottom)


class DoesNotFit(Exception):
    """A text is too long for its box; `message` tells the sender what to do."""

    def __init__(self, overflow_lines: int, message: str) -> None:
        super().__init__(message)
        self.overflow_lines = overflow_lines
        self.message = message


@dataclass(frozen=True, slots=True)
class SizeRange:
    """The sizes at which a text may be written, in points, by halves."""

    smallest: float
    largest: float


class SignatureShape(NamedTuple):
    """How wide a signature is, in heights, and how high it may stand, in points."""

    width: float
    smallest: float
    largest: float


class Passage(NamedTuple):
    """A text and its box. All its unevenness comes from `seed`; `text_name` is what the sender calls it.

    One that `keeps_words` is written smaller before a long word is broken. A `signature` closes it.
    """

    text_name: str
    text: str
    box: Box
    sizes: SizeRange
    ink: Ink
    seed: int
    manner: str = DEFAULT_MANNER
    keeps_words: bool = False
    is_centered: bool = False
    signature: SignatureShape | None = None


@dataclass(frozen=True, slots=True)
class PassageLayout:
    """Passages in rows, words in columns; `word_numbers` has -1 past a passage's end."""

    passages: Sequence[Passage]
    measures: Floats  # of each word: advance, left, right, bottom, top
    word_numbers: Integers
    word_counts: Integers
    line_numbers: Integers
    sizes: Floats
    fits: Flags
    leading: float
    word_gap: float
    signature_rooms: Floats  # in points, below each text
    breaks: Integers  # line ends before each word
    is_broken: Flags  # whether a passage has parts of words

    @property
    def heights(self) -> Floats:
        """How much of its box's height each passage takes."""
        return self.text_heights + self.signature_rooms

    @property
    def text_heights(self) -> Floats:
        ink_heights = self.measures[:, :, 3:].max(axis=1, initial=0.0).sum(axis=1) + 2 * WANDER_ROOM
        last_lines: Integers = self.line_numbers.max(axis=1, initial=0)
        heights: Floats = (last_lines * self.leading + ink_heights) * self.sizes
        return heights

    def excess(self, row: int) -> tuple[int, int]:
        """By how many lines, and about how many letters, a passage is too long."""
        line_height = self.leading * self.sizes[row]
        excess_height = self.heights[row] - self.passages[row].box.height
        lines = max(1, ceil(excess_height / line_height - 1e-9))
        chars_per_line = len(self.passages[row].text) / (self.line_numbers[row].max(initial=0) + 1)
        return lines, max(10, round(lines * chars_per_line / 10) * 10)
