"""Putting a message on paper as a person would: nothing quite level, nothing quite even.

Or, for whoever wants it so, perfectly even.
"""

import hashlib
from collections.abc import Iterator
from itertools import repeat

from quillpost.composition.content import Ink
from quillpost.composition.hands.hand import HAND_FONT
from quillpost.composition.pages.layout import (
    BASELINE_WANDER,
    LEADING,
    MARGIN_WANDER,
    Setting,
)
from quillpost.composition.pages.paragraph import GAP_WANDER, WORD_GAP
from quillpost.composition.pages.pieces import Box

_UNEVEN = tuple(byte / 127.5 - 1 for byte in range(256))

# For every word: the usual gap, no step, no tilt, and the full size.
_EVEN = (0.0, 0.0, 0.0, -1.0)

# Shares of the room that the fit keeps free for a restless baseline.
_DRIFT = BASELINE_WANDER * 0.6
_RISE = BASELINE_WANDER * 0.3
_STEEPEST = 0.012
_LONG = _RISE / _STEEPEST

_MARGIN = MARGIN_WANDER * 0.9
_SHRINK = 0.03
_INERTIA = 0.65
_CHANGE = 1 - _INERTIA


def write(setting: Setting, box: Box, ink: Ink, item_id: int, *, realism: bool = True) -> bytes:
    """Operators that write the message into the box.

    All unevenness comes from the item's id and a word's place, so that a piece looks the
    same in every batch and every reprint. Without realism there is none.
    """
    size = setting.size
    noise = _noise(item_id, sum(map(len, setting.lines))) if realism else repeat(_EVEN)
    baseline = box.top - setting.first_baseline
    margin, drift = 0.5, 0.0
    parts = [b"%.3f %.3f %.3f rg BT %b 1 Tf\n" % (*ink, HAND_FONT)]
    for line in setting.lines:
        reach = 0.0
        for word, (gap, step, tilt, scale) in zip(line, noise, strict=False):
            if reach:
                reach += WORD_GAP + GAP_WANDER * gap
            else:
                # A first word has no gap before it: its noise moves the margin instead.
                margin = _INERTIA * margin + _CHANGE * (gap + 1) / 2
                reach = _MARGIN * margin + word.left
            drift = _INERTIA * drift + _CHANGE * step
            slope = tilt * (_STEEPEST if word.advance < _LONG else _RISE / word.advance)
            # Only ever smaller, so that a word never outgrows the place it was given.
            em = size * (1 - _SHRINK * (scale + 1) / 2)
            rise = em * slope
            left, bottom = box.left + reach * size, baseline + _DRIFT * drift * size
            place = (em, rise, -rise, em, left, bottom, word.operators)
            parts.append(b"%.2f %.3f %.3f %.2f %.2f %.2f Tm%b\n" % place)
            reach += word.advance
        baseline -= LEADING * size
    parts.append(b"ET\n")
    return b"".join(parts)


def _noise(item_id: int, words: int) -> Iterator[tuple[float, float, float, float]]:
    """Four numbers from -1 to 1 for each word; a longer message only adds to the end."""
    stream = hashlib.shake_128(b"%d" % item_id).digest(4 * words)
    numbers = map(_UNEVEN.__getitem__, stream)
    return zip(numbers, numbers, numbers, numbers, strict=True)
