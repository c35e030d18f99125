"""The front of a card without art whose sender has branding: their logo or name, colour and small print."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from quillpost.composition.content import Branding, Ink, Sender
from quillpost.composition.geometry import INCH, Box
from quillpost.composition.hands.plain import Lettering
from quillpost.composition.pages import front
from quillpost.composition.pages.centred import Centred, Manner, centred
from quillpost.composition.pages.contrast import READABLE, VISIBLE, contrast
from quillpost.composition.pages.front import Penned
from quillpost.composition.pages.placed import PlacedPicture
from quillpost.composition.pages.plain_text import capitals, tidy

# Sizes and distances are in units of the panel, as the plain front's are.
_NAME = Manner(size=32, least=26, lines=4, leading=1.22, spacing=0.07)
_SIGNATURE = Manner(size=7.5, least=5.6, lines=2, leading=1.4, spacing=0.14)
_CONTACT = Manner(size=7.5, least=6, lines=2, leading=1.4, spacing=0.02)
_DISCLAIMER = Manner(size=5.2, least=4.6, lines=3, leading=1.25)
_TALLEST_NAME = 104
_WIDEST_FOOT = 340
_SIDE_MARGIN, _MARGIN = 18, 15
_NAME_MARGIN = 16
_GAP_IN_FOOT = 6.5
_RULE_WIDTH, _RULE_ABOVE_FOOT, _RULE_BELOW_GREETING = 30, 4, 10
_GAP_BELOW_LOGO, _GAP_BELOW_NAME, _GAP_BELOW_QUILL = 16, 14, 3

# A logo's room as parts of the panel. It is never drawn so large that its pixels show.
_WIDEST_LOGO, _TALLEST_LOGO = 0.56, 0.3
_LOGO_DPI = 150

# The quill in its own field: how high it is, how far up its nib, and its usual scale.
_QUILL_HEIGHT, _NIB, _QUILL_SCALE = 120, 11, 0.9

# Logos come laid on white: on any other paper their edges would show.
_WHITE = b"1 1 1"
_PAPERS: dict[bytes, Ink] = {_WHITE: (1, 1, 1), front.PAPER: (0.984, 0.972, 0.945)}


@dataclass(frozen=True, slots=True)
class Brand:
    """A sender's branding, its logo already in the file; the sender signs where it names no company."""

    branding: Branding
    logo: PlacedPicture | None
    sender: Sender


class _Emblem(NamedTuple):
    """What stands over the greeting, and how far; it is drawn from its top."""

    height: float
    gap: float
    draw: Callable[[float], bytes]


def draw_branded_front(panel: Box, paper: Box, greeting: Penned, brand: Brand, face: Lettering) -> bytes:
    """The front over the panel; `paper` is tinted, bleed and all."""
    return _Front(panel, brand, face).draw(paper, greeting)


