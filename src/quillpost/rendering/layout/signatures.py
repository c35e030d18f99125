"""Where a signature stands below its message, and the room that it needs there."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np

from quillpost.rendering.layout.models import Floats, Passage, PassageLayout, SignatureShape
from quillpost.rendering.models import INCH, Box, Ink

SIGNATURE_NAME = b"/S"
"""A page has one signature at most, by this name among its resources."""

_LINES = 2.0  # the height of a signature
_GAP = 0.3  # of a line, between the message and its signature
_SMALLEST, _LARGEST = INCH / 3, 0.8 * INCH
_WIDEST = 2.4 * INCH
_HEIGHT_SHARE, _WIDTH_SHARE = 1 / 5, 0.55  # of the message's box, at most

MAX_GROWTH = 0.04  # a signature is larger or smaller by so much
MAX_RISE = 0.034  # and rises or falls by so much of its width, which is hardly two degrees

_NO_SIGNATURE = SignatureShape(0.0, 0.0, 0.0)


@lru_cache(maxsize=256)
def fit_signature(width: float, box: Box) -> SignatureShape:
    """The shape of a signature so many heights wide: small on a small piece, and hardly wider than half of the box."""
    widest = min(_WIDTH_SHARE * box.width, _WIDEST) / (width * (1 + MAX_GROWTH))
    largest = min(max(_HEIGHT_SHARE * box.height, _SMALLEST), _LARGEST, widest)
    return SignatureShape(width, min(_SMALLEST, largest), largest)


@dataclass(frozen=True, slots=True)
class SignatureRooms:
    """What the signatures of some passages need; passages without one need nothing."""

    is_signed: Floats  # 1 or 0
    widths: Floats  # in heights
    smallest: Floats  # in points
    largest: Floats

    @classmethod
    def of(cls, passages: Sequence[Passage]) -> Self | None:
        """None where no passage is signed."""
        if not any(passage.signature for passage in passages):
            return None
        shapes = np.array([passage.signature or _NO_SIGNATURE for passage in passages], np.float64)
        return cls((shapes[:, 0] > 0).astype(np.float64), *shapes.T)

    def heights(self, line_heights: Floats) -> Floats:
        heights: Floats = np.clip(_LINES * line_heights, self.smallest, self.largest)
        return heights

    def gaps(self, line_heights: Floats) -> Floats:
        return _GAP * line_heights * self.is_signed

    def rooms(self, line_heights: Floats) -> Floats:
        """How high the gap and the signature are, however it comes out."""
        largest = self.heights(line_heights) * (1 + MAX_GROWTH)
        return self.gaps(line_heights) + largest * (1 + self.widths * MAX_RISE)


class SignatureNoise(NamedTuple):
    """How each signature differs from the others, one number a passage."""

    growths: Floats  # by which share it is larger or smaller
    rises: Floats  # up or down, for each step across
    indents: Floats  # in font sizes, to the right of the message's left edge


@dataclass(frozen=True, slots=True)
class PlacedSignatures:
    """Signatures as they come out, in points; those of passages without one are 0 high."""

    layout: PassageLayout
    rooms: SignatureRooms
    heights: Floats
    lengths: Floats
    indents: Floats
    rises: Floats

    @classmethod
    def of(cls, layout: PassageLayout, noise: SignatureNoise) -> Self | None:
        """None where no passage is signed."""
        rooms = SignatureRooms.of(layout.passages)
        if rooms is None:
            return None
        heights = rooms.heights(layout.leading * layout.sizes) * (1 + noise.growths)
        indents = noise.indents * layout.sizes * rooms.is_signed
        return cls(layout, rooms, heights, heights * rooms.widths, indents, noise.rises)

    @property
    def ends(self) -> Floats:
        """How far right of the message's left edge each of them reaches."""
        return self.indents + self.lengths + self.heights * np.abs(self.rises)

    def draw(self, left: Floats, top: Floats, right: Floats, bottom: Floats) -> list[bytes]:
        """Operators for each passage, from the left edge and the top of its text, inside the box that ends there."""
        line_heights = self.layout.leading * self.layout.sizes
        gaps = self.rooms.gaps(line_heights)
        upright = self.heights + self.lengths * np.abs(self.rises)
        spare_heights = self.rooms.rooms(line_heights) - gaps - upright
        lowest = np.maximum(top - self.layout.text_heights - gaps - spare_heights / 2 - upright, bottom)
        # One that rises leans back over its left edge, and one that falls ends lower than it begins.
        x = np.minimum(left + self.indents, right - self.lengths - self.heights * np.abs(self.rises))
        x = x + self.heights * np.maximum(self.rises, 0)
        y = lowest + self.lengths * np.maximum(-self.rises, 0)
        rows = np.stack([self.heights, self.heights * self.rises, x, y], axis=1).tolist()
        return [
            _draw_signature(passage.ink, *row) if passage.signature else b""
            for passage, row in zip(self.layout.passages, rows, strict=True)
        ]


def _draw_signature(ink: Ink, height: float, lean: float, x: float, y: float) -> bytes:
    return b"q %.2f %.2f %.2f rg %.2f %.2f %.2f %.2f %.1f %.1f cm%b Do Q\n" % (
        *ink,
        *(height, lean, -lean, height, x, y),
        SIGNATURE_NAME,
    )
