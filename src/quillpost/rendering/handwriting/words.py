"""Words in a natural hand: measured before they are written, and written once for each choice of their forms."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import groupby
from threading import Lock
from typing import NamedTuple

import numpy as np
from cachetools import LRUCache

from quillpost.rendering.handwriting.alphabet import Alphabet
from quillpost.rendering.handwriting.bent_letters import MANNERS, Manner
from quillpost.rendering.handwriting.choices import FormChooser
from quillpost.rendering.handwriting.fonts import UNITS_PER_EM, GlyphRecord, pack_curves
from quillpost.rendering.handwriting.ink import PENS, InkOutlines, ink_paths
from quillpost.rendering.handwriting.models import Style
from quillpost.rendering.handwriting.noise import Integers
from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.text import (
    BorrowedText,
    NaturalRun,
    PlainFace,
    SpelledWord,
    borrow_text,
    find_lacking_chars,
    make_legible,
)
from quillpost.rendering.handwriting.word_paths import PenPaths, go_over_some, shape_words

X_HEIGHT = 0.4
"""Of a natural hand, in ems."""
_UNITS = X_HEIGHT * UNITS_PER_EM

_MAX_RUN_WIDTH = 15.0  # ems, as spelled: a word may come out nearly twice as wide
_LETTERS_OF_WIDE_RUN = 12
_WORDS_AT_ONCE = 1_500
_MAX_CACHED_LENGTH = 40
_CACHED_FORMS = 40_000
# Where ink counts for the distance between words: neither tails nor tall letters' tops.
_BAND = (-0.1, 1.3)
# A word comes out a little wider, taller or deeper than it was measured.
_WIDTH_ROOM, _HEIGHT_ROOM, _EDGE_ROOM, _HEIGHT_MARGIN = 1.02, 1.1, 0.12, 0.02


class WordKey(NamedTuple):
    """All that decides how a word comes out; `number` tells apart words of the same forms."""

    text: str
    choice: bytes
    number: int
    manner: str


class WrittenWord(NamedTuple):
    """A word's glyph, and that of its paler ink, which lies beneath. They begin where the word's ink does;
    measures are in ems, as those of a spelled word.
    """

    glyph: GlyphRecord
    pale_glyph: GlyphRecord
    origin: float  # from there to where its first letter begins
    advance: float
    left: float
    right: float
    bottom: float
    top: float


class NaturalHand:
    """A hand of pen movements; letters that it lacks are drawn in other faces at the same height."""

    def __init__(self, style: Style, alphabet: Alphabet, fallback_faces: Mapping[bytes, PlainFace]) -> None:
        assert style.movement is not None
        self.style = style
        self.fallback_faces = fallback_faces
        self.alphabet = alphabet
        self.chooser = FormChooser(alphabet.count_forms)
        self.cap_height = round(alphabet.cap_height * _UNITS)
        self.pen = PENS[style.movement.pen]
        self._movement = style.movement
        self._faces: tuple[Container[str], ...] = (alphabet, *fallback_faces.values())
        self._written: LRUCache[WordKey, WrittenWord] = LRUCache(_CACHED_FORMS)
        self._lock = Lock()
        self._spell_cached = lru_cache(maxsize=20_000)(self._spell)

    def has_visible_text(self, text: str) -> bool:
        return any(make_legible(char, self._faces).strip() for char in text)

    def make_legible(self, text: str) -> str:
        """The text in letters that can be drawn; line breaks stay."""
        return "\n".join(make_legible(line, self._faces) for line in text.splitlines())

    def spell(self, text: str) -> SpelledWord:
        """A word without spaces, as wide and high as it may come out; short ones are cached."""
        return self._spell_cached(text) if len(text) <= _MAX_CACHED_LENGTH else self._spell(text)

    def _spell(self, text: str) -> SpelledWord:
        return self._spell_number(text) if self.alphabet.is_number(text) else self._spell_word(text)

    def _spell_number(self, text: str) -> SpelledWord:
        width = self.alphabet.width(self.alphabet.read(text)) * X_HEIGHT * _WIDTH_ROOM
        bottom, top = self._figure_reach
        parts = (NaturalRun(text, are_figures=True),)
        return SpelledWord(text, parts, width, _EDGE_ROOM, _EDGE_ROOM, bottom + _HEIGHT_MARGIN, top + _HEIGHT_MARGIN)

    @cached_property
    def _figure_reach(self) -> tuple[float, float]:
        """How far figures reach below and above the line."""
        letters = self.alphabet.letters
        numbers = self.alphabet.read("".join(dict.fromkeys(char for char, _ in self.alphabet.figure_places)))
        bottom = -min([0.0, *(letters.bottoms[number] for number in numbers)])
        top = max([0.0, *(letters.tops[number] for number in numbers)])
        return bottom * X_HEIGHT * _HEIGHT_ROOM, top * X_HEIGHT * _HEIGHT_ROOM

    def _spell_word(self, text: str) -> SpelledWord:
        chars = make_legible(text, self._faces)
        parts: list[NaturalRun | BorrowedText] = []
        advance = bottom = top = left = right = 0.0
        for font, group in groupby(chars, self._font_of):
            run = "".join(group)
            if font is None:
                numbers = self.alphabet.read(run)
                letters = self.alphabet.letters
                width = self.alphabet.width(numbers) * X_HEIGHT * _WIDTH_ROOM
                parts += map(NaturalRun, _split_wide(run, width))
                advance += width
                bottom = max(bottom, -min([letters.bottoms[number] for number in numbers]) * X_HEIGHT * _HEIGHT_ROOM)
                top = max(top, max([letters.tops[number] for number in numbers]) * X_HEIGHT * _HEIGHT_ROOM)
                right = _EDGE_ROOM
            else:
                borrowed, extent = borrow_text(run, font, self.fallback_faces[font], self.cap_height)
                parts.append(borrowed)
                width, overhang, right, low, high = extent.measures()
                left = max(left, overhang - advance)
                advance, bottom, top = advance + width, max(bottom, low), max(top, high)
        left = max(left, _EDGE_ROOM if parts and isinstance(parts[0], NaturalRun) else 0.0)
        return SpelledWord(chars, tuple(parts), advance, left, right, bottom + _HEIGHT_MARGIN, top + _HEIGHT_MARGIN)

    def count_forms(self, char: str) -> int:
        return self.alphabet.count_forms(char)

    def find_lacking_chars(self, text: str) -> tuple[list[str], list[str]]:
        """Visible letters that this hand lacks, in order, once each: those of other faces, and those of none."""
        return find_lacking_chars(text, self._faces)

    def char_width(self, char: str) -> float:
        return self.spell(char).advance

    def _font_of(self, char: str) -> bytes | None:
        if char in self.alphabet:
            return None
        return next(font for font, face in self.fallback_faces.items() if char in face)

    def write(self, keys: Sequence[WordKey]) -> list[WrittenWord]:
        """Each is written once; the next that asks gets the same."""
        with self._lock:
            found = {key: self._written[key] for key in keys if key in self._written}
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        for start in range(0, len(missing), _WORDS_AT_ONCE):
            some = missing[start : start + _WORDS_AT_ONCE]
            found |= dict(zip(some, self._write_now(some), strict=True))
        with self._lock:
            self._written.update({key: found[key] for key in missing})
        return [found[key] for key in keys]

    def _write_now(self, keys: Sequence[WordKey]) -> Iterable[WrittenWord]:
        written: dict[int, WrittenWord] = {}
        for manner in dict.fromkeys(key.manner for key in keys):
            places = [place for place, key in enumerate(keys) if key.manner == manner]
            words = self._write_in(manner, [keys[place] for place in places])
            written |= dict(zip(places, words, strict=True))
        return [written[place] for place in range(len(keys))]

    def _write_in(self, name: str, keys: Sequence[WordKey]) -> list[WrittenWord]:
        movement, tables = self._movement, self.alphabet.letters.tables
        first = tables.first_form
        forms = [first[char] + form for key in keys for char, form in zip(key.text, key.choice, strict=True)]
        words = np.repeat(np.arange(len(keys)), [len(key.text) for key in keys])
        seeds = np.array([self._seed(key) for key in keys], np.uint64)
        manner = self._manner(name)
        paths = shape_words(
            tables, np.array(forms, np.int64), words, seeds, manner,
            joining=movement.joining, spacing=movement.spacing,
        )  # fmt: skip
        paths = go_over_some(paths, seeds, manner.pace)
        ink = ink_paths(paths, self.pen, self.alphabet.pen, seeds)
        return _to_written(paths, ink, len(keys))

    def _manner(self, name: str) -> Manner:
        manner = MANNERS[name]
        return replace(manner, pace=manner.pace * self._movement.hurry, tremor=self._movement.tremor)

    def _seed(self, key: WordKey) -> int:
        text = f"{self.style.number} {key.manner} {key.number} {key.text} {key.choice.hex()}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _split_wide(run: str, width: float) -> list[str]:
    """In parts that a glyph can hold, whose coordinates have 16 bits."""
    length = len(run) if width <= _MAX_RUN_WIDTH else _LETTERS_OF_WIDE_RUN
    return [run[start : start + length] for start in range(0, len(run), length)]


def _to_written(paths: PenPaths, ink: InkOutlines, count: int) -> list[WrittenWord]:
    owner = np.repeat(paths.word, np.diff(paths.starts))
    x, y = paths.knots.T
    in_band = (y > _BAND[0]) & (y < _BAND[1])
    left, right = _extremes(x[in_band], owner[in_band], count)
    all_left, all_right = _extremes(x, owner, count)
    has_none = left > right
    left, right = np.where(has_none, all_left, left), np.where(has_none, all_right, right)
    controls = ink.controls - np.stack([left[ink.word], np.zeros(len(ink.word))], axis=1)[_owners(ink.starts)]
    glyph = ink.word + count * ink.is_pale
    order = np.argsort(glyph, kind="stable")
    sorted_controls, starts = _reorder(controls, ink.starts, order)
    glyphs = pack_curves(sorted_controls * _UNITS, starts, glyph[order], 2 * count)
    owner = ink.word[_owners(ink.starts)]
    low_x, high_x = _extremes(controls[:, 0], owner, count)
    low_y, high_y = _extremes(controls[:, 1], owner, count)
    width = right - left
    measures = np.stack([-left, width, -low_x, high_x - width, -low_y, high_y], axis=1)
    measures[:, 2:] = np.maximum(measures[:, 2:], 0.0)
    rows = (measures * X_HEIGHT).tolist()
    parts = zip(glyphs[:count], glyphs[count:], rows, strict=True)
    return [WrittenWord(dark, pale, *row) for dark, pale, row in parts]


def _owners(starts: Integers) -> Integers:
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _extremes(values: Floats, owner: Integers, count: int) -> tuple[Floats, Floats]:
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, owner, values)
    np.maximum.at(high, owner, values)
    return low, high


def _reorder(controls: Floats, starts: Integers, order: Integers) -> tuple[Floats, Integers]:
    """The curves in another order."""
    lengths = np.diff(starts)[order]
    new_starts = np.concatenate([[0], np.cumsum(lengths)])
    index = np.repeat(starts[:-1][order] - new_starts[:-1], lengths) + np.arange(new_starts[-1])
    return controls[index], new_starts
