"""The front of a card without art: plain, or with the sender's branding."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.handwriting.hand import HAND_FONT, PLAIN_FONT
from quillpost.rendering.handwriting.plain import Lettering
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.images.jpeg import is_turned
from quillpost.rendering.images.models import covering
from quillpost.rendering.layout.contrast import READABLE, VISIBLE, contrast
from quillpost.rendering.layout.furniture import rectangle
from quillpost.rendering.layout.plain_text import Centred, Manner, capitals, centred, tidy
from quillpost.rendering.models import Branding, Ink, Sender


@dataclass(frozen=True, slots=True)
class PlacedPicture:
    """`number` is the picture's object; width and height are as stored, before it is stood upright."""

    number: int
    width: int
    height: int
    orientation: int

    @property
    def upright_size(self) -> tuple[int, int]:
        """Width and height as seen."""
        return (self.height, self.width) if is_turned(self.orientation) else (self.width, self.height)

    def draw_over(self, area: Box) -> bytes:
        """Operators that lay it over the whole area, centred; they leave the coordinates changed."""
        return b"%b /P%d Do" % (covering(self.width, self.height, self.orientation, area), self.number)


GREETING = "a note for you"
GREETING_SIZE = 40

# The house's colours, as operands.
PAPER = b".984 .972 .945"
FRAME = b".78 .72 .62"
INK = b".13 .20 .42"
QUIET = b".45 .42 .38"

_INSET = 20
_LETTER_SPACING = 0.14

# Drawn by hand in a field 100 wide and 110 high; the nib writes at its lower left.
_QUILL = (
    b"%b rg 12 25 m 7 42 9 56 15 67 c 18 66 20 65 22 63 c 21 67 21 70 21 74 c 33 92 52 103 76 109 c"
    b" 76 98 73 88 67 78 c 63 79 59 79 56 77 c 60 75 62 72 62 69 c 57 59 50 51 42 45 c"
    b" 38 46 35 46 32 45 c 35 43 36 42 37 40 c 30 34 23 29 16 26 c h f"
    b" 1 w .984 .972 .945 RG 15 28 m 27 54 46 80 70 104 c S"
    b" 1.5 w 1 J %b RG 0 2 m 5 12 10 20 16 29 c S"
)
_STROKE = (
    b".9 w 1 J %b RG 0 2 m -26 -7 -58 -7 -76 0 c -90 5 -86 13 -74 9 c -56 3 -36 -9 -6 -10 c"
    b" 26 -11 54 -6 84 1 c S"
)


@dataclass(frozen=True, slots=True)
class Penned:
    """Words in a hand: operators that show them at size 1 on one line, and their width in sizes.

    Their ink does not rise above the line, nor drop below it, by more than is told; in sizes as well.
    """

    operators: bytes
    width: float
    rise: float = 1.0
    drop: float = 0.6


def greeting_in(vocabulary: Vocabulary) -> Penned:
    """The greeting in that hand."""
    words = [vocabulary.hand.spell(word) for word in GREETING.split()]
    rise, drop = max(word.top for word in words), max(word.bottom for word in words)
    return Penned(*vocabulary.line(GREETING), rise, drop)


def unit_of(panel: Box) -> float:
    """Everything was proportioned on a 4x6 card; an upright panel leaves more room above and below."""
    return min(panel.height / 288, panel.width / 340)


def draw_plain_front(panel: Box, paper: Box, greeting: Penned, sender: Sender, face: Lettering) -> bytes:
    """The front over the panel, a whole card's or a folded one's; `paper` is tinted, bleed and all."""
    unit = unit_of(panel)
    centre, middle = panel.left + panel.width / 2, panel.bottom + panel.height / 2
    room = panel.grown(-2 * _INSET * unit)
    size = min(GREETING_SIZE * unit, room.width / greeting.width)
    parts = [
        draw_paper(paper),
        draw_frame(panel, FRAME),
        draw_greeting(greeting, size, centre, middle - 38 * unit, INK),
        draw_quill(centre + 2 * unit, middle + 2 * unit, 0.9 * unit, INK),
    ]
    signature = capitals(sender.company or sender.name or "", face)
    if signature:
        parts.append(_signature(signature, room, panel.bottom + 46 * unit, 8 * unit, face))
    return b"".join(parts)


