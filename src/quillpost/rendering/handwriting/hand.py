"""Words spelled in the glyphs of a hand, and measured."""

from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import uharfbuzz as harfbuzz

from quillpost.rendering.handwriting import text as plain
from quillpost.rendering.handwriting.faces import TAKES_PER_GLYPH, PreparedFace
from quillpost.rendering.handwriting.models import Style
from quillpost.rendering.handwriting.outlines import MAX_TAKE_REACH
from quillpost.rendering.handwriting.text import PlainFace, string_code

HAND_FONT = b"/F1"
PLAIN_FONT = b"/F2"
BAR_FONT = b"/F3"
FALLBACK_FONTS = (b"/F4", b"/F5")
HELPER_FONT = b"/F6"

TRUE_SHAPE_TAKE = TAKES_PER_GLYPH  # in place of a take: the face's own shapes, each letter always the same
_MAX_CACHED_LENGTH = 40
_LAYOUT_TABLES = {"GSUB", "GPOS", "kern"}
_FEATURES = {"kern": True, "liga": True, "calt": True, "clig": True}
_MIN_KERN = 4  # a shaping engine's smallest corrections cannot be seen, and would cost bytes


class HandGlyphs(NamedTuple):
    """Base glyphs of the hand and their offsets; most words have no `y_offsets`."""

    bases: tuple[int, ...]
    x_offsets: tuple[int, ...]
    y_offsets: tuple[int, ...]


class BorrowedText(NamedTuple):
    """Letters of another face, with operators that show them and then set the hand again."""

    font: bytes
    text: str
    operators: bytes


class SpelledWord(NamedTuple):
    """Measures are in ems. `occurrences` says for each of `bases` how often the word had it before."""

    text: str
    parts: tuple[HandGlyphs | BorrowedText, ...]
    bases: tuple[int, ...]
    occurrences: tuple[int, ...]
    advance: float
    left: float
    right: float
    bottom: float
    top: float

    @property
    def total_width(self) -> float:
        return self.left + self.advance + self.right

    @property
    def is_simple(self) -> bool:
        """Only the hand's glyphs, each where the one before it ends."""
        first = self.parts[0] if len(self.parts) == 1 else None
        return isinstance(first, HandGlyphs) and not any(first.x_offsets) and not first.y_offsets


