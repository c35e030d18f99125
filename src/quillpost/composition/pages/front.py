"""The front that a card without art gets: tinted paper, a frame, a quill and its stroke."""

from quillpost.composition.content import Sender
from quillpost.composition.hands.hand import HAND_FONT, PLAIN_FONT, Hand, plain_face, plain_text
from quillpost.composition.pages.furniture import rectangle
from quillpost.composition.pages.pieces import Box, PieceTemplate

_GREETING = "a note for you"
_PAPER = b".984 .972 .945 rg"
_FRAME = b".78 .72 .62 RG"
_INK = b".13 .20 .42"
_LETTER_SPACING = 0.14

# Drawn by hand in a field 100 wide and 110 high; the nib writes at its lower left.
_QUILL = (
    b"%b rg 12 25 m 7 42 9 56 15 67 c 18 66 20 65 22 63 c 21 67 21 70 21 74 c 33 92 52 103 76 109 c"
    b" 76 98 73 88 67 78 c 63 79 59 79 56 77 c 60 75 62 72 62 69 c 57 59 50 51 42 45 c"
    b" 38 46 35 46 32 45 c 35 43 36 42 37 40 c 30 34 23 29 16 26 c h f"
    b" 1 w .984 .972 .945 RG 15 28 m 27 54 46 80 70 104 c S"
    b" 1.5 w 1 J %b RG 0 2 m 5 12 10 20 16 29 c S" % (_INK, _INK)
)
_STROKE = (
    b".9 w 1 J %b RG 0 2 m -26 -7 -58 -7 -76 0 c -90 5 -86 13 -74 9 c -56 3 -36 -9 -6 -10 c"
    b" 26 -11 54 -6 84 1 c S" % _INK
)


def draw_plain_front(piece: PieceTemplate, hand: Hand, sender: Sender) -> bytes:
    trim = piece.trim
    unit = trim.height / 288  # everything was proportioned on a 4x6 card
    middle = trim.left + trim.width / 2
    inset = 20 * unit
    parts = [
        b"q %b %b f Q\n" % (_PAPER, rectangle(piece.bleed_box)),
        b"q %b .8 w %b S .3 w %b S Q\n"
        % (_FRAME, rectangle(trim.grown(-inset)), rectangle(trim.grown(-inset - 4 * unit))),
        _centred_greeting(hand, middle, trim.bottom + 106 * unit, 40 * unit),
        b"q %.3f 0 0 %.3f %.2f %.2f cm %b %b Q\n"
        % (0.9 * unit, 0.9 * unit, middle + 2 * unit, trim.bottom + 146 * unit, _STROKE, _QUILL),
    ]
    signature = plain_text(sender.company or sender.name or "")
    if signature:
        room = Box(trim.left + 3 * inset, trim.bottom, trim.width - 6 * inset, trim.height)
        parts.append(_signature(signature.upper(), room, trim.bottom + 46 * unit, 8 * unit))
    return b"".join(parts)


def _centred_greeting(hand: Hand, middle: float, baseline: float, size: float) -> bytes:
    words = [hand.word(word) for word in _GREETING.split()]
    gap = 0.3
    width = sum(word.advance for word in words) + gap * (len(words) - 1)
    left = middle - width * size / 2
    shown = []
    for word in words:
        shown.append(b"%.2f 0 0 %.2f %.2f %.2f Tm%b" % (size, size, left, baseline, word.operators))
        left += (word.advance + gap) * size
    return b"BT %b rg %b 1 Tf %b ET\n" % (_INK, HAND_FONT, b" ".join(shown))


def _signature(text: str, room: Box, baseline: float, size: float) -> bytes:
    """The sender in spaced capitals; a long one is set smaller rather than cut."""
    face = plain_face()
    spaced = face.measure(text) + _LETTER_SPACING * (len(text) - 1)
    size = min(size, room.width / spaced)
    return b"BT .45 .42 .38 rg %b %.2f Tf %.3f Tc %.2f %.2f Td %bTj 0 Tc ET\n" % (
        PLAIN_FONT,
        size,
        _LETTER_SPACING * size,
        room.left + (room.width - spaced * size) / 2,
        baseline,
        face.encode(text),
    )
