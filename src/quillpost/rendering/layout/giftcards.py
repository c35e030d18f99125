"""The gift card printed inside a folded card."""

from collections.abc import Sequence

from quillpost.rendering.codes.qr import QrSymbol, draw_qr
from quillpost.rendering.handwriting.text import PLAIN_FONT, CachedFace
from quillpost.rendering.layout.text import ASCENT, DRAWINGS, TextStyle, clean_line, fit_centered, rectangle_path
from quillpost.rendering.models import (
    MIN_READABLE_CONTRAST,
    MIN_VISIBLE_CONTRAST,
    WHITE,
    Box,
    Giftcard,
    GiftcardClaim,
    Ink,
    contrast_ratio,
)

_DARK: Ink = (0.1, 0.11, 0.16)
_FRAME: Ink = (0.78, 0.72, 0.62)
_GLOW, _BRIGHT_GLOW, _FOLD, _RIBBON, _KNOT = 0.06, 0.12, 0.16, 0.26, 0.36
_LIGHT_CARD_FACTOR = 2.2
_CIRCLE_HANDLE = 0.5523  # how far a curve's handles reach so that it looks like a quarter of a circle


class CardColors:
    """Readable colors on a card of a brand's color, as operands."""

    def __init__(self, accent: Ink) -> None:
        is_visible = contrast_ratio(accent, WHITE) >= MIN_VISIBLE_CONTRAST
        # White paper is no card: what is as pale is made a little darker, and has an edge.
        background = accent if is_visible else _mix_colors(accent, _FRAME, 0.18)
        is_dark = contrast_ratio(_mix_colors(background, WHITE, _BRIGHT_GLOW), WHITE) >= MIN_READABLE_CONTRAST
        self.background = _color_operands(background)
        self.edge = None if is_visible else _color_operands(_FRAME)
        self.ink = _color_operands(WHITE if is_dark else _DARK)
        # On a light ground it takes more white to be noticed.
        self.glow, self.bright_glow, self.fold, self.ribbon, self.knot = (
            _color_operands(_mix_colors(background, WHITE, share if is_dark else _LIGHT_CARD_FACTOR * share))
            for share in (_GLOW, _BRIGHT_GLOW, _FOLD, _RIBBON, _KNOT)
        )


def rounded_rectangle_path(box: Box, radius: float) -> bytes:
    left, bottom, right, top = box.left, box.bottom, box.right, box.top
    handle = radius * (1 - _CIRCLE_HANDLE)
    corners = (
        (right - radius, bottom, right - handle, bottom, right, bottom + handle, right, bottom + radius),
        (right, top - radius, right, top - handle, right - handle, top, right - radius, top),
        (left + radius, top, left + handle, top, left, top - handle, left, top - radius),
        (left, bottom + radius, left, bottom + handle, left + handle, bottom, left + radius, bottom),
    )
    path = b" ".join(b"%.2f %.2f l %.2f %.2f %.2f %.2f %.2f %.2f c" % corner for corner in corners)
    return b"%.2f %.2f m %b h" % (left + radius, bottom, path)


def circle_path(across: float, up: float, radius: float) -> bytes:
    return rounded_rectangle_path(Box(across - radius, up - radius, 2 * radius, 2 * radius), radius)


def _color_operands(color: Ink) -> bytes:
    return b"%.3f %.3f %.3f" % color


def _mix_colors(first: Ink, second: Ink, share: float) -> Ink:
    red, green, blue = (a + (b - a) * share for a, b in zip(first, second, strict=True))
    return red, green, blue


# Everything was proportioned on a card of the usual 3.375 x 2.125 in, in points.
CARD_WIDTH, CARD_HEIGHT = 243.0, 153.0
_CARD_CORNER = 10.0
_MARGIN = 18.0

# The claim is on a white slip; the code to scan is at its right end, clear of its round corners.
_SLIP_BOX = Box(8, 8, CARD_WIDTH - 16, 87)
_SLIP_CORNER = 5.0
_QR_BOX = Box(_SLIP_BOX.right - 85.5, _SLIP_BOX.bottom + 1.5, 84, 84)
_QUIET_MODULES = 4
_CODE_WIDTH = _QR_BOX.left - 2 - _MARGIN

