"""The fonts of a batch in a natural hand: each written word is a glyph, and its paler ink the same glyph of another."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from quillpost.rendering.handwriting.fonts import EMPTY_GLYPH, UNITS_PER_EM, GlyphRecord, assemble_glyphs
from quillpost.rendering.handwriting.text import HAND_FONT, PALE_FONT, string_code
from quillpost.rendering.handwriting.words import WrittenWord

_SPACE_GLYPH = 1
SPACE_ADVANCE = 0
"""Words are placed by themselves. A reader takes the first and the last glyph for letters, and what is up to half their
widths higher or lower for the same line: were they words, it would read lines as one."""
SPACE_CODE = string_code(_SPACE_GLYPH).encode("latin-1")
_FIRST_WORD_GLYPH = 2
_GLYPHS_PER_FONT = 60_000  # a glyph has two bytes


@dataclass(frozen=True, slots=True)
class WordFont:
    """A font of written words, with each glyph's advance and text; `name` is that of its resource.

    A font of the same words' paler ink has nothing but spaces to be read, none of which takes up room.
    """

    name: bytes
    program: bytes
    advances: Mapping[int, int]
    texts: Mapping[int, str]
    box: tuple[int, int, int, int]


class WordFonts:
    """Glyphs as they come; the fonts are made when all are known."""

    def __init__(self, *, has_pale_ink: bool) -> None:
        self._has_pale_ink = has_pale_ink
        self._words: list[WrittenWord] = []
        self._advances: list[int] = []
        self._texts: list[str] = []

    def add(self, word: WrittenWord, text: str, room: float = 0.0) -> tuple[int, bytes]:
        """The number of its font, and its code in that; `room` is what it takes up behind its ink."""
        font, glyph = divmod(len(self._words), _GLYPHS_PER_FONT)
        self._words.append(word)
        self._advances.append(round((word.advance + room) * UNITS_PER_EM))
        self._texts.append(text)
        return font, string_code(_FIRST_WORD_GLYPH + glyph).encode("latin-1")

    def make_fonts(self, *, at_least: int) -> list[WordFont]:
        starts = range(0, max(len(self._words), at_least), _GLYPHS_PER_FONT)
        layers = (False, True) if self._has_pale_ink else (False,)
        return [self._make_font(number, start, layer) for number, start in enumerate(starts) for layer in layers]

    def _make_font(self, number: int, start: int, is_pale: bool) -> WordFont:
        words = self._words[start : start + _GLYPHS_PER_FONT]
        drawn = [word.pale_glyph if is_pale else word.glyph for word in words]
        glyphs: list[GlyphRecord] = [EMPTY_GLYPH, EMPTY_GLYPH, *drawn]
        boxes = np.array([glyph.box for glyph in glyphs])
        if is_pale:
            # Were they as wide, readers would take each for its word written twice, and drop one.
            advances, texts = [0] * len(glyphs), [" "] * len(words)
        else:
            advances = [0, SPACE_ADVANCE, *self._advances[start : start + _GLYPHS_PER_FONT]]
            texts = self._texts[start : start + _GLYPHS_PER_FONT]
        return WordFont(
            _font_name(PALE_FONT if is_pale else HAND_FONT, number),
            assemble_glyphs(UNITS_PER_EM, advances, glyphs),
            {glyph: advance for glyph, advance in enumerate(advances) if advance},
            dict(enumerate([" ", *texts], _SPACE_GLYPH)),
            (*boxes[:, :2].min(axis=0).tolist(), *boxes[:, 2:].max(axis=0).tolist()),
        )


def in_font(name: bytes, number: int, shown: bytes) -> bytes:
    """What is shown by operators in one of the fonts; afterwards the first is set again."""
    return b"%b 1 Tf%b%b 1 Tf\n" % (_font_name(name, number), shown, name) if number else shown


def _font_name(name: bytes, number: int) -> bytes:
    return name + b"x%d" % number if number else name


def move_on(ems: float) -> bytes:
    return b"[%d]TJ\n" % -round(ems * UNITS_PER_EM)
