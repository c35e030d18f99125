"""The front that a card without art gets: tinted paper, a frame, a quill and its stroke."""

from dataclasses import dataclass

from quillpost.composition.content import Sender
from quillpost.composition.geometry import Box
from quillpost.composition.hands.hand import HAND_FONT, PLAIN_FONT
from quillpost.composition.hands.plain import Lettering
from quillpost.composition.hands.vocabulary import Vocabulary
from quillpost.composition.pages.furniture import rectangle
from quillpost.composition.pages.plain_text import capitals

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
