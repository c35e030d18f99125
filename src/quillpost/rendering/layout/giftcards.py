"""The gift card printed inside a folded card."""

from collections.abc import Sequence

from quillpost.rendering.codes.qr import QrSymbol, draw_qr
from quillpost.rendering.geometry import Box
from quillpost.rendering.handwriting.hand import PLAIN_FONT
from quillpost.rendering.handwriting.plain import Lettering
from quillpost.rendering.layout.contrast import READABLE, VISIBLE, contrast
from quillpost.rendering.layout.furniture import rectangle
from quillpost.rendering.layout.plain_text import ASCENT, Manner, centred, tidy
from quillpost.rendering.models import Claim, Giftcard, Ink

_WHITE: Ink = (1.0, 1.0, 1.0)
_DARK: Ink = (0.1, 0.11, 0.16)
_FRAME: Ink = (0.78, 0.72, 0.62)

_GLOW, _BRIGHT_GLOW, _FOLD, _RIBBON, _KNOT = 0.06, 0.12, 0.16, 0.26, 0.36
_LIGHT_NEEDS = 2.2

# How far a curve's handles reach so that it looks like a quarter of a circle.
_ROUND = 0.5523

# Drawn by hand around the knot: both ends, both loops, the shade inside them, and the knot itself.
_BOW = (
    b"%b rg -2 2 m -6 -12 -14 -25 -28 -34 c -22 -34 -18 -35 -15 -36 c -14 -39 -14 -42 -14 -46 c"
    b" -4 -34 2 -18 4 0 c h f 2 2 m 6 -12 14 -25 28 -34 c 22 -34 18 -35 15 -36 c 14 -39 14 -42 14 -46 c"
    b" 4 -34 -2 -18 -4 0 c h f"
    b" %b rg 0 1 m -10 22 -36 34 -43 22 c -50 8 -30 -12 0 -3 c h f"
    b" 0 1 m 10 22 36 34 43 22 c 50 8 30 -12 0 -3 c h f"
    b" %b rg -6 1 m -14 15 -31 23 -35 17 c -39 8 -24 -3 -6 -1 c h f"
    b" 6 1 m 14 15 31 23 35 17 c 39 8 24 -3 6 -1 c h f"
    b" %b rg -6 -6 m -8 -2 -8 4 -6 8 c -2 10 2 10 6 8 c 8 4 8 -2 6 -6 c 2 -8 -2 -8 -6 -6 c h f"
)


class Paint:
    """What is readable and what is pretty on a card of a brand's colour, as operands."""

    def __init__(self, accent: Ink) -> None:
        is_seen = contrast(accent, _WHITE) >= VISIBLE
        # White paper is no card: what is as pale is made a little darker, and has an edge.
        ground = accent if is_seen else _mixed(accent, _FRAME, 0.18)
        is_dark = contrast(_mixed(ground, _WHITE, _BRIGHT_GLOW), _WHITE) >= READABLE
        self.ground = _operands(ground)
        self.edge = None if is_seen else _operands(_FRAME)
        self.ink = _operands(_WHITE if is_dark else _DARK)
        # On a light ground it takes more white to be noticed.
        self.glow, self.bright_glow, self.fold, self.ribbon, self.knot = (
            _operands(_mixed(ground, _WHITE, share if is_dark else _LIGHT_NEEDS * share))
            for share in (_GLOW, _BRIGHT_GLOW, _FOLD, _RIBBON, _KNOT)
        )


def rounded(box: Box, radius: float) -> bytes:
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


def circle(across: float, up: float, radius: float) -> bytes:
    """The path of a circle around that place."""
    return rounded(Box(across - radius, up - radius, 2 * radius, 2 * radius), radius)


def draw_bow(paint: Paint, knot: tuple[float, float], scale: float) -> bytes:
    """A bow of ribbon, its knot at that place; at scale 1 it is about 90 points wide."""
    bow = _BOW % (paint.fold, paint.ribbon, paint.fold, paint.knot)
    return b"q %.3f 0 0 %.3f %.2f %.2f cm %b Q\n" % (scale, scale, *knot, bow)


def _operands(colour: Ink) -> bytes:
    return b"%.3f %.3f %.3f" % colour


def _mixed(colour: Ink, other: Ink, share: float) -> Ink:
    red, green, blue = (a + (b - a) * share for a, b in zip(colour, other, strict=True))
    return red, green, blue


# Everything was proportioned on a card of the usual 3.375 x 2.125 in, in points.
WIDTH, HEIGHT = 243.0, 153.0
_CORNER = 10.0
_MARGIN = 18.0

