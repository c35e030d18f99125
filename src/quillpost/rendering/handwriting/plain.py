"""Faces that print each letter in one shape, and which face has a letter."""

import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache

from anyascii import anyascii

from quillpost.rendering.handwriting.faces import PreparedFace

# Joiners, variation selectors and control characters draw nothing by nature.
_INVISIBLE_CATEGORIES = frozenset({"Cf", "Cc", "Mn", "Me", "Cs", "Co", "Cn"})


def make_legible(text: str, faces: Sequence[Container[str]]) -> str:
    """The text in letters that one of the faces has: accents are composed, the rest spelled in Latin."""
    composed = unicodedata.normalize("NFC", text)
    if all(map(faces[0].__contains__, composed)):
        return composed
    legible_text = "".join(_legible_chars(composed, faces))
    # An accent may find its letter only among those that took another's place.
    return legible_text if legible_text == composed else make_legible(legible_text, faces)


def find_missing_chars(text: str, faces: Sequence[Container[str]]) -> list[str]:
    """Letters that none of the faces has, in order, once each."""
    chars = dict.fromkeys(unicodedata.normalize("NFC", text))
    return [char for char in chars if not _can_write(char, faces)]


def _can_write(char: str, faces: Sequence[Container[str]]) -> bool:
    return char.isspace() or _is_invisible(char) or any(char in face for face in faces)


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
    """The nearest that plain letters come to it: Li for the name, the sound for the sign.

    A little picture has no sound, nor has a letter like the Arabic alef: they are left out.
    """
    latin = "".join(anyascii(char).split())
    return "" if latin.startswith(":") and len(latin) > 1 else latin


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in _INVISIBLE_CATEGORIES


_WIDTH_STEP = 4

# In a PDF's literal string these would end it, or be read as another byte.
_ESCAPES = {0x28: "\\(", 0x29: "\\)", 0x5C: "\\\\", 0x0D: "\\r"}


class PlainFace:
    """A prepared face as text is set in it; all text given must be made of its letters.

    The face is loaded when it is first looked at: some are large, and most batches need none of them.
    """

    def __init__(self, load: Callable[[], PreparedFace], *, has_marks: bool = True) -> None:
        """Without its marks a face leaves accents that stand by themselves to others."""
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
        """The text as a PDF string."""
        return b"(" + text.translate(self._codes).encode("latin-1") + b")"

    def text_width(self, text: str) -> float:
        """The width in font sizes."""
        return sum(map(self._widths.__getitem__, text)) / 1000

    def max_width(self, text: str) -> float:
        """A width that the text does not exceed, in font sizes: told much faster than the exact one."""
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
        """The text in letters that this face has."""
        return make_legible(text, (self,))

    def glyph_numbers(self, chars: Iterable[str]) -> set[int]:
        """The glyphs that show the letters."""
        return {self.prepared.glyph_number(self.prepared.letters[char], self.prepared.takes) for char in chars}

    def char_box(self, char: str) -> tuple[int, int, int, int]:
        """The ink's edges in thousandths of the font size: left, bottom, right, top."""
        return self.prepared.boxes[self.prepared.letters[char]]


def string_code(number: int) -> str:
    """A glyph number as the two characters, escaped, that stand for it in a literal string."""
    return "".join(_ESCAPES.get(byte, chr(byte)) for byte in number.to_bytes(2, "big"))


class CachedFace:
    """A plain face in use, which remembers the words that were set in it: most of a batch's recur."""

    def __init__(self, face: PlainFace) -> None:
        self.face = face
        self.make_legible = face.make_legible
        self.max_width = face.max_width
        self.text_width = face.text_width
        self.used_chars: set[str] = {" "}
        self._encoded_words = _EncodedWords(self._encode_word)
        self._space = face.encode(" ")[1:-1]

    def encode(self, text: str) -> bytes:
        """The text as a PDF string."""
        return b"(" + self._space.join(map(self._encoded_words.__getitem__, text.split(" "))) + b")"

    def _encode_word(self, word: str) -> bytes:
        self.used_chars.update(word)
        return self.face.encode(word)[1:-1]


class _EncodedWords(dict[str, bytes]):
    """Words as codes; a new one is learnt when it is asked for."""

    def __init__(self, encode_word: Callable[[str], bytes]) -> None:
        super().__init__()
        self._encode_word = encode_word

    def __missing__(self, word: str) -> bytes:
        codes = self[word] = self._encode_word(word)
        return codes
