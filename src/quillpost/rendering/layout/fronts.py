"""The front of a card without art: plain, or with the sender's branding."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from quillpost.rendering.handwriting.text import HAND_FONT, PLAIN_FONT, CachedFace
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.images.files import upright_size
from quillpost.rendering.images.models import cover_operator
from quillpost.rendering.layout.text import (
    DRAWINGS,
    CenteredText,
    TextStyle,
    clean_capitals,
    clean_line,
    fit_centered,
    rectangle_path,
)
from quillpost.rendering.models import (
    INCH,
    MIN_READABLE_CONTRAST,
    MIN_VISIBLE_CONTRAST,
    Box,
    Ink,
    SenderBranding,
    SenderName,
    contrast_ratio,
)


@dataclass(frozen=True, slots=True)
class PlacedPicture:
    """`number` is the picture's object; width and height are as stored, before it is turned upright."""

    number: int
    width: int
    height: int
    orientation: int

    @property
    def upright_size(self) -> tuple[int, int]:
        return upright_size(self.width, self.height, self.orientation)

    def draw_over(self, area: Box) -> bytes:
        """Operators that center it over the whole area; they leave the coordinates changed."""
        return b"%b /P%d Do" % (cover_operator(self.width, self.height, self.orientation, area), self.number)


GREETING = "a note for you"
GREETING_SIZE = 40

# The house's colors, as operands.
PAPER_COLOR = b".984 .972 .945"
FRAME_COLOR = b".78 .72 .62"
INK_COLOR = b".13 .20 .42"
QUIET_COLOR = b".45 .42 .38"

_FRAME_INSET = 20
_LETTER_SPACING = 0.14


@dataclass(frozen=True, slots=True)
class HandwrittenLine:
    """Operators at size 1, and in font sizes the width and how far the ink rises and drops."""

    operators: bytes
    width: float
    rise: float = 1.0
    drop: float = 0.6


def write_greeting(vocabulary: Vocabulary) -> HandwrittenLine:
    words = [vocabulary.spell(word) for word in GREETING.split()]
    rise, drop = max(word.top for word in words), max(word.bottom for word in words)
    return HandwrittenLine(*vocabulary.show_line(GREETING), rise, drop)


def panel_unit(panel: Box) -> float:
    """Everything is proportioned for a 4x6 card; an upright panel leaves more room above and below."""
    return min(panel.height / 288, panel.width / 340)


def draw_plain_front(panel: Box, paper: Box, greeting: HandwrittenLine, sender: SenderName, face: CachedFace) -> bytes:
    """The front over the panel; `paper` is tinted, bleed included."""
    unit = panel_unit(panel)
    center, middle = panel.left + panel.width / 2, panel.bottom + panel.height / 2
    inner_box = panel.expand(-2 * _FRAME_INSET * unit)
    size = min(GREETING_SIZE * unit, inner_box.width / greeting.width)
    parts = [
        draw_paper(paper),
        draw_frame(panel, FRAME_COLOR),
        draw_greeting(greeting, size, center, middle - 38 * unit, INK_COLOR),
        draw_quill(center + 2 * unit, middle + 2 * unit, 0.9 * unit, INK_COLOR),
    ]
    signature = clean_capitals(sender.company or sender.name or "", face)
    if signature:
        parts.append(_draw_signature(signature, inner_box, panel.bottom + 46 * unit, 8 * unit, face))
    return b"".join(parts)


def draw_paper(paper: Box, color: bytes = PAPER_COLOR) -> bytes:
    return b"q %b rg %b f Q\n" % (color, rectangle_path(paper))


def draw_frame(panel: Box, color: bytes) -> bytes:
    outer, inner = frame_box(panel), rule_box(panel)
    return b"q %b RG .8 w %b S .3 w %b S Q\n" % (color, rectangle_path(outer), rectangle_path(inner))


def frame_box(panel: Box) -> Box:
    return panel.expand(-_FRAME_INSET * panel_unit(panel))


def rule_box(panel: Box) -> Box:
    unit = panel_unit(panel)
    return panel.expand(-_FRAME_INSET * unit - 4 * unit)


def draw_greeting(greeting: HandwrittenLine, size: float, center: float, baseline: float, color: bytes) -> bytes:
    matrix = (size, size, center - greeting.width * size / 2, baseline)
    return b"BT %b rg %b 1 Tf %.2f 0 0 %.2f %.2f %.2f Tm %b ET\n" % (color, HAND_FONT, *matrix, greeting.operators)