def draw_paper(paper: Box, colour: bytes = PAPER) -> bytes:
    return b"q %b rg %b f Q\n" % (colour, rectangle(paper))


def draw_frame(panel: Box, colour: bytes) -> bytes:
    """A frame, and a finer rule inside it."""
    outer, inner = frame_of(panel), rule_of(panel)
    return b"q %b RG .8 w %b S .3 w %b S Q\n" % (colour, rectangle(outer), rectangle(inner))


def frame_of(panel: Box) -> Box:
    return panel.grown(-_INSET * unit_of(panel))


def rule_of(panel: Box) -> Box:
    unit = unit_of(panel)
    return panel.grown(-_INSET * unit - 4 * unit)


def draw_greeting(greeting: Penned, size: float, centre: float, baseline: float, colour: bytes) -> bytes:
    return b"BT %b rg %b 1 Tf %.2f 0 0 %.2f %.2f %.2f Tm %b ET\n" % (
        colour,
        HAND_FONT,
        size,
        size,
        centre - greeting.width * size / 2,
        baseline,
        greeting.operators,
    )


def draw_quill(left: float, bottom: float, scale: float, colour: bytes) -> bytes:
    """The quill with its nib at that place, over the stroke that it has just drawn."""
    stroke, quill = _STROKE % colour, _QUILL % (colour, colour)
    return b"q %.3f 0 0 %.3f %.2f %.2f cm %b %b Q\n" % (scale, scale, left, bottom, stroke, quill)


def _signature(text: str, room: Box, baseline: float, size: float, face: Lettering) -> bytes:
    """The sender in spaced capitals; a long one is set smaller rather than cut."""
    spaced = face.measure(text) + _LETTER_SPACING * (len(text) - 1)
    if not spaced:
        return b""
    size = min(size, room.width / spaced)
    return b"BT %b rg %b %.2f Tf %.3f Tc %.2f %.2f Td %bTj 0 Tc ET\n" % (
        QUIET,
        PLAIN_FONT,
        size,
        _LETTER_SPACING * size,
        room.left + (room.width - spaced * size) / 2,
        baseline,
        face.encode(text),
    )


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
_PAPERS: dict[bytes, Ink] = {_WHITE: (1, 1, 1), PAPER: (0.984, 0.972, 0.945)}


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
        self._unit = unit = unit_of(panel)
        self._room = rule_of(panel).stretched(-_SIDE_MARGIN * unit, -_MARGIN * unit)
        self._centre = panel.left + panel.width / 2
        self._paper = _WHITE if brand.logo else PAPER
        self._line_colour = self._accent(VISIBLE, FRAME)
        self._ink = self._accent(READABLE, INK)
        self._name = "" if brand.logo else capitals(brand.branding.company or "", face)

    def draw(self, paper: Box, greeting: Penned) -> bytes:
        room = self._room
        # However far a hand's letters reach up and down, the greeting leaves room for the emblem.
        tallest = room.height / 3 / (greeting.rise + greeting.drop)
        size = min(GREETING_SIZE * self._unit, room.width / greeting.width, tallest)
        rise, drop = greeting.rise * size, greeting.drop * size
        foot, bottom = self._foot()
        emblem = self._emblem(room.top - bottom - rise - drop)
        # Greeting and emblem stand together in the middle of what the foot leaves.
        spare = room.top - bottom - rise - drop - emblem.height - emblem.gap
        baseline = bottom + spare / 2 + drop
        return b"".join(
            [
                draw_paper(paper),
                draw_paper(frame_of(self._panel), _WHITE) if self._brand.logo else b"",
                draw_frame(self._panel, self._line_colour),
                emblem.draw(room.top - spare / 2),
                draw_greeting(greeting, size, self._centre, baseline, INK),
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
            (tidy(branding.contact or "", face), _CONTACT, QUIET),
            (tidy(branding.disclaimer or "", face), _DISCLAIMER, QUIET),
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
            return draw_quill(self._centre + 2 * self._unit, top - height + _NIB * scale, scale, self._ink)

        return _Emblem(height, gap, draw)

    def _set(self, text: str, manner: Manner, width: float, height: float = inf) -> Centred:
        unit = self._unit
        scaled = replace(manner, size=manner.size * unit, least=manner.least * unit)
        return centred(text, width, height, scaled, self._face)
