"""Faces that print each letter in one shape, and which face has a letter."""

import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache

from anyascii import anyascii

from quillpost.rendering.handwriting.faces import Prepared

# Joiners, variation selectors and control characters draw nothing by nature.
_INVISIBLE = frozenset({"Cf", "Cc", "Mn", "Me", "Cs", "Co", "Cn"})


def legible(text: str, faces: Sequence[Container[str]]) -> str:
    """The text in letters that one of the faces has: accents are composed, the rest spelt in Latin."""
    composed = unicodedata.normalize("NFC", text)
    if all(map(faces[0].__contains__, composed)):
        return composed
    spelt = "".join(_legible_letters(composed, faces))
    # An accent may find its letter only among those that took another's place.
    return spelt if spelt == composed else legible(spelt, faces)


def unwritten(text: str, faces: Sequence[Container[str]]) -> list[str]:
    """Letters that none of the faces has, in order, once each."""
    letters = dict.fromkeys(unicodedata.normalize("NFC", text))
    return [letter for letter in letters if not _is_written(letter, faces)]


def _is_written(letter: str, faces: Sequence[Container[str]]) -> bool:
    return letter.isspace() or _is_invisible(letter) or any(letter in face for face in faces)


def _legible_letters(text: str, faces: Sequence[Container[str]]) -> Iterator[str]:
    for letter in text:
        if any(letter in face for face in faces):
            yield letter
        elif letter.isspace():
            yield " "
        elif not _is_invisible(letter):
            yield _in_latin(letter)


@lru_cache(maxsize=4096)
def _in_latin(letter: str) -> str:
    """The nearest that plain letters come to it: Li for the name, the sound for the sign.

    A little picture has no sound, nor has a letter like the Arabic alef: they are left out.
    """
    spelt = "".join(anyascii(letter).split())
    return "" if spelt.startswith(":") and len(spelt) > 1 else spelt


def _is_invisible(letter: str) -> bool:
    return unicodedata.category(letter) in _INVISIBLE


_ROOF = 4

# In a PDF's literal string these would end it, or be read as another byte.
_ESCAPES = {0x28: "\\(", 0x29: "\\)", 0x5C: "\\\\", 0x0D: "\\r"}


class PlainFace:
    """A prepared face as text is set in it; all text given must be made of its letters.

    The face is loaded when it is first looked at: some are large, and most batches need none of them.
    """

    def __init__(self, load: Callable[[], Prepared], *, has_marks: bool = True) -> None:
        """Without its marks a face leaves accents that stand by themselves to others."""
        self._load = load
        self._has_marks = has_marks

    @cached_property
    def prepared(self) -> Prepared:
        return self._load()

    @cached_property
    def _codes(self) -> dict[int, str]:
        """For `str.translate`: each letter as it stands in a PDF string."""
        face = self.prepared
        return {
            ord(letter): string_code(face.number(base, face.takes)) for letter, base in face.letters.items()
        }

    @cached_property
    def _widths(self) -> dict[str, int]:
        return {
            letter: self.prepared.advances[base]
            for letter, base in self.prepared.letters.items()
            if self._has_marks or not unicodedata.combining(letter)
        }

    def __contains__(self, letter: object) -> bool:
        return letter in self._widths

    @property
    def cap_height(self) -> int:
        return self.prepared.cap_height

    def encode(self, text: str) -> bytes:
        """The text as a PDF string."""
        return b"(" + text.translate(self._codes).encode("latin-1") + b")"

    def measure(self, text: str) -> float:
        """The width in font sizes."""
        return sum(map(self._widths.__getitem__, text)) / 1000

    def at_most(self, text: str) -> float:
        """A width that the text does not exceed, in font sizes: told much faster than the exact one."""
        try:
            return sum(text.encode("latin-1").translate(self._roofs)) * _ROOF / 1000
        except UnicodeEncodeError:
            return self.measure(text)

    @cached_property
    def _roofs(self) -> bytes:
        """The widths of the first 256 letters in steps of four, rounded up."""
        widths = (self._widths.get(chr(code), 255 * _ROOF) for code in range(256))
        return bytes(min(-(-width // _ROOF), 255) for width in widths)

    def legible(self, text: str) -> str:
        """The text in letters that this face has."""
        return legible(text, (self,))

    def numbers(self, letters: Iterable[str]) -> set[int]:
        """The glyphs that show the letters."""
        return {
            self.prepared.number(self.prepared.letters[letter], self.prepared.takes) for letter in letters
        }

    def box(self, letter: str) -> tuple[int, int, int, int]:
        """The ink's edges in thousandths of the font size: left, bottom, right, top."""
        return self.prepared.boxes[self.prepared.letters[letter]]


def string_code(number: int) -> str:
    """A glyph number as the two characters, escaped, that stand for it in a literal string."""
    return "".join(_ESCAPES.get(byte, chr(byte)) for byte in number.to_bytes(2, "big"))


class Lettering:
    """A plain face in use, which remembers the words that were set in it: most of a batch's recur."""

    def __init__(self, face: PlainFace) -> None:
        self.face = face
        self.legible = face.legible
        self.at_most = face.at_most
        self.measure = face.measure
        self.letters: set[str] = {" "}
        self._words = _Words(self._learn)
        self._space = face.encode(" ")[1:-1]

    def encode(self, text: str) -> bytes:
        """The text as a PDF string."""
        return b"(" + self._space.join(map(self._words.__getitem__, text.split(" "))) + b")"

    def _learn(self, word: str) -> bytes:
        self.letters.update(word)
        return self.face.encode(word)[1:-1]


class _Words(dict[str, bytes]):
    """Words as codes; a new one is learnt when it is asked for."""

    def __init__(self, learn: Callable[[str], bytes]) -> None:
        super().__init__()
        self._learn = learn

    def __missing__(self, word: str) -> bytes:
        codes = self[word] = self._learn(word)
        return codes
