"""Where everything sits on each piece, as data. Points, from the lower left corner of the trim."""

from dataclasses import dataclass, replace

INCH = 72.0
BLEED = INCH / 8

BAR_PITCH = INCH / 22
BAR_WIDTH = INCH / 50
BAR_HEIGHT = 0.145 * INCH
_BARS = 65
_QUIET = INCH / 8

_ZONE_FROM_RIGHT = 0.275 * INCH
_ZONE_FROM_BOTTOM = 0.25 * INCH
_ZONE_HEIGHT = 2.375 * INCH


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    bottom: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def top(self) -> float:
        return self.bottom + self.height

    def grown(self, by: float) -> "Box":
        """The same box with a margin added (or, if negative, cut off) on every side."""
        return Box(self.left - by, self.bottom - by, self.width + 2 * by, self.height + 2 * by)

    def contains(self, other: "Box") -> bool:
        return (
            self.left <= other.left
            and self.bottom <= other.bottom
            and other.right <= self.right
            and other.top <= self.top
        )


@dataclass(frozen=True, slots=True)
class PieceTemplate:
    """One kind of piece. Only the address and the barcode may print in the ink-free zone."""

    title: str
    trim: Box
    bleed: float
    message: Box
    divider: Box
    return_address: Box
    indicia: Box
    ink_free: Box
    address: Box
    barcode: Box
    qr: Box

    @property
    def bleed_box(self) -> Box:
        return self.trim.grown(self.bleed)

    def message_box(self, *, qr: bool) -> Box:
        """Where the handwriting goes; it ends above the QR code on a piece that has one."""
        if not qr:
            return self.message
        bottom = self.qr.top + _QUIET
        return replace(self.message, bottom=bottom, height=self.message.top - bottom)


def _postcard(title: str, width: float, height: float, zone_width: float) -> PieceTemplate:
    """Handwriting left of the ink-free zone; return address and indicia above it.

    `width`, `height` and `zone_width` are in inches, as the postal rules give them.
    """
    trim = Box(0, 0, width * INCH, height * INCH)
    zone = Box(
        trim.right - _ZONE_FROM_RIGHT - zone_width * INCH,
        _ZONE_FROM_BOTTOM,
        zone_width * INCH,
        _ZONE_HEIGHT,
    )
    margin = 0.25 * INCH if height < 5 else 0.4 * INCH
    divider = Box(zone.left - 5, margin, 0, trim.height - 2 * margin)
    message = Box(margin, margin, divider.left - 7 - margin, trim.height - 2 * margin)
    indicia = Box(trim.right - margin - 78, trim.top - margin - 44, 78, 44)
    return_left = zone.left + 9
    return_bottom = max(zone.top + 7, indicia.bottom - 28)
    qr_side = 0.75 * INCH if height < 5 else 0.95 * INCH
    return PieceTemplate(
        title=title,
        trim=trim,
        bleed=BLEED,
        message=message,
        divider=divider,
        return_address=Box(
            return_left,
            return_bottom,
            indicia.left - 10 - return_left,
            indicia.top - return_bottom,
        ),
        indicia=indicia,
        ink_free=zone,
        # The postal reading machines look from 5/8 to 2 3/4 in above the bottom edge.
        address=Box(zone.left + 20, 0.64 * INCH, zone.width - 36, 1.3 * INCH),
        barcode=Box(
            zone.left + _QUIET,
            zone.bottom + 4,
            BAR_PITCH * (_BARS - 1) + BAR_WIDTH,
            BAR_HEIGHT,
        ),
        qr=Box(margin, margin, qr_side, qr_side),
    )


PIECES: dict[str, PieceTemplate] = {
    "postcard-4x6": _postcard("4x6 postcard", 6, 4, 3.2835),
    "postcard-6x9": _postcard("6x9 postcard", 9, 6, 4),
    "postcard-6x11": _postcard("6x11 postcard", 11, 6, 4),
}
