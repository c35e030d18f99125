"""What is where on the printed sheet: boxes, marks and the page's code, in points from the lower left corner."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from string import ascii_lowercase, ascii_uppercase, digits

from quillpost.rendering.models import INCH, Box

SHEET_VERSION = 1  # printed on every page: raise it whenever something on the sheet moves

PAGE_WIDTH, PAGE_HEIGHT = 8.5 * INCH, 11.0 * INCH

Point = tuple[float, float]

X_HEIGHT = 9.5  # between the two guides of a box: about what a relaxed hand writes


class BoxKind(StrEnum):
    CHAR = "char"
    WORD = "word"
    SENTENCE = "sentence"
    SIGNATURE = "signature"


@dataclass(frozen=True, slots=True)
class SheetBox:
    """`text` is what to write in it, for the `instance_number`th time; `label` is what is printed above."""

    kind: BoxKind
    text: str
    instance_number: int
    box: Box
    baseline: float
    label: str


@dataclass(frozen=True, slots=True)
class SheetPage:
    number: int
    boxes: tuple[SheetBox, ...]
    ticks: tuple[Point, ...]
    """The middles of small squares that show how the paper is bent."""


# Corner marks: nested squares as in a QR code, seven modules wide, clear of what home printers leave blank.
MARK_MODULE = 4.0
MARK_INSET = 38.0  # from the edges of the page to the middle of a mark
MARK_CENTERS: tuple[Point, ...] = (
    (MARK_INSET, PAGE_HEIGHT - MARK_INSET),
    (PAGE_WIDTH - MARK_INSET, PAGE_HEIGHT - MARK_INSET),
    (PAGE_WIDTH - MARK_INSET, MARK_INSET),
    (MARK_INSET, MARK_INSET),
)
"""Clockwise from the upper left."""
MARK_NAMES = ("upper left", "upper right", "lower right", "lower left")

# Clockwise, does the edge of the page have a block beside the mark that it begins at, and the one that it ends at?
# Any two edges in a row differ from any other two, so that three marks are enough to name the fourth.
EDGE_BLOCKS = ((True, True), (False, False), (True, False), (False, False))
BLOCK_DISTANCE = 6.5 * MARK_MODULE  # from the middle of the mark to that of the block
BLOCK_SIDE = 3.0 * MARK_MODULE

TICK_SIDE = 5.0

_COLUMNS = 12
_GUTTER = 12.0  # between the halves of a page, for ticks
_GRID_LEFT = 42.0
_COLUMN_WIDTH = (PAGE_WIDTH - 2 * _GRID_LEFT - _GUTTER) / _COLUMNS
_GRID_TOP = 677.0
_ROW_HEIGHT = 47.0
_BOX_HEIGHT = 38.5
_DESCENT = 14.5  # below the baseline
_TICK_COLUMNS = (_GRID_LEFT / 2 + 12.0, PAGE_WIDTH / 2, PAGE_WIDTH - _GRID_LEFT / 2 - 12.0)

_WORD_COLUMNS = 2
_SIGNATURE_HEIGHT = 118.0
_SIGNATURE_WIDTH = 6 * _COLUMN_WIDTH
_SIGNATURE_BASELINE = 36.0

SIGNATURE_TEXT = "signature"
SENTENCE = "Thank you for stopping by, Zoe!"
WORDS = ("th", "oo", "tt", "ll", "ff", "of", "ing", "er", "ou", "an", "ee", "st")
_TWICE = ".,!?'\"-&:;$@"
_ONCE = "()%/#+"

# Where a box's label must not be taken for another character.
_CLEAR_LABELS = {
    **{"l": "l (small L)", "I": "I (capital i)", "1": "1 (one)", "0": "0 (zero)", "O": "O (capital o)"},
    **{".": ". period", ",": ", comma", "'": "' apostrophe", '"': '" quotes', "-": "- hyphen"},
    **{":": ": colon", ";": "; semicolon", "(": "( bracket", ")": ") bracket"},
}


@cache
def sheet_pages() -> tuple[SheetPage, ...]:
    return (_make_letters_page(), _make_figures_page())


def find_page(version: int, number: int) -> SheetPage | None:
    """None where the sheet of this version has no such page, or is not ours to read any more."""
    if version != SHEET_VERSION:
        return None
    return next((page for page in sheet_pages() if page.number == number), None)


def _make_letters_page() -> SheetPage:
    chars = [*_repeat(ascii_lowercase, 4), *_repeat(ascii_uppercase, 2)]
    return SheetPage(1, tuple(_char_boxes(chars)), _ticks(len(chars) // _COLUMNS, center_rows=len(chars) // _COLUMNS))


def _make_figures_page() -> SheetPage:
    chars = [*_repeat(digits, 3), *_repeat(_TWICE, 2), *_repeat(_ONCE, 1)]
    char_rows = len(chars) // _COLUMNS
    words_per_row = _COLUMNS // _WORD_COLUMNS
    words = _repeat(WORDS, 2)
    word_rows = len(words) // words_per_row
    boxes = list(_char_boxes(chars))
    for index, (word, number) in enumerate(words):
        row, column = divmod(index, words_per_row)
        box = _grid_box(char_rows + row, column * _WORD_COLUMNS, _WORD_COLUMNS)
        boxes.append(SheetBox(BoxKind.WORD, word, number, box, box.bottom + _DESCENT, word))
    sentence_row = char_rows + word_rows
    box = _grid_box(sentence_row, 0, _COLUMNS)
    boxes.append(SheetBox(BoxKind.SENTENCE, SENTENCE, 1, box, box.bottom + _DESCENT, SENTENCE))
    top = _row_top(sentence_row + 1)
    box = Box(_GRID_LEFT, top - _SIGNATURE_HEIGHT, _SIGNATURE_WIDTH, _SIGNATURE_HEIGHT)
    label = "Your signature"
    boxes.append(SheetBox(BoxKind.SIGNATURE, SIGNATURE_TEXT, 1, box, box.bottom + _SIGNATURE_BASELINE, label))
    return SheetPage(2, tuple(boxes), _ticks(13, center_rows=sentence_row))


def _repeat(texts: Iterable[str], count: int) -> list[tuple[str, int]]:
    return [(text, number) for text in texts for number in range(1, count + 1)]


def _char_boxes(chars: list[tuple[str, int]]) -> Iterator[SheetBox]:
    for index, (char, number) in enumerate(chars):
        box = _grid_box(*divmod(index, _COLUMNS), 1)
        yield SheetBox(BoxKind.CHAR, char, number, box, box.bottom + _DESCENT, _CLEAR_LABELS.get(char, char))


def _grid_box(row: int, column: int, columns: int) -> Box:
    left = _column_left(column)
    right = _column_left(column + columns - 1) + _COLUMN_WIDTH
    return Box(left, _row_top(row) - _BOX_HEIGHT, right - left, _BOX_HEIGHT)


def _column_left(column: int) -> float:
    return _GRID_LEFT + column * _COLUMN_WIDTH + (_GUTTER if column >= _COLUMNS // 2 else 0.0)


def _row_top(row: int) -> float:
    return _GRID_TOP - row * _ROW_HEIGHT


def _ticks(rows: int, *, center_rows: int) -> tuple[Point, ...]:
    """Beside the middle of each row, and between the halves of those rows that have two."""
    left, center, right = _TICK_COLUMNS
    heights = [_row_top(row) - _BOX_HEIGHT / 2 for row in range(rows)]
    sides = [(x, y) for y in heights for x in (left, right)]
    return (*sides, *((center, y) for y in heights[:center_rows]))


# The code: a row of squares between the lower marks. One dark and one light square begin it, a checksum ends it.
CODE_SQUARE = 8.0
_VERSION_BITS, _PAGE_BITS, _CHECK_BITS = 6, 4, 8
_CODE_START = (1, 0)
CODE_LENGTH = len(_CODE_START) + _VERSION_BITS + _PAGE_BITS + _CHECK_BITS
_CHECK_POLYNOMIAL = 0x107


def code_centers() -> tuple[Point, ...]:
    left = (PAGE_WIDTH - CODE_LENGTH * CODE_SQUARE) / 2
    return tuple((left + (index + 0.5) * CODE_SQUARE, MARK_INSET) for index in range(CODE_LENGTH))


def encode_page(version: int, page: int) -> tuple[int, ...]:
    value = version << _PAGE_BITS | page
    value = value << _CHECK_BITS | _checksum(value)
    count = CODE_LENGTH - len(_CODE_START)
    return _CODE_START + tuple(value >> (count - 1 - index) & 1 for index in range(count))


def decode_page(bits: tuple[int, ...]) -> tuple[int, int] | None:
    """The version and the page, None for anything but a code."""
    if len(bits) != CODE_LENGTH or bits[: len(_CODE_START)] != _CODE_START:
        return None
    value = int("".join(map(str, bits[len(_CODE_START) :])), 2)
    value, check = value >> _CHECK_BITS, value & (1 << _CHECK_BITS) - 1
    return (value >> _PAGE_BITS, value & (1 << _PAGE_BITS) - 1) if check == _checksum(value) else None


def _checksum(value: int) -> int:
    value = (value << _CHECK_BITS) ^ 0x55  # so that an empty row has no valid checksum
    while value.bit_length() > _CHECK_BITS:
        value ^= _CHECK_POLYNOMIAL << value.bit_length() - _CHECK_POLYNOMIAL.bit_length()
    return value