def draw_quill(left: float, bottom: float, scale: float, color: bytes) -> bytes:
    stroke, quill = DRAWINGS["quill_stroke"] % color, DRAWINGS["quill"] % (color, color)
    return b"q %.3f 0 0 %.3f %.2f %.2f cm %b %b Q\n" % (scale, scale, left, bottom, stroke, quill)


def _draw_signature(text: str, box: Box, baseline: float, size: float, face: CachedFace) -> bytes:
    """The sender in spaced capitals; a long one is set smaller, not cut."""
    spaced_width = face.text_width(text) + _LETTER_SPACING * (len(text) - 1)
    if not spaced_width:
        return b""
    size = min(size, box.width / spaced_width)
    style = (QUIET_COLOR, PLAIN_FONT, size, _LETTER_SPACING * size)
    left = box.left + (box.width - spaced_width * size) / 2
    return b"BT %b rg %b %.2f Tf %.3f Tc %.2f %.2f Td %bTj 0 Tc ET\n" % (*style, left, baseline, face.encode(text))


# Sizes and distances are in units of the panel, as the plain front's are.
_NAME_STYLE = TextStyle(size=32, least=26, lines=4, leading=1.22, spacing=0.07)
_SIGNATURE_STYLE = TextStyle(size=7.5, least=5.6, lines=2, leading=1.4, spacing=0.14)
_CONTACT_STYLE = TextStyle(size=7.5, least=6, lines=2, leading=1.4, spacing=0.02)
_DISCLAIMER_STYLE = TextStyle(size=5.2, least=4.6, lines=3, leading=1.25)
_MAX_NAME_HEIGHT = 104
_MAX_FOOT_WIDTH = 340
_SIDE_MARGIN, _MARGIN = 18, 15
_NAME_MARGIN = 16
_GAP_IN_FOOT = 6.5
_RULE_WIDTH, _RULE_ABOVE_FOOT, _RULE_BELOW_GREETING = 30, 4, 10
_GAP_BELOW_LOGO, _GAP_BELOW_NAME, _GAP_BELOW_QUILL = 16, 14, 3

# A logo's room as parts of the panel. It is never drawn so large that its pixels show.
_MAX_LOGO_WIDTH, _MAX_LOGO_HEIGHT = 0.56, 0.3
_LOGO_DPI = 150

# The quill in its own field: how high it is, how far up its nib, and its usual scale.
_QUILL_HEIGHT, _NIB_HEIGHT, _QUILL_SCALE = 120, 11, 0.9

# Logos come laid on white: on any other paper their edges would show.
_WHITE_COLOR = b"1 1 1"
_PAPER_INKS: dict[bytes, Ink] = {_WHITE_COLOR: (1, 1, 1), PAPER_COLOR: (0.984, 0.972, 0.945)}


@dataclass(frozen=True, slots=True)
class FrontBranding:
    """The sender signs where the branding names no company."""

    branding: SenderBranding
    logo: PlacedPicture | None
    sender: SenderName


class _Emblem(NamedTuple):
    """What stands above the greeting; it is drawn from its top."""

    height: float
    gap: float
    draw: Callable[[float], bytes]