_TITLE_STYLE = TextStyle(size=20, least=13, lines=3, leading=1.05)
_TITLE_BOX = Box(_MARGIN, _SLIP_BOX.top + 9, CARD_WIDTH - 2 * _MARGIN, CARD_HEIGHT - _SLIP_BOX.top - 18)
_LABEL_TEXT, _LABEL_SIZE, _LABEL_SPACING = "GIFT CARD", 6.2, 0.16
_LABEL_HEIGHT = 7.5
_AMOUNT_SIZE, _AMOUNT_WIDTH = 32.0, 92.0
_AMOUNT_GAP = 14.0
_DIGIT_HEIGHT = 0.66  # how high they are, in font sizes

# Without amount and claim there is room for a larger title, under a ribbon.
_BRAND_TITLE_STYLE = TextStyle(size=31, least=21, lines=3, leading=1.05)
_BRAND_TITLE_BOX = Box(_MARGIN, 15, CARD_WIDTH - 2 * _MARGIN, 58)
_CARD_RIBBON = Box(0, 108, CARD_WIDTH, 10)
_CARD_KNOT, _BOW_SCALE = (192, 113), 0.88

_HINT_TEXT, _HINT_SIZE, _HINT_BASELINE = "Scan, or enter this code at", 6.8, 79.0
_URL_SIZE, _MIN_URL_SIZE, _URL_BASELINE = 8.0, 6.4, 68.5
_URL_LEADING = 1.12
_CODE_SIZE, _CODE_SPACING = 13.0, 0.05
_CODE_BASELINES = 37.0, 20.0

_DARK_OPERANDS = b".1 .11 .16"
_QUIET_OPERANDS = b".42 .42 .45"


def draw_card(panel: Box, giftcard: Giftcard, face: CachedFace) -> bytes:
    """The card with its brand and amount, the same on every copy."""
    card, colors = _Card(panel, face), CardColors(giftcard.accent)
    amount = format_dollars(giftcard.amount_cents)
    size = min(_AMOUNT_SIZE, _AMOUNT_WIDTH / face.text_width(amount))
    width = face.text_width(amount) * size
    left, middle = _TITLE_BOX.right - width, _TITLE_BOX.bottom + _TITLE_BOX.height / 2
    title_box = Box(_MARGIN, _TITLE_BOX.bottom, left - _AMOUNT_GAP - _MARGIN, _TITLE_BOX.height)
    return b"".join(
        [
            card.draw_background(colors, _CARD_CORNER),
            b"q 1 g %b f Q\n" % rounded_rectangle_path(card.to_page_box(_SLIP_BOX), _SLIP_CORNER * card.unit),
            card.draw_title(giftcard.brand, _TITLE_STYLE, title_box, colors.ink),
            card.draw_line(amount, left, middle - _DIGIT_HEIGHT * size / 2, size, colors.ink),
        ]
    )


def draw_brand(panel: Box, brand: str, accent: Ink, face: CachedFace) -> bytes:
    """The card as a catalog shows it: no amount, no claim, square corners."""
    card, colors = _Card(panel, face), CardColors(accent)
    title = card.draw_title(brand, _BRAND_TITLE_STYLE, _BRAND_TITLE_BOX, colors.ink)
    return card.draw_background(colors, 0) + card.draw_ribbon(colors) + title


def draw_claim(panel: Box, claim: GiftcardClaim, symbol: QrSymbol, face: CachedFace) -> bytes:
    """One recipient's code, to type and to scan."""
    card = _Card(panel, face)
    quiet_width = _QR_BOX.width * _QUIET_MODULES / (symbol.side + 2 * _QUIET_MODULES)
    parts = [
        draw_qr(symbol, card.to_page_box(_QR_BOX.expand(-quiet_width))),
        card.draw_line(_HINT_TEXT, _MARGIN, _HINT_BASELINE, _HINT_SIZE, _QUIET_OPERANDS),
    ]
    url_lines, size = _fit_claim_url(claim.url, face)
    for index, url_line in enumerate(url_lines):
        baseline = _URL_BASELINE - index * _URL_LEADING * size
        parts.append(card.draw_line(url_line, _MARGIN, baseline, size, _DARK_OPERANDS))
    groups = claim.code.split("-")
    middle = (len(groups) + 1) // 2
    codes = "-".join(groups[:middle]), "-".join(groups[middle:])
    widest = max(face.text_width(code) + _CODE_SPACING * len(code) for code in codes)
    size = min(_CODE_SIZE, _CODE_WIDTH / widest)
    for code, baseline in zip(codes, _CODE_BASELINES, strict=True):
        parts.append(card.draw_line(code, _MARGIN, baseline, size, _DARK_OPERANDS, spacing=_CODE_SPACING))
    return b"".join(parts)


