"""The hand that writes the message, and the plain face beside it."""

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby

from quillpost.composition.hands.faces import Face, Glyph, load_face

HAND_FONT = b"/F1"
PLAIN_FONT = b"/F2"

# Joiners, variation selectors and control characters draw nothing by nature.
_INVISIBLE = frozenset({"Cf", "Cc", "Mn", "Me"})


@dataclass(frozen=True, slots=True)
class Word:
    """A written word, in font sizes. Its ink reaches `left` before and `right` past its advance.

    `text` holds the letters that are drawn, which are not always those that were typed.
    """

    text: str
    operators: bytes
    advance: float
    left: float
    right: float
    bottom: float
    top: float

    @property
    def extent(self) -> float:
        return self.left + self.advance + self.right


class Hand:
    """A handwriting face; letters that it lacks are drawn in the plain face at the same height."""

    def __init__(self, face: Face, plain: Face) -> None:
        self.face = face
        self.plain = plain
        self.plain_scale = face.cap_height / plain.cap_height
        self._inks = _inks_of(plain, self.plain_scale) | _inks_of(face, 1.0)
        self.word: Callable[[str], Word] = lru_cache(maxsize=50_000)(self._word)

    def parts_of(self, word: Word, width: float) -> list[Word]:
        """The word in parts no wider than that, each as long as can be; a single letter always is one.

        Every letter is measured once, so that a thousand accents on one letter cost no more than words.
        """
        parts, start = [], 0
        advance = left = right = 0.0
        for place, letter in enumerate(word.text):
            ink = self._inks[letter]
            left = min(left, advance + ink.left)
            right = max(right, advance + ink.right)
            advance += ink.width
            if max(right, advance) - left > width and place > start:
                parts.append(self._write(word.text[start:place]))
                start = place
                advance, left, right = ink.width, min(0.0, ink.left), max(0.0, ink.right)
        return [*parts, self._write(word.text[start:])]

    def _word(self, text: str) -> Word:
        return self._write(legible(text))

    def _write(self, letters: str) -> Word:
        """Operators that show the letters with the hand at size 1 set, and leave it set."""
        operators: list[bytes] = []
        for in_hand, run in groupby(letters, self.face.glyphs.__contains__):
            face = self.face if in_hand else self.plain
            shown = face.encode("".join(run)) + b"Tj"
            if not in_hand:
                shown = b"%b %.3f Tf%b%b 1 Tf" % (PLAIN_FONT, self.plain_scale, shown, HAND_FONT)
            operators.append(shown)
        advance = left = right = bottom = top = 0.0
        for ink in map(self._inks.__getitem__, letters):
            left = min(left, advance + ink.left)
            right = max(right, advance + ink.right)
            bottom = min(bottom, ink.bottom)
            top = max(top, ink.top)
            advance += ink.width
        shown = b"".join(operators)
        return Word(letters, shown, advance, -left, max(right - advance, 0.0), -bottom, top)


@dataclass(frozen=True, slots=True)
class _Ink:
    """A letter's measures in font sizes, at the scale at which the hand draws it."""

    width: float
    left: float
    bottom: float
    right: float
    top: float


def _inks_of(face: Face, scale: float) -> dict[str, _Ink]:
    unit = scale / 1000
    return {
        letter: _Ink(
            glyph.width * unit, glyph.left * unit, glyph.bottom * unit, glyph.right * unit, glyph.top * unit
        )
        for letter, glyph in face.glyphs.items()
    }


@cache
def plain_face() -> Face:
    """Source Sans, whose variable file would otherwise come out in its thinnest weight."""
    return load_face("fontpkg_source_sans_3", "SourceSans3[wght].ttf", weight=400)


@cache
def hand() -> Hand:
    return Hand(load_face("fontpkg_zeyada", "Zeyada.ttf"), plain_face())


def legible(text: str) -> str:
    """The text in letters that one of our faces has: accents are composed, the rest replaced."""
    return "".join(_legible_letters(text, hand().face.glyphs))


def plain_text(text: str) -> str:
    """The same for text that is set in the plain face alone; white space becomes one space."""
    return "".join(_legible_letters(" ".join(text.split()), plain_face().glyphs))


def missing_letters(text: str) -> list[str]:
    """Letters that neither face has, in order, once each."""
    covered, also_covered = hand().face.glyphs, plain_face().glyphs
    letters = dict.fromkeys(unicodedata.normalize("NFC", text))
    return [
        letter
        for letter in letters
        if letter not in covered
        and letter not in also_covered
        and not letter.isspace()
        and unicodedata.category(letter) not in _INVISIBLE
    ]


def _legible_letters(text: str, first_choice: dict[str, Glyph]) -> Iterator[str]:
    second_choice = plain_face().glyphs
    for letter in unicodedata.normalize("NFC", text):
        if letter in first_choice or letter in second_choice:
            yield letter
        elif unicodedata.category(letter) not in _INVISIBLE:
            yield _closest_ascii(letter)


def _closest_ascii(letter: str) -> str:
    decomposed = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return decomposed.strip() or "?"