# The claim is on a white slip; the code to scan is at its right end, clear of its round corners.
_SLIP = Box(8, 8, WIDTH - 16, 87)
_SLIP_CORNER = 5.0
_SCANNED = Box(_SLIP.right - 85.5, _SLIP.bottom + 1.5, 84, 84)
_QUIET_MODULES = 4
_TYPED_ROOM = _SCANNED.left - 2 - _MARGIN

_TITLE = Manner(size=20, least=13, lines=3, leading=1.05)
_TITLE_ROOM = Box(_MARGIN, _SLIP.top + 9, WIDTH - 2 * _MARGIN, HEIGHT - _SLIP.top - 18)
_LABEL, _LABEL_SIZE, _LABEL_SPACING = "GIFT CARD", 6.2, 0.16
_LABEL_HEIGHT = 7.5
_AMOUNT_SIZE, _AMOUNT_ROOM = 32.0, 92.0
_BEFORE_AMOUNT = 14.0
_DIGITS = 0.66  # how high they are, in font sizes

# Without amount and claim there is room for a larger title, under a ribbon.
_TITLE_ALONE = Manner(size=31, least=21, lines=3, leading=1.05)
_TITLE_ALONE_ROOM = Box(_MARGIN, 15, WIDTH - 2 * _MARGIN, 58)
_CARD_RIBBON = Box(0, 108, WIDTH, 10)
_CARD_KNOT, _BOW_SCALE = (192, 113), 0.88

_HINT, _HINT_SIZE, _HINT_LINE = "Scan, or enter this code at", 6.8, 79.0
_PLACE_SIZE, _PLACE_LEAST, _PLACE_LINE = 8.0, 6.4, 68.5
_PLACE_LEADING = 1.12
_CODE_SIZE, _CODE_SPACING = 13.0, 0.05
_CODE_LINES = 37.0, 20.0

_INK = b".1 .11 .16"
_QUIET = b".42 .42 .45"


def draw_card(panel: Box, giftcard: Giftcard, face: Lettering) -> bytes:
    """What every copy of an order shares: the card itself, its brand and its amount."""
    card, paint = _Card(panel, face), Paint(giftcard.accent)
    amount = dollars(giftcard.amount_cents)
    size = min(_AMOUNT_SIZE, _AMOUNT_ROOM / face.measure(amount))
    width = face.measure(amount) * size
    left, middle = _TITLE_ROOM.right - width, _TITLE_ROOM.bottom + _TITLE_ROOM.height / 2
    room = Box(_MARGIN, _TITLE_ROOM.bottom, left - _BEFORE_AMOUNT - _MARGIN, _TITLE_ROOM.height)
    return b"".join(
        [
            card.draw_ground(paint, _CORNER),
            b"q 1 g %b f Q\n" % rounded(card.box(_SLIP), _SLIP_CORNER * card.unit),
            card.draw_title(giftcard.brand, _TITLE, room, paint.ink),
            card.line(amount, left, middle - _DIGITS * size / 2, size, paint.ink),
        ]
    )


def draw_brand(panel: Box, brand: str, accent: Ink, face: Lettering) -> bytes:
    """How a catalogue shows a brand: its card without amount or claim, square to the corners."""
    card, paint = _Card(panel, face), Paint(accent)
    return b"".join(
        [
            card.draw_ground(paint, 0),
            card.draw_ribbon(paint),
            card.draw_title(brand, _TITLE_ALONE, _TITLE_ALONE_ROOM, paint.ink),
        ]
    )


def draw_claim(panel: Box, claim: Claim, symbol: QrSymbol, face: Lettering) -> bytes:
    """What is one recipient's alone: the code to type and the one to scan."""
    card = _Card(panel, face)
    quiet = _SCANNED.width * _QUIET_MODULES / (symbol.side + 2 * _QUIET_MODULES)
    parts = [
        draw_qr(symbol, card.box(_SCANNED.grown(-quiet))),
        card.line(_HINT, _MARGIN, _HINT_LINE, _HINT_SIZE, _QUIET),
    ]
    places, size = _set_place(claim.url, face)
    for number, place in enumerate(places):
        parts.append(card.line(place, _MARGIN, _PLACE_LINE - number * _PLACE_LEADING * size, size, _INK))
    codes = _halves(claim.code)
    widest = max(face.measure(code) + _CODE_SPACING * len(code) for code in codes)
    size = min(_CODE_SIZE, _TYPED_ROOM / widest)
    for code, baseline in zip(codes, _CODE_LINES, strict=True):
        parts.append(card.line(code, _MARGIN, baseline, size, _INK, spacing=_CODE_SPACING))
    return b"".join(parts)


