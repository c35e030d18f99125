"""A hand at work: words spelt in its letters, measured, and shown in any of their takes."""

from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import uharfbuzz as harfbuzz

from quillpost.rendering.handwriting.catalog import Style
from quillpost.rendering.handwriting.faces import REACH, Prepared
from quillpost.rendering.handwriting.font_preparation import TAKES
from quillpost.rendering.handwriting.plain import PlainFace, legible, string_code, unwritten

HAND_FONT = b"/F1"
PLAIN_FONT = b"/F2"
BAR_FONT = b"/F3"
FURTHER_FONTS = (b"/F4", b"/F5")
HELPER_FONT = b"/F6"

TRUE_SHAPE = TAKES
"""In place of a take: the face's own shapes, each letter always the same."""

_USUAL_LENGTH = 40

_LAYOUT_TABLES = {"GSUB", "GPOS", "kern"}
_FEATURES = {"kern": True, "liga": True, "calt": True, "clig": True}

# A shaping engine's smallest corrections cannot be seen, and would cost bytes.
_LEAST_KERN = 4


class Glyphs(NamedTuple):
    """Letters in the hand itself: base glyphs, and how far right each is moved from where it would stand.

    `rises` lift glyphs off the line, as marks over letters need; most words have none.
    """

    bases: tuple[int, ...]
    moves: tuple[int, ...]
    rises: tuple[int, ...]


class Borrowed(NamedTuple):
    """Letters of another face, with operators that show them and then set the hand again."""

    font: bytes
    letters: str
    operators: bytes


class Spelling(NamedTuple):
    """A word in ems of its hand. Its ink reaches `left` before and `right` past its advance.

    `bases` are the hand's glyphs in it, and `nths` say how often each occurred in the word before.
    """

    text: str
    parts: tuple[Glyphs | Borrowed, ...]
    bases: tuple[int, ...]
    nths: tuple[int, ...]
    advance: float
    left: float
    right: float
    bottom: float
    top: float

    @property
    def extent(self) -> float:
        return self.left + self.advance + self.right

    @property
    def is_plain(self) -> bool:
        """Whether the word is nothing but the hand's glyphs, each where the one before it ends."""
        first = self.parts[0] if len(self.parts) == 1 else None
        return isinstance(first, Glyphs) and not any(first.moves) and not first.rises