def format_dollars(cents: int) -> str:
    """`$25`, `$12.50`, `$1,000`."""
    dollar_count, cents_left = divmod(cents, 100)
    return f"${dollar_count:,}.{cents_left:02d}" if cents_left else f"${dollar_count:,}"


class _Card:
    """A panel of any size in the coordinates of a usual card."""

    def __init__(self, panel: Box, face: CachedFace) -> None:
        self._face = face
        self.unit = min(panel.width / CARD_WIDTH, panel.height / CARD_HEIGHT)
        self._left = panel.left + (panel.width - CARD_WIDTH * self.unit) / 2
        self._bottom = panel.bottom + (panel.height - CARD_HEIGHT * self.unit) / 2

    def to_page(self, across: float, up: float) -> tuple[float, float]:
        return self._left + across * self.unit, self._bottom + up * self.unit

    def to_page_box(self, box: Box) -> Box:
        return Box(*self.to_page(box.left, box.bottom), box.width * self.unit, box.height * self.unit)

    def draw_background(self, colors: CardColors, corner: float) -> bytes:
        """The brand's color with a glow at its right; a pale card gets an edge."""
        outline = rounded_rectangle_path(self.to_page_box(Box(0, 0, CARD_WIDTH, CARD_HEIGHT)), corner * self.unit)
        glow = b"".join(
            b"%b rg %b f " % (color, circle_path(*self.to_page(across, up), radius * self.unit))
            for color, across, up, radius in ((colors.glow, 205, 190, 150), (colors.bright_glow, 262, 178, 104))
        )
        edge = b"q %b RG .6 w %b S Q\n" % (colors.edge, outline) if colors.edge else b""
        return b"q %b rg %b f %b W n %bQ\n%b" % (colors.background, outline, outline, glow, edge)

    def draw_ribbon(self, colors: CardColors) -> bytes:
        band = b"q %b rg %b f Q\n" % (colors.ribbon, rectangle_path(self.to_page_box(_CARD_RIBBON)))
        bow = DRAWINGS["bow"] % (colors.fold, colors.ribbon, colors.fold, colors.knot)
        scale = _BOW_SCALE * self.unit
        return band + b"q %.3f 0 0 %.3f %.2f %.2f cm %b Q\n" % (scale, scale, *self.to_page(*_CARD_KNOT), bow)

    def draw_title(self, brand: str, style: TextStyle, box: Box, color: bytes) -> bytes:
        title = clean_line(brand, self._face) or " "
        block = fit_centered(title, box.width, box.height - _LABEL_HEIGHT, style, self._face)
        bottom = box.bottom + (box.height - block.height - _LABEL_HEIGHT) / 2
        top = bottom + _LABEL_HEIGHT + block.height
        parts = [
            self.draw_line(line, box.left, top - (ASCENT + index * style.leading) * block.size, block.size, color)
            for index, line in enumerate(block.lines)
        ]
        parts.append(self.draw_line(_LABEL_TEXT, box.left, bottom, _LABEL_SIZE, color, spacing=_LABEL_SPACING))
        return b"".join(parts)

    def draw_line(
        self, text: str, left: float, baseline: float, size: float, color: bytes, *, spacing: float = 0.0
    ) -> bytes:
        style = (color, PLAIN_FONT, size * self.unit, spacing * size * self.unit)
        place = (*self.to_page(left, baseline), self._face.encode(text))
        return b"BT %b rg %b %.2f Tf %.3f Tc %.2f %.2f Td%bTj 0 Tc ET\n" % (*style, *place)


def _fit_claim_url(url: str, face: CachedFace) -> tuple[Sequence[str], float]:
    """Where the code is typed, in lines, and their size: a long address is broken before it gets tiny."""
    address = clean_line(url.partition("://")[2].rpartition("/")[0] or url, face)
    size = _CODE_WIDTH / face.text_width(address)
    if size >= _MIN_URL_SIZE:
        return (address,), min(size, _URL_SIZE)
    break_positions = [at for at, char in enumerate(address, start=1) if char in ".-/" and at < len(address)]
    break_position = min(break_positions or [len(address) // 2], key=lambda at: abs(2 * at - len(address)))
    lines = address[:break_position], address[break_position:]
    return lines, min(_MIN_URL_SIZE, _CODE_WIDTH / max(map(face.text_width, lines)))
