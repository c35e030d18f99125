"""The hand that writes the message, and the plain face beside it."""

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby

from quillpost.composition.faces import Face, Glyph, load_face

HAND_FONT = b"/F1"
PLAIN_FONT = b"/F2"

# Joiners, variation selectors and control characters draw nothing by nature.
_INVISIBLE = frozenset({"Cf", "Cc", "Mn", "Me"})


@dataclass(frozen=True, slots=True)
class Word:
    """A written word, in font sizes. Its ink reaches `left` before and `right` past its advance."""

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
        self.word: Callable[[str], Word] = lru_cache(maxsize=50_000)(self._write)

    def _write(self, text: str) -> Word:
        """Operators that show the word with the hand at size 1 set, and leave it set."""
        operators: list[bytes] = []
        advance = left = right = bottom = top = 0.0
        for in_hand, run in groupby(legible(text), self.face.glyphs.__contains__):
            face, scale = (self.face, 1.0) if in_hand else (self.plain, self.plain_scale)
            letters = "".join(run)
            shown = face.encode(letters) + b"Tj"
            if not in_hand:
                shown = b"%b %.3f Tf%b%b 1 Tf" % (PLAIN_FONT, scale, shown, HAND_FONT)
            operators.append(shown)
            for glyph in map(face.glyphs.__getitem__, letters):
                left = min(left, advance + glyph.left * scale / 1000)
                right = max(right, advance + glyph.right * scale / 1000)
                bottom = min(bottom, glyph.bottom * scale / 1000)
                top = max(top, glyph.top * scale / 1000)
                advance += glyph.width * scale / 1000
        shown = b"".join(operators)
        return Word(text, shown, advance, -left, max(right - advance, 0.0), -bottom, top)


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