class Hand:
    """One handwriting style; letters it lacks are drawn in other faces at the same height."""

    def __init__(self, style: Style, prepared: PreparedFace, fallback_faces: Mapping[bytes, PlainFace]) -> None:
        self.style = style
        self.prepared = prepared
        self.fallback_faces = fallback_faces
        self._faces: tuple[Container[str], ...] = (prepared.letters, *fallback_faces.values())
        self._font = harfbuzz.Font(harfbuzz.Face(prepared.source))
        self._font.scale = (1000, 1000)
        # Most hands have no tables that say how letters change beside each other: there is nothing to ask.
        self._has_no_layout_tables = not _LAYOUT_TABLES & set(self._font.face.table_tags)
        self._bases_by_source_number = {number: base for base, number in enumerate(prepared.source_numbers)}
        self._own_chars = frozenset(prepared.letters)
        self._reach = MAX_TAKE_REACH if prepared.takes else 0
        self._char_extents = {char: self._char_extent(char) for char in prepared.letters}
        self._digits = frozenset(filter(str.isdigit, prepared.letters))
        glyph_count = len(prepared.advances) * (prepared.takes + 1)
        self.codes = [string_code(number).encode("latin-1") for number in range(glyph_count + 1)]
        self.take_glyphs = [self._take_glyphs(base) for base in range(len(prepared.advances))]
        self._spell_cached = lru_cache(maxsize=20_000)(self._spell)

    @property
    def word_gap(self) -> float:
        """In ems."""
        return self.style.word_gap

    def spell(self, text: str) -> SpelledWord:
        """A word without spaces; short ones are cached."""
        return self._spell_cached(text) if len(text) <= _MAX_CACHED_LENGTH else self._spell(text)

    def has_visible_text(self, text: str) -> bool:
        return any(self.make_legible(char).strip() for char in text)

    def make_legible(self, text: str) -> str:
        """The text in letters that can be drawn; line breaks stay."""
        return "\n".join(plain.make_legible(line, self._faces) for line in text.splitlines())

    def find_borrowed_chars(self, text: str) -> list[str]:
        """Letters that this hand lacks, in order, once each."""
        return plain.find_missing_chars(text, self._faces[:1])

    def find_missing_chars(self, text: str) -> list[str]:
        """Letters that no face has; they are spelled in Latin letters."""
        return plain.find_missing_chars(text, self._faces)

    def char_width(self, char: str) -> float:
        """A letter's advance in ems."""
        font = self._char_font(char)
        if font == HAND_FONT:
            return self.prepared.advances[self.prepared.letters[char]] / 1000
        face = self.fallback_faces[font]
        return face.text_width(char) * self._scale_of(face)

    def _take_glyphs(self, base: int) -> list[int]:
        """Glyph numbers by take; letters start apart, so that they do not vary alike."""
        face = self.prepared
        true_shape = face.glyph_number(base, face.takes)
        if not face.takes:
            return [true_shape] * (TRUE_SHAPE_TAKE + 1)
        return [
            *(face.glyph_number(base, (take + base * 5) % TAKES_PER_GLYPH) for take in range(TAKES_PER_GLYPH)),
            true_shape,
        ]

    def _spell(self, text: str) -> SpelledWord:
        chars = plain.make_legible(text, self._faces)
        if self._has_no_layout_tables and self._own_chars.issuperset(chars):
            return self._spell_simply(chars)
        extent = _InkExtent()
        parts = tuple(
            self._shape_run("".join(run), extent) if font == HAND_FONT else self._borrow_run("".join(run), font, extent)
            for font, run in groupby(chars, self._char_font)
        )
        bases = tuple([base for part in parts if isinstance(part, HandGlyphs) for base in part.bases])
        return SpelledWord(chars, parts, bases, _previous_occurrences(bases), *extent.measures())

    def _spell_simply(self, chars: str) -> SpelledWord:
        """The fast path for most words: all in the hand, without layout tables."""
        extents = self._char_extents
        gap = 0 if self._digits.isdisjoint(chars) else self.style.figure_gap
        bases, x_offsets = [], []
        advance = ink_left = ink_right = ink_bottom = ink_top = 0
        was_digit = False
        for char in chars:
            base, width, left, bottom, right, top, is_digit = extents[char]
            x_offset = gap if was_digit and is_digit else 0
            was_digit = is_digit
            advance += x_offset
            bases.append(base)
            x_offsets.append(x_offset)
            # Plain comparisons: calls would cost more than all the rest of a word.
            if advance + left < ink_left:
                ink_left = advance + left
            if advance + right > ink_right:
                ink_right = advance + right
            if bottom < ink_bottom:
                ink_bottom = bottom
            if top > ink_top:
                ink_top = top
            advance += width
        glyphs = HandGlyphs(tuple(bases), tuple(x_offsets), ())
        overhang = ink_right - advance if ink_right > advance else 0
        edges = (advance / 1000, -ink_left / 1000, overhang / 1000, -ink_bottom / 1000, ink_top / 1000)
        return SpelledWord(chars, (glyphs,), glyphs.bases, _previous_occurrences(glyphs.bases), *edges)

    def _char_extent(self, char: str) -> tuple[int, int, int, int, int, int, bool]:
        """Base glyph, advance, edges with the reach of takes, and whether it is a digit."""
        base, reach = self.prepared.letters[char], self._reach
        left, bottom, right, top = self.prepared.boxes[base]
        edges = (left - reach, bottom - reach, right + reach, top + reach)
        return base, self.prepared.advances[base], *edges, char.isdigit()

    def _char_font(self, char: str) -> bytes:
        if char in self.prepared.letters:
            return HAND_FONT
        return next(font for font, face in self.fallback_faces.items() if char in face)

    def _scale_of(self, face: PlainFace) -> float:
        return self.prepared.cap_height / face.cap_height

    def _shape_run(self, word: str, extent: "_InkExtent") -> HandGlyphs:
        bases, x_offsets, y_offsets = [], [], []
        pending_offset = 0  # how far the glyph before stands off its place, and how much less it advanced
        for base, advance, x_shift, y_shift in self._position_glyphs(word):
            default_advance = self.prepared.advances[base]
            kern = advance - default_advance if abs(advance - default_advance) >= _MIN_KERN else 0
            left, bottom, ink_right, top = self.prepared.boxes[base]
            edges = (left + x_shift, bottom + y_shift, ink_right + x_shift, top + y_shift)
            extent.add(*edges, default_advance + kern, self._reach)
            bases.append(base)
            x_offsets.append(x_shift + pending_offset)
            y_offsets.append(y_shift)
            pending_offset = kern - x_shift
        return HandGlyphs(tuple(bases), tuple(x_offsets), tuple(y_offsets) if any(y_offsets) else ())

    def _position_glyphs(self, word: str) -> Iterator[tuple[int, int, int, int]]:
        """Each glyph with its advance and its offsets, in thousandths."""
        if self._has_no_layout_tables:
            for char, next_char in zip(word, f"{word[1:]} ", strict=True):
                base = self.prepared.letters[char]
                gap = self.style.figure_gap if char.isdigit() and next_char.isdigit() else 0
                yield base, self.prepared.advances[base] + gap, 0, 0
            return
        buffer = harfbuzz.Buffer()
        buffer.add_str(word)
        buffer.guess_segment_properties()
        harfbuzz.shape(self._font, buffer, _FEATURES)
        for info, position in zip(buffer.glyph_infos, buffer.glyph_positions, strict=True):
            base = self._bases_by_source_number[info.codepoint]
            yield base, position.x_advance, position.x_offset, position.y_offset

    def _borrow_run(self, word: str, font: bytes, extent: "_InkExtent") -> BorrowedText:
        face = self.fallback_faces[font]
        scale = self._scale_of(face)
        for char in word:
            left, bottom, right, top = (round(edge * scale) for edge in face.char_box(char))
            extent.add(left, bottom, right, top, round(face.text_width(char) * scale * 1000), 0)
        operators = b"%b %.3f Tf%bTj%b 1 Tf" % (font, scale, face.encode(word), HAND_FONT)
        return BorrowedText(font, word, operators)


def _previous_occurrences(bases: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(bases)) == len(bases):
        return (0,) * len(bases)
    counts: dict[int, int] = {}
    occurrences = []
    for base in bases:
        count = counts.get(base, 0)
        occurrences.append(count)
        counts[base] = count + 1
    return tuple(occurrences)


class _InkExtent:
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
        overhang = max(self._right - self._advance, 0)
        return (self._advance / 1000, -self._left / 1000, overhang / 1000, -self._bottom / 1000, self._top / 1000)