class Hand:
    """One handwriting style; letters that it lacks are drawn in the other faces at the same height."""

    def __init__(self, style: Style, prepared: Prepared, others: Mapping[bytes, PlainFace]) -> None:
        self.style = style
        self.prepared = prepared
        self.others = others
        self._faces: tuple[Container[str], ...] = (prepared.letters, *others.values())
        self._font = harfbuzz.Font(harfbuzz.Face(prepared.source))
        self._font.scale = (1000, 1000)
        # Most hands have no tables that say how letters change beside each other: there is nothing to ask.
        self._is_simple = not _LAYOUT_TABLES & set(self._font.face.table_tags)
        self._bases = {number: base for base, number in enumerate(prepared.source_numbers)}
        self._own = frozenset(prepared.letters)
        self._reach = REACH if prepared.takes else 0
        self._extents = {letter: self._extent_of(letter) for letter in prepared.letters}
        self._figures = frozenset(filter(str.isdigit, prepared.letters))
        shapes = len(prepared.advances) * (prepared.takes + 1)
        self.codes = [string_code(number).encode("latin-1") for number in range(shapes + 1)]
        self.shapes = [self._shapes_of(base) for base in range(len(prepared.advances))]
        self._spell_known = lru_cache(maxsize=20_000)(self._spell)

    @property
    def gap(self) -> float:
        """Between two words, in ems."""
        return self.style.word_gap

    def spell(self, text: str) -> Spelling:
        """A word, which holds no space. Those of a usual length are remembered."""
        return self._spell_known(text) if len(text) <= _USUAL_LENGTH else self._spell(text)

    def writes(self, text: str) -> bool:
        """Whether anything of the text comes onto paper."""
        return any(self.legible(letter).strip() for letter in text)

    def legible(self, text: str) -> str:
        """The text in letters that can be drawn; line breaks stay."""
        return "\n".join(legible(line, self._faces) for line in text.splitlines())

    def borrowed_letters(self, text: str) -> list[str]:
        """Letters that are not in this hand's own writing, in order, once each."""
        return unwritten(text, self._faces[:1])

    def missing_letters(self, text: str) -> list[str]:
        """Letters that no face has, and that are spelt in Latin letters instead."""
        return unwritten(text, self._faces)

    def width_of(self, letter: str) -> float:
        """A letter's advance by itself, in ems."""
        font = self._font_of(letter)
        if font == HAND_FONT:
            return self.prepared.advances[self.prepared.letters[letter]] / 1000
        face = self.others[font]
        return face.measure(letter) * self._scale(face)

    def _shapes_of(self, base: int) -> list[int]:
        """The glyph numbers of a letter by take; letters start apart, lest all of them wander alike."""
        face = self.prepared
        true_shape = face.number(base, face.takes)
        if not face.takes:
            return [true_shape] * (TRUE_SHAPE + 1)
        return [*(face.number(base, (take + base * 5) % TAKES) for take in range(TAKES)), true_shape]

    def _spell(self, text: str) -> Spelling:
        """The text, which holds no space, as legible letters in their faces."""
        letters = legible(text, self._faces)
        if self._is_simple and self._own.issuperset(letters):
            return self._spell_simply(letters)
        extent = _Extent()
        parts = tuple(
            self._shape("".join(run), extent)
            if font == HAND_FONT
            else self._borrow("".join(run), font, extent)
            for font, run in groupby(letters, self._font_of)
        )
        bases = tuple([base for part in parts if isinstance(part, Glyphs) for base in part.bases])
        return Spelling(letters, parts, bases, _occurrences(bases), *extent.measures())

    def _spell_simply(self, letters: str) -> Spelling:
        """The same for what is all in the hand, and set letter by letter: most words by far."""
        known = self._extents
        gap = 0 if self._figures.isdisjoint(letters) else self.style.figure_gap
        bases, moves = [], []
        advance = first = last = low = high = 0
        is_figure = False
        for letter in letters:
            base, width, left, bottom, right, top, is_one = known[letter]
            move = gap if is_figure and is_one else 0
            is_figure = is_one
            advance += move
            bases.append(base)
            moves.append(move)
            # Plain comparisons: calls would cost more than all the rest of a word.
            if advance + left < first:
                first = advance + left
            if advance + right > last:
                last = advance + right
            if bottom < low:
                low = bottom
            if top > high:
                high = top
            advance += width
        glyphs = Glyphs(tuple(bases), tuple(moves), ())
        past = last - advance if last > advance else 0
        edges = (advance / 1000, -first / 1000, past / 1000, -low / 1000, high / 1000)
        return Spelling(letters, (glyphs,), glyphs.bases, _occurrences(glyphs.bases), *edges)

    def _extent_of(self, letter: str) -> tuple[int, int, int, int, int, int, bool]:
        """A letter's glyph, advance and edges (with the reach of its takes), and whether it is a figure."""
        base, reach = self.prepared.letters[letter], self._reach
        left, bottom, right, top = self.prepared.boxes[base]
        edges = (left - reach, bottom - reach, right + reach, top + reach)
        return base, self.prepared.advances[base], *edges, letter.isdigit()

    def _font_of(self, letter: str) -> bytes:
        if letter in self.prepared.letters:
            return HAND_FONT
        return next(font for font, face in self.others.items() if letter in face)

    def _scale(self, face: PlainFace) -> float:
        return self.prepared.cap_height / face.cap_height

    def _shape(self, word: str, extent: "_Extent") -> Glyphs:
        bases, moves, rises = [], [], []
        behind = 0  # how far the glyph before stands off its place, and how much less it advanced
        for base, advance, right, up in self._shaped(word):
            usual = self.prepared.advances[base]
            kern = advance - usual if abs(advance - usual) >= _LEAST_KERN else 0
            left, bottom, far, top = self.prepared.boxes[base]
            extent.add(left + right, bottom + up, far + right, top + up, usual + kern, self._reach)
            bases.append(base)
            moves.append(right + behind)
            rises.append(up)
            behind = kern - right
        return Glyphs(tuple(bases), tuple(moves), tuple(rises) if any(rises) else ())

    def _shaped(self, word: str) -> Iterator[tuple[int, int, int, int]]:
        """Each glyph with its advance and how far it is moved right and up, in thousandths."""
        if self._is_simple:
            for letter, following in zip(word, f"{word[1:]} ", strict=True):
                base = self.prepared.letters[letter]
                gap = self.style.figure_gap if letter.isdigit() and following.isdigit() else 0
                yield base, self.prepared.advances[base] + gap, 0, 0
            return
        buffer = harfbuzz.Buffer()
        buffer.add_str(word)
        buffer.guess_segment_properties()
        harfbuzz.shape(self._font, buffer, _FEATURES)
        for info, place in zip(buffer.glyph_infos, buffer.glyph_positions, strict=True):
            yield self._bases[info.codepoint], place.x_advance, place.x_offset, place.y_offset

    def _borrow(self, word: str, font: bytes, extent: "_Extent") -> Borrowed:
        face = self.others[font]
        scale = self._scale(face)
        for letter in word:
            left, bottom, right, top = (round(edge * scale) for edge in face.box(letter))
            extent.add(left, bottom, right, top, round(face.measure(letter) * scale * 1000), 0)
        shown = b"%b %.3f Tf%bTj%b 1 Tf" % (font, scale, face.encode(word), HAND_FONT)
        return Borrowed(font, word, shown)


def _occurrences(bases: tuple[int, ...]) -> tuple[int, ...]:
    """For each how often it occurred before."""
    if len(set(bases)) == len(bases):
        return (0,) * len(bases)
    seen: dict[int, int] = {}
    nths = []
    for base in bases:
        nth = seen.get(base, 0)
        nths.append(nth)
        seen[base] = nth + 1
    return tuple(nths)


class _Extent:
    """How far a word's ink reaches, letter by letter, in thousandths."""

    def __init__(self) -> None:
        self._advance = 0
        self._left = self._bottom = self._right = self._top = 0

    def add(self, left: int, bottom: int, right: int, top: int, advance: int, reach: int) -> None:
        self._left = min(self._left, self._advance + left - reach)
        self._bottom = min(self._bottom, bottom - reach)
        self._right = max(self._right, self._advance + right + reach)
        self._top = max(self._top, top + reach)
        self._advance += advance

    def measures(self) -> tuple[float, float, float, float, float]:
        """Advance, and how far the ink leaves it: left, right, bottom, top; in ems."""
        past = max(self._right - self._advance, 0)
        return (
            self._advance / 1000,
            -self._left / 1000,
            past / 1000,
            -self._bottom / 1000,
            self._top / 1000,
        )
