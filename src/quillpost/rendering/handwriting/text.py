"""Faces that print each letter in one shape, and which face has a letter."""

import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TypeVar

from anyascii import anyascii

from quillpost.rendering.handwriting.faces import PreparedFace

Value = TypeVar("Value")

# Joiners, variation selectors and control characters draw nothing by nature.
_INVISIBLE_CATEGORIES = frozenset({"Cf", "Cc", "Mn", "Me", "Cs", "Co", "Cn"})


def make_legible(text: str, faces: Sequence[Container[str]]) -> str:
    """The text in letters of these faces: accents are composed, the rest is spelled in Latin."""
    composed = unicodedata.normalize("NFC", text)
    if all(map(faces[0].__contains__, composed)):
        return composed
    legible_text = "".join(_legible_chars(composed, faces))
    # An accent may find its letter only among those that took another's place.
    return legible_text if legible_text == composed else make_legible(legible_text, faces)


def find_missing_chars(text: str, faces: Sequence[Container[str]]) -> list[str]:
    chars = dict.fromkeys(unicodedata.normalize("NFC", text))
    visible_chars = [char for char in chars if not char.isspace() and not _is_invisible(char)]
    return [char for char in visible_chars if not any(char in face for face in faces)]


def _legible_chars(text: str, faces: Sequence[Container[str]]) -> Iterator[str]:
    for char in text:
        if any(char in face for face in faces):
            yield char
        elif char.isspace():
            yield " "
        elif not _is_invisible(char):
            yield _transliterate(char)


@lru_cache(maxsize=4096)
def _transliterate(char: str) -> str:
    """The nearest in Latin letters; pictures and silent letters are left out."""
    latin = "".join(anyascii(char).split())
    return "" if latin.startswith(":") and len(latin) > 1 else latin


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in _INVISIBLE_CATEGORIES


_WIDTH_STEP = 4

# In a PDF's literal string these would end it, or be read as another byte.
_ESCAPES = {0x28: "\\(", 0x29: "\\)", 0x5C: "\\\\", 0x0D: "\\r"}


class PlainFace:
    """Text must be made of the face's letters. It is loaded on first use: some are large and rarely needed."""

    def __init__(self, load: Callable[[], PreparedFace], *, has_marks: bool = True) -> None:
        """Without `has_marks` it leaves lone accents to other faces."""
        self._load_face = load
        self._has_marks = has_marks

    @cached_property
    def prepared(self) -> PreparedFace:
        return self._load_face()

    @cached_property
    def _codes(self) -> dict[int, str]:
        """For `str.translate`: each letter as it stands in a PDF string."""
        face = self.prepared
        return {ord(char): string_code(face.glyph_number(base, face.takes)) for char, base in face.letters.items()}

    @cached_property
    def _widths(self) -> dict[str, int]:
        return {
            char: self.prepared.advances[base]
            for char, base in self.prepared.letters.items()
            if self._has_marks or not unicodedata.combining(char)
        }

    def __contains__(self, letter: object) -> bool:
        return letter in self._widths

    @property
    def cap_height(self) -> int:
        return self.prepared.cap_height

    def encode(self, text: str) -> bytes:
        return b"(" + text.translate(self._codes).encode("latin-1") + b")"

    def text_width(self, text: str) -> float:
        """In font sizes."""
        return sum(map(self._widths.__getitem__, text)) / 1000

    def max_width(self, text: str) -> float:
        """An upper bound of the width in font sizes, much faster than the exact one."""
        try:
            return sum(text.encode("latin-1").translate(self._rounded_widths)) * _WIDTH_STEP / 1000
        except UnicodeEncodeError:
            return self.text_width(text)

    @cached_property
    def _rounded_widths(self) -> bytes:
        """The widths of the first 256 letters in steps of four, rounded up."""
        widths = (self._widths.get(chr(code), 255 * _WIDTH_STEP) for code in range(256))
        return bytes(min(-(-width // _WIDTH_STEP), 255) for width in widths)

    def make_legible(self, text: str) -> str:
        return make_legible(text, (self,))

    def glyph_numbers(self, chars: Iterable[str]) -> set[int]:
        return {self.prepared.glyph_number(self.prepared.letters[char], self.prepared.takes) for char in chars}

    def char_box(self, char: str) -> tuple[int, int, int, int]:
        """The ink's edges in thousandths of the font size: left, bottom, right, top."""
        return self.prepared.boxes[self.prepared.letters[char]]


def string_code(number: int) -> str:
    """A glyph number as the two characters, escaped, that stand for it in a literal string."""
    return "".join(_ESCAPES.get(byte, chr(byte)) for byte in number.to_bytes(2, "big"))


class CachedFace:
    """A plain face that caches the words set in it, as most of a batch's recur."""

    def __init__(self, face: PlainFace) -> None:
        self.face = face
        self.make_legible = face.make_legible
        self.max_width = face.max_width
        self.text_width = face.text_width
        self.used_chars: set[str] = {" "}
        self._encoded_words = WordCache(self._encode_word)
        self._space = face.encode(" ")[1:-1]

    def encode(self, text: str) -> bytes:
        return b"(" + self._space.join(map(self._encoded_words.__getitem__, text.split(" "))) + b")"

    def _encode_word(self, word: str) -> bytes:
        self.used_chars.update(word)
        return self.face.encode(word)[1:-1]


class WordCache(dict[str, Value]):
    """A new word is computed when it is first looked up."""

    def __init__(self, compute: Callable[[str], Value]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, word: str) -> Value:
        value = self[word] = self._compute(word)
        return value
