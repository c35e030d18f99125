"""One paragraph of handwriting, and where its lines break at a given width."""

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

from quillpost.composition.hands.hand import Hand, Word

Line = tuple[Word, ...]

# In font sizes. A person's gaps are uneven; lines are broken as if all of them were wide.
WORD_GAP = 0.31
GAP_WANDER = 0.06
_WIDEST_GAP = WORD_GAP + GAP_WANDER


class Paragraph:
    """Words that share lines. All measures are in font sizes."""

    def __init__(self, hand: Hand, words: Line) -> None:
        self._hand = hand
        self._words = words
        self._widest = max((word.extent for word in words), default=0.0)
        # Where each word would end, were they all on one endless line.
        self._ends = list(accumulate(word.advance + _WIDEST_GAP for word in words))
        self.lines = lru_cache(maxsize=64)(self._lines)

    def _lines(self, width: float) -> tuple[Line, ...]:
        """As many words on each line as the width takes; no words are one blank line."""
        words, ends = self._words, self._ends
        if not words:
            return ((),)
        if self._widest > width:
            return self._without_long_words(width)._lines(width)
        lines = []
        start, taken = 0, 0.0
        while start < len(words):
            room = taken + width - words[start].left + _WIDEST_GAP
            stop = max(bisect_right(ends, room, lo=start), start + 1)
            # The last word's ink may reach past its advance, and so past the width.
            while stop > start + 1 and ends[stop - 1] + words[stop - 1].right > room:
                stop -= 1
            lines.append(words[start:stop])
            taken = ends[stop - 1]
            start = stop
        return tuple(lines)

    def _without_long_words(self, width: float) -> "Paragraph":
        parts: list[Word] = []
        for word in self._words:
            parts += [word] if word.extent <= width else self._hand.parts_of(word, width)
        return Paragraph(self._hand, tuple(parts))


@lru_cache(maxsize=1024)
def paragraph_of(hand: Hand, text: str) -> Paragraph:
    """Remembered, as most paragraphs of an order are the same on every piece."""
    return Paragraph(hand, tuple(hand.word(word) for word in text.split()))
