"""The gift card printed inside a folded card: its brand, its amount, and how to claim it."""

from quillpost.composition.content import Claim, Giftcard
from quillpost.composition.geometry import Box
from quillpost.composition.hands.hand import PLAIN_FONT
from quillpost.composition.hands.plain import Lettering
from quillpost.composition.marks.qr import QrSymbol, draw_qr
from quillpost.composition.pages.plain_text import tidy

# Everything was proportioned on a card of the usual 3.375 x 2.125 in, in points.
_WIDTH, _HEIGHT = 243.0, 153.0
_CORNER = 9.0
_MARGIN = 16.0
_QR_SIDE = 74.0
_QR_PANEL = 7.0

# How far a curve's handles reach so that it looks like a quarter of a circle.
_ROUND = 0.5523

_PAPER = b".984 .972 .945 rg"
_FRAME = b".78 .72 .62 RG"
_WHITE = b"1 g"
_INK = b".13 .20 .42 rg"
_QUIET = b".45 .42 .38 rg"


def draw_card(panel: Box, giftcard: Giftcard, face: Lettering) -> bytes:
    """What every copy of an order shares: the card itself, its brand and its amount."""
    card = _Card(panel, face)
    return b"".join(
        [
            b"q %b %b .6 w %b B Q\n" % (_PAPER, _FRAME, _rounded(panel, _CORNER * card.unit)),
            card.line(giftcard.brand, _MARGIN, 122, 19, _INK, room=_WIDTH - 2 * _MARGIN),
            card.line("GIFT CARD", _MARGIN, 108, 6.2, _QUIET, spacing=0.16),
            card.line(dollars(giftcard.amount_cents), _MARGIN, 56, 36, _INK, room=_text_room()),
        ]
    )


def draw_claim(panel: Box, claim: Claim, symbol: QrSymbol, face: Lettering) -> bytes:
    """What is one recipient's alone: the code to type and the one to scan."""
    card = _Card(panel, face)
    left, bottom = _WIDTH - _MARGIN - _QR_SIDE, _MARGIN
    paper = card.box(left - _QR_PANEL, bottom - _QR_PANEL, _QR_SIDE + 2 * _QR_PANEL)
    host = claim.url.partition("://")[2].partition("/")[0] or claim.url
    return b"".join(
        [
            b"q %b %b f Q\n" % (_WHITE, _rounded(paper, 4 * card.unit)),
            draw_qr(symbol, card.box(left, bottom, _QR_SIDE)),
            card.line(f"Scan, or enter this code at {host}", _MARGIN, 32, 6.2, _QUIET, room=_text_room()),
            card.line(claim.code, _MARGIN, 16, 11, _INK, room=_text_room(), spacing=0.08),
        ]
    )


def dollars(cents: int) -> str:
    """`$25`, `$12.50`, `$1,000`."""
    whole, rest = divmod(cents, 100)
    return f"${whole:,}.{rest:02d}" if rest else f"${whole:,}"


class _Card:
    """A panel of any size, as if it were a card of the usual one."""

    def __init__(self, panel: Box, face: Lettering) -> None:
        self._panel = panel
        self._face = face
        self.unit = min(panel.width / _WIDTH, panel.height / _HEIGHT)
        self._left = panel.left + (panel.width - _WIDTH * self.unit) / 2
        self._bottom = panel.bottom + (panel.height - _HEIGHT * self.unit) / 2

    def box(self, left: float, bottom: float, side: float) -> Box:
        unit = self.unit
        return Box(self._left + left * unit, self._bottom + bottom * unit, side * unit, side * unit)

    def line(
        self,
        text: str,
        left: float,
        baseline: float,
        size: float,
        colour: bytes,
        *,
        room: float = _WIDTH,
        spacing: float = 0.0,
    ) -> bytes:
        """One line; it is set smaller if it is wider than its room. `spacing` is in font sizes."""
        text = tidy(text, self._face)
        if not text:
            return b""
        wide = self._face.measure(text) + spacing * len(text)
        size = min(size, room / wide if wide else size) * self.unit
        return b"BT %b %b %.2f Tf %.3f Tc %.2f %.2f Td%bTj 0 Tc ET\n" % (
            colour,
            PLAIN_FONT,
            size,
            spacing * size,
            self._left + left * self.unit,
            self._bottom + baseline * self.unit,
            self._face.encode(text),
        )


def _text_room() -> float:
    """How wide a line can be that ends before the code to scan."""
    return _WIDTH - 2 * _MARGIN - _QR_SIDE - 2 * _QR_PANEL


def _rounded(box: Box, radius: float) -> bytes:
    """The path of a rectangle with round corners."""
    left, bottom, right, top = box.left, box.bottom, box.right, box.top
    handle = radius * (1 - _ROUND)
    corners = (
        (right - radius, bottom, right - handle, bottom, right, bottom + handle, right, bottom + radius),
        (right, top - radius, right, top - handle, right - handle, top, right - radius, top),
        (left + radius, top, left + handle, top, left, top - handle, left, top - radius),
        (left, bottom + radius, left, bottom + handle, left + handle, bottom, left + radius, bottom),
    )
    path = b" ".join(b"%.2f %.2f l %.2f %.2f %.2f %.2f %.2f %.2f c" % corner for corner in corners)
    return b"%.2f %.2f m %b h" % (left + radius, bottom, path)
