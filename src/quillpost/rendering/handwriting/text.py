"""Text in the glyphs of a face: plain type, in one shape a letter, and words spelled in a hand."""

import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import uharfbuzz as harfbuzz
from anyascii import anyascii

from quillpost.rendering.handwriting.models import PreparedFace, Style

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


def _legible_chars(text: str, faces: Sequence[Container[str]]) -> Iterator[str]:
    for is_wide, group in groupby(zip(text, _belong_to_wide(text), strict=True), itemgetter(1)):
        run = "".join([char for char, _ in group])
        # A name in Chinese is whole or spelled, never half.
        is_spelled = is_wide and not all(any(char in face for face in faces) for char in run if char != " ")
        yield from map(_transliterate, run) if is_spelled else _legible_in_letters(run, faces)


def _belong_to_wide(text: str) -> list[bool]:
    """Of each character whether it is of a script of East Asia; so is a space between two that are."""
    wide = [*map(is_wide_char, text)]
    return [
        own or (char == " " and 0 < place < len(text) - 1 and wide[place - 1] and wide[place + 1])
        for place, (char, own) in enumerate(zip(text, wide, strict=True))
    ]


def is_wide_char(char: str) -> bool:
    """Whether it is of a script of East Asia."""
    return unicodedata.east_asian_width(char) in "WF" and char.isalpha()


def _legible_in_letters(text: str, faces: Sequence[Container[str]]) -> Iterator[str]:
    for char in text:
        if any(char in face for face in faces):
            yield char
        elif char.isspace():
            yield " "
        elif unicodedata.category(char) not in _INVISIBLE_CATEGORIES:
            yield _transliterate(char)


@lru_cache(maxsize=4096)
def _transliterate(char: str) -> str:
    """The nearest in Latin letters; pictures and silent letters are left out, and a space stays."""
    if char == " ":
        return char
    latin = "".join(anyascii(char).split())
    return "" if latin.startswith(":") and len(latin) > 1 else latin


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
        return {ord(char): string_code(face.glyph_number(base)) for char, base in face.letters.items()}

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
        return {self.prepared.glyph_number(self.prepared.letters[char]) for char in chars}

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
        self._encoded_words: dict[str, bytes] = {}
        self._space = face.encode(" ")[1:-1]

    def encode(self, text: str) -> bytes:
        words = text.split(" ")
        try:
            encoded = [*map(self._encoded_words.__getitem__, words)]
        except KeyError:
            encoded = [*map(self._encode_word, words)]
        return b"(" + self._space.join(encoded) + b")"

    def _encode_word(self, word: str) -> bytes:
        if word not in self._encoded_words:
            self.used_chars.update(word)
            self._encoded_words[word] = self.face.encode(word)[1:-1]
        return self._encoded_words[word]


HAND_FONT = b"/F1"
PALE_FONT = b"/F1p"  # of the paler ink of words in a natural hand
PLAIN_FONT = b"/F2"
BAR_FONT = b"/F3"
FALLBACK_FONTS = (b"/F4", b"/F5")
HELPER_FONT = b"/F6"

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
    advance: float  # in ems


class NaturalRun(NamedTuple):
    """Letters that a natural hand writes in one go, as one glyph. Figures are a glyph each, which numbers share."""

    text: str
    are_figures: bool = False


class SpelledWord(NamedTuple):
    """Measures are in ems."""

    text: str
    parts: "tuple[HandGlyphs | BorrowedText | NaturalRun, ...]"
    advance: float
    left: float
    right: float
    bottom: float
    top: float


def borrow_text(run: str, font: bytes, face: PlainFace, cap_height: int) -> tuple[BorrowedText, "InkExtent"]:
    """The run in another face, as high as the hand's capitals."""
    scale = cap_height / face.cap_height
    extent = InkExtent()
    for char in run:
        left, bottom, right, top = (round(edge * scale) for edge in face.char_box(char))
        extent.add(left, bottom, right, top, round(face.text_width(char) * scale * 1000))
    operators = b"%b %.3f Tf%bTj%b 1 Tf" % (font, scale, face.encode(run), HAND_FONT)
    return BorrowedText(font, run, operators, extent.advance / 1000), extent