class _Front:
    """One front, laid out from its foot up: the emblem has the room that everything else leaves."""

    def __init__(self, panel: Box, brand: Brand, face: Lettering) -> None:
        self._panel = panel
        self._brand = brand
        self._face = face
        self._unit = unit = front.unit_of(panel)
        self._room = front.rule_of(panel).stretched(-_SIDE_MARGIN * unit, -_MARGIN * unit)
        self._centre = panel.left + panel.width / 2
        self._paper = _WHITE if brand.logo else front.PAPER
        self._line_colour = self._accent(VISIBLE, front.FRAME)
        self._ink = self._accent(READABLE, front.INK)
        self._name = "" if brand.logo else capitals(brand.branding.company or "", face)

    def draw(self, paper: Box, greeting: Penned) -> bytes:
        room = self._room
        # However far a hand's letters reach up and down, the greeting leaves room for the emblem.
        tallest = room.height / 3 / (greeting.rise + greeting.drop)
        size = min(front.GREETING_SIZE * self._unit, room.width / greeting.width, tallest)
        rise, drop = greeting.rise * size, greeting.drop * size
        foot, bottom = self._foot()
        emblem = self._emblem(room.top - bottom - rise - drop)
        # Greeting and emblem stand together in the middle of what the foot leaves.
        spare = room.top - bottom - rise - drop - emblem.height - emblem.gap
        baseline = bottom + spare / 2 + drop
        return b"".join(
            [
                front.draw_paper(paper),
                front.draw_paper(front.frame_of(self._panel), _WHITE) if self._brand.logo else b"",
                front.draw_frame(self._panel, self._line_colour),
                emblem.draw(room.top - spare / 2),
                front.draw_greeting(greeting, size, self._centre, baseline, front.INK),
                foot,
            ]
        )

    def _accent(self, least: float, otherwise: bytes) -> bytes:
        """The accent, or the house's colour where it has less than that contrast to the paper."""
        accent = self._brand.branding.accent
        if accent is None or contrast(accent, _PAPERS[self._paper]) < least:
            return otherwise
        return b"%.3f %.3f %.3f" % accent

    def _foot(self) -> tuple[bytes, float]:
        """The small print, under a short rule; and above which height there is room."""
        unit, top, parts = self._unit, self._room.bottom, []
        width = min(self._room.width, _WIDEST_FOOT * unit)
        for text, manner, colour in reversed(self._small_print()):
            lines = self._set(text, manner, width)
            top += lines.height
            parts.append(lines.draw(self._centre, top, colour, self._face))
            top += _GAP_IN_FOOT * unit
        if not parts:
            return b"", top
        top += _RULE_ABOVE_FOOT * unit
        half = _RULE_WIDTH * unit / 2
        ends = (self._centre - half, top, self._centre + half, top)
        parts.append(b"q %b RG .8 w %.2f %.2f m %.2f %.2f l S Q\n" % (self._line_colour, *ends))
        return b"".join(parts), top + _RULE_BELOW_GREETING * unit

    def _small_print(self) -> list[tuple[str, Manner, bytes]]:
        """From the top: signature, contact, disclaimer. A name that stands large does not sign as well."""
        branding, sender, face = self._brand.branding, self._brand.sender, self._face
        signature = "" if self._name else branding.company or sender.company or sender.name or ""
        found = [
            (capitals(signature, face), _SIGNATURE, self._ink),
            (tidy(branding.contact or "", face), _CONTACT, front.QUIET),
            (tidy(branding.disclaimer or "", face), _DISCLAIMER, front.QUIET),
        ]
        return [small for small in found if small[0]]

    def _emblem(self, room: float) -> _Emblem:
        """The logo, the company's name or else the quill; with its gap no higher than the room."""
        if self._brand.logo:
            return self._logo(self._brand.logo, room)
        if self._name:
            return self._large_name(room)
        return self._quill(room)

    def _logo(self, logo: PlacedPicture, room: float) -> _Emblem:
        gap = _GAP_BELOW_LOGO * self._unit
        tallest = min(_TALLEST_LOGO * self._panel.height, room - gap)
        across, up = logo.upright_size
        scale = min(_WIDEST_LOGO * self._panel.width / across, tallest / up, INCH / _LOGO_DPI)
        width, height = across * scale, up * scale

        def draw(top: float) -> bytes:
            area = Box(self._centre - width / 2, top - height, width, height)
            return b"q %b Q\n" % logo.draw_over(area)

        return _Emblem(height, gap, draw)

    def _large_name(self, room: float) -> _Emblem:
        gap = _GAP_BELOW_NAME * self._unit
        width = self._room.width - 2 * _NAME_MARGIN * self._unit
        name = self._set(self._name, _NAME, width, min(_TALLEST_NAME * self._unit, room - gap))
        return _Emblem(name.height, gap, lambda top: name.draw(self._centre, top, self._ink, self._face))

    def _quill(self, room: float) -> _Emblem:
        gap = _GAP_BELOW_QUILL * self._unit
        scale = min(_QUILL_SCALE * self._unit, (room - gap) / _QUILL_HEIGHT)
        height = _QUILL_HEIGHT * scale

        def draw(top: float) -> bytes:
            return front.draw_quill(
                self._centre + 2 * self._unit, top - height + _NIB * scale, scale, self._ink
            )

        return _Emblem(height, gap, draw)

    def _set(self, text: str, manner: Manner, width: float, height: float = inf) -> Centred:
        unit = self._unit
        scaled = replace(manner, size=manner.size * unit, least=manner.least * unit)
        return centred(text, width, height, scaled, self._face)