def dollars(cents: int) -> str:
    """`$25`, `$12.50`, `$1,000`."""
    whole, rest = divmod(cents, 100)
    return f"${whole:,}.{rest:02d}" if rest else f"${whole:,}"


class _Card:
    """A panel of any size, as if it were a card of the usual one."""

    def __init__(self, panel: Box, face: Lettering) -> None:
        self._face = face
        self.unit = min(panel.width / WIDTH, panel.height / HEIGHT)
        self._left = panel.left + (panel.width - WIDTH * self.unit) / 2
        self._bottom = panel.bottom + (panel.height - HEIGHT * self.unit) / 2

    def place(self, across: float, up: float) -> tuple[float, float]:
        return self._left + across * self.unit, self._bottom + up * self.unit

    def box(self, box: Box) -> Box:
        return Box(*self.place(box.left, box.bottom), box.width * self.unit, box.height * self.unit)

    def draw_ground(self, paint: Paint, corner: float) -> bytes:
        """The brand's colour with a glow at its right; only a pale card needs an edge."""
        outline = rounded(self.box(Box(0, 0, WIDTH, HEIGHT)), corner * self.unit)
        glow = b"".join(
            b"%b rg %b f " % (colour, circle(*self.place(across, up), radius * self.unit))
            for colour, across, up, radius in (
                (paint.glow, 205, 190, 150),
                (paint.bright_glow, 262, 178, 104),
            )
        )
        edge = b"q %b RG .6 w %b S Q\n" % (paint.edge, outline) if paint.edge else b""
        return b"q %b rg %b f %b W n %bQ\n%b" % (paint.ground, outline, outline, glow, edge)

    def draw_ribbon(self, paint: Paint) -> bytes:
        band = b"q %b rg %b f Q\n" % (paint.ribbon, rectangle(self.box(_CARD_RIBBON)))
        return band + draw_bow(paint, self.place(*_CARD_KNOT), _BOW_SCALE * self.unit)

    def draw_title(self, brand: str, manner: Manner, room: Box, colour: bytes) -> bytes:
        """The brand's name over a small label, together in the middle of the room's height."""
        title = tidy(brand, self._face) or " "
        block = centred(title, room.width, room.height - _LABEL_HEIGHT, manner, self._face)
        bottom = room.bottom + (room.height - block.height - _LABEL_HEIGHT) / 2
        top = bottom + _LABEL_HEIGHT + block.height
        parts = [
            self.line(
                line, room.left, top - (ASCENT + number * manner.leading) * block.size, block.size, colour
            )
            for number, line in enumerate(block.lines)
        ]
        parts.append(self.line(_LABEL, room.left, bottom, _LABEL_SIZE, colour, spacing=_LABEL_SPACING))
        return b"".join(parts)

    def line(
        self, text: str, left: float, baseline: float, size: float, colour: bytes, *, spacing: float = 0.0
    ) -> bytes:
        """One line of letters that the face has; `spacing` is in font sizes."""
        return b"BT %b rg %b %.2f Tf %.3f Tc %.2f %.2f Td%bTj 0 Tc ET\n" % (
            colour,
            PLAIN_FONT,
            size * self.unit,
            spacing * size * self.unit,
            *self.place(left, baseline),
            self._face.encode(text),
        )


def _set_place(url: str, face: Lettering) -> tuple[Sequence[str], float]:
    """Where the code is typed, in lines, and their size: a long address is broken rather than tiny."""
    place = tidy(url.partition("://")[2].rpartition("/")[0] or url, face)
    size = _TYPED_ROOM / face.measure(place)
    if size >= _PLACE_LEAST:
        return (place,), min(size, _PLACE_SIZE)
    ends = [at for at, letter in enumerate(place, start=1) if letter in ".-/" and at < len(place)]
    end = min(ends or [len(place) // 2], key=lambda at: abs(2 * at - len(place)))
    lines = place[:end], place[end:]
    return lines, min(_PLACE_LEAST, _TYPED_ROOM / max(map(face.measure, lines)))


def _halves(code: str) -> tuple[str, str]:
    """The groups of a code on two lines."""
    groups = code.split("-")
    half = (len(groups) + 1) // 2
    return "-".join(groups[:half]), "-".join(groups[half:])