class LetteringHand:
    """One style of lettering, set from a typeface; letters it lacks are drawn in other faces at the same height."""

    def __init__(self, style: Style, prepared: PreparedFace, fallback_faces: Mapping[bytes, PlainFace]) -> None:
        assert style.lettering is not None
        self.style = style
        self.prepared = prepared
        self.fallback_faces = fallback_faces
        self.cap_height = prepared.cap_height
        self._figure_gap = style.lettering.figure_gap
        self._faces: tuple[Container[str], ...] = (prepared.letters, *fallback_faces.values())
        self._font = harfbuzz.Font(harfbuzz.Face(prepared.source))
        self._font.scale = (1000, 1000)
        # Some hands have no tables that say how letters change beside each other: there is nothing to ask.
        self._has_no_layout_tables = not _LAYOUT_TABLES & set(self._font.face.table_tags)
        self._bases_by_source_number = {number: base for base, number in enumerate(prepared.source_numbers)}
        self.codes = [string_code(number).encode("latin-1") for number in range(len(prepared.advances) + 1)]
        self._spell_cached = lru_cache(maxsize=20_000)(self._spell)

    def spell(self, text: str) -> SpelledWord:
        """A word without spaces; short ones are cached."""
        return self._spell_cached(text) if len(text) <= _MAX_CACHED_LENGTH else self._spell(text)

    def has_visible_text(self, text: str) -> bool:
        return any(make_legible(char, self._faces).strip() for char in text)

    def make_legible(self, text: str) -> str:
        """The text in letters that can be drawn; line breaks stay."""
        return "\n".join(make_legible(line, self._faces) for line in text.splitlines())

    def find_lacking_chars(self, text: str) -> tuple[list[str], list[str]]:
        """Visible letters that this hand lacks, in order, once each: those of other faces, and those of none."""
        return find_lacking_chars(text, self._faces)

    def char_width(self, char: str) -> float:
        """A letter's advance in ems."""
        return self.spell(char).advance

    def _spell(self, text: str) -> SpelledWord:
        extent = InkExtent()
        parts = tuple(
            self._shape_run("".join(run), extent) if font == HAND_FONT else self._borrow_run("".join(run), font, extent)
            for font, run in groupby(make_legible(text, self._faces), self._char_font)
        )
        return SpelledWord(make_legible(text, self._faces), parts, *extent.measures())

    def _char_font(self, char: str) -> bytes:
        if char in self.prepared.letters:
            return HAND_FONT
        return next(font for font, face in self.fallback_faces.items() if char in face)

    def _shape_run(self, word: str, extent: "InkExtent") -> HandGlyphs:
        bases, x_offsets, y_offsets = [], [], []
        pending_offset = 0  # how far the glyph before stands off its place, and how much less it advanced
        for base, advance, x_shift, y_shift in self._position_glyphs(word):
            default_advance = self.prepared.advances[base]
            kern = advance - default_advance if abs(advance - default_advance) >= _MIN_KERN else 0
            left, bottom, ink_right, top = self.prepared.boxes[base]
            extent.add(left + x_shift, bottom + y_shift, ink_right + x_shift, top + y_shift, default_advance + kern)
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
                gap = self._figure_gap if char.isdigit() and next_char.isdigit() else 0
                yield base, self.prepared.advances[base] + gap, 0, 0
            return
        buffer = harfbuzz.Buffer()
        buffer.add_str(word)
        buffer.guess_segment_properties()
        harfbuzz.shape(self._font, buffer, _FEATURES)
        for info, position in zip(buffer.glyph_infos, buffer.glyph_positions, strict=True):
            base = self._bases_by_source_number[info.codepoint]
            yield base, position.x_advance, position.x_offset, position.y_offset

    def _borrow_run(self, word: str, font: bytes, extent: "InkExtent") -> BorrowedText:
        borrowed, run_extent = borrow_text(word, font, self.fallback_faces[font], self.cap_height)
        extent.append(run_extent)
        return borrowed


def find_lacking_chars(text: str, faces: Sequence[Container[str]]) -> tuple[list[str], list[str]]:
    """Visible letters that the first face lacks, in order, once each: those of other faces, and those of none."""
    borrowed: list[str] = []
    missing: list[str] = []
    for char in dict.fromkeys(unicodedata.normalize("NFC", text)):
        is_visible = not char.isspace() and unicodedata.category(char) not in _INVISIBLE_CATEGORIES
        if is_visible and char not in faces[0]:
            (borrowed if any(char in face for face in faces) else missing).append(char)
    return borrowed, missing


class InkExtent:
    """How far a word's ink reaches, letter by letter, in thousandths."""

    def __init__(self) -> None:
        self.advance = 0
        self.left = self.bottom = self.right = self.top = 0

    def add(self, left: int, bottom: int, right: int, top: int, advance: int) -> None:
        self.left = min(self.left, self.advance + left)
        self.bottom = min(self.bottom, bottom)
        self.right = max(self.right, self.advance + right)
        self.top = max(self.top, top)
        self.advance += advance

    def append(self, other: "InkExtent") -> None:
        self.add(other.left, other.bottom, other.right, other.top, other.advance)

    def measures(self) -> tuple[float, float, float, float, float]:
        """Advance, and how far the ink leaves it: left, right, bottom, top; in ems."""
        overhang = max(self.right - self.advance, 0)
        return (self.advance / 1000, -self.left / 1000, overhang / 1000, -self.bottom / 1000, self.top / 1000)