class BrandedFront:
    """Laid out from the foot up: the emblem has the remaining room."""

    def __init__(self, panel: Box, brand: FrontBranding, face: CachedFace) -> None:
        self._panel = panel
        self._brand = brand
        self._face = face
        self._unit = unit = panel_unit(panel)
        self._inner_box = rule_box(panel).expand(-_SIDE_MARGIN * unit, -_MARGIN * unit)
        self._center = panel.left + panel.width / 2
        self._paper = _WHITE_COLOR if brand.logo else PAPER_COLOR
        self._line_color = self._accent_or_default(MIN_VISIBLE_CONTRAST, FRAME_COLOR)
        self._ink = self._accent_or_default(MIN_READABLE_CONTRAST, INK_COLOR)
        self._company_name = "" if brand.logo else clean_capitals(brand.branding.company or "", face)

    def draw(self, paper: Box, greeting: HandwrittenLine) -> bytes:
        inner_box = self._inner_box
        # However far a hand's letters reach up and down, the greeting leaves room for the emblem.
        max_size = inner_box.height / 3 / (greeting.rise + greeting.drop)
        size = min(GREETING_SIZE * self._unit, inner_box.width / greeting.width, max_size)
        rise, drop = greeting.rise * size, greeting.drop * size
        foot, bottom = self._draw_foot()
        emblem = self._choose_emblem(inner_box.top - bottom - rise - drop)
        # Greeting and emblem stand together in the middle of what the foot leaves.
        spare_height = inner_box.top - bottom - rise - drop - emblem.height - emblem.gap
        baseline = bottom + spare_height / 2 + drop
        parts = [
            draw_paper(paper),
            draw_paper(frame_box(self._panel), _WHITE_COLOR) if self._brand.logo else b"",
            draw_frame(self._panel, self._line_color),
            emblem.draw(inner_box.top - spare_height / 2),
            draw_greeting(greeting, size, self._center, baseline, INK_COLOR),
            foot,
        ]
        return b"".join(parts)

    def _accent_or_default(self, min_contrast: float, default_color: bytes) -> bytes:
        """The accent, or the default where it has too little contrast to the paper."""
        accent = self._brand.branding.accent
        if accent is None or contrast_ratio(accent, _PAPER_INKS[self._paper]) < min_contrast:
            return default_color
        return b"%.3f %.3f %.3f" % accent

    def _draw_foot(self) -> tuple[bytes, float]:
        """The small print under a short rule, and the height above which there is room."""
        unit, top, parts = self._unit, self._inner_box.bottom, []
        width = min(self._inner_box.width, _MAX_FOOT_WIDTH * unit)
        for text, style, color in reversed(self._small_print_lines()):
            lines = self._fit_centered(text, style, width)
            top += lines.height
            parts.append(lines.draw(self._center, top, color, self._face))
            top += _GAP_IN_FOOT * unit
        if not parts:
            return b"", top
        top += _RULE_ABOVE_FOOT * unit
        half_rule = _RULE_WIDTH * unit / 2
        ends = (self._center - half_rule, top, self._center + half_rule, top)
        parts.append(b"q %b RG .8 w %.2f %.2f m %.2f %.2f l S Q\n" % (self._line_color, *ends))
        return b"".join(parts), top + _RULE_BELOW_GREETING * unit

    def _small_print_lines(self) -> list[tuple[str, TextStyle, bytes]]:
        """From the top: signature, contact, disclaimer. A company shown large does not sign."""
        branding, sender, face = self._brand.branding, self._brand.sender, self._face
        signature = "" if self._company_name else branding.company or sender.company or sender.name or ""
        small_print = [
            (clean_capitals(signature, face), _SIGNATURE_STYLE, self._ink),
            (clean_line(branding.contact or "", face), _CONTACT_STYLE, QUIET_COLOR),
            (clean_line(branding.disclaimer or "", face), _DISCLAIMER_STYLE, QUIET_COLOR),
        ]
        return [entry for entry in small_print if entry[0]]

    def _choose_emblem(self, max_height: float) -> _Emblem:
        """The logo, the company's name or else the quill, no higher than the room with its gap."""
        if self._brand.logo:
            return self._logo_emblem(self._brand.logo, max_height)
        if self._company_name:
            return self._name_emblem(max_height)
        return self._quill_emblem(max_height)

    def _logo_emblem(self, logo: PlacedPicture, max_height: float) -> _Emblem:
        gap = _GAP_BELOW_LOGO * self._unit
        max_logo_height = min(_MAX_LOGO_HEIGHT * self._panel.height, max_height - gap)
        across, up = logo.upright_size
        scale = min(_MAX_LOGO_WIDTH * self._panel.width / across, max_logo_height / up, INCH / _LOGO_DPI)
        width, height = across * scale, up * scale

        left = self._center - width / 2
        return _Emblem(height, gap, lambda top: b"q %b Q\n" % logo.draw_over(Box(left, top - height, width, height)))

    def _name_emblem(self, max_height: float) -> _Emblem:
        gap = _GAP_BELOW_NAME * self._unit
        width = self._inner_box.width - 2 * _NAME_MARGIN * self._unit
        height = min(_MAX_NAME_HEIGHT * self._unit, max_height - gap)
        name = self._fit_centered(self._company_name, _NAME_STYLE, width, height)
        return _Emblem(name.height, gap, lambda top: name.draw(self._center, top, self._ink, self._face))

    def _quill_emblem(self, max_height: float) -> _Emblem:
        gap = _GAP_BELOW_QUILL * self._unit
        scale = min(_QUILL_SCALE * self._unit, (max_height - gap) / _QUILL_HEIGHT)
        height = _QUILL_HEIGHT * scale

        def draw(top: float) -> bytes:
            return draw_quill(self._center + 2 * self._unit, top - height + _NIB_HEIGHT * scale, scale, self._ink)

        return _Emblem(height, gap, draw)

    def _fit_centered(self, text: str, style: TextStyle, width: float, height: float = inf) -> CenteredText:
        unit = self._unit
        scaled_style = replace(style, size=style.size * unit, least=style.least * unit)
        return fit_centered(text, width, height, scaled_style, self._face)
