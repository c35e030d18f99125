"""What was read from a sender's sheet."""

from dataclasses import dataclass
from enum import StrEnum

from quillpost.rendering.handwriting.outlines import Floats


class ProblemCode(StrEnum):
    NOT_A_PICTURE = "not_a_picture"
    TAKES_TOO_MUCH = "takes_too_much"
    TOO_SMALL = "too_small"
    FEW_PIXELS = "few_pixels"
    MARKS_MISSING = "marks_missing"
    NO_SHEET = "no_sheet"
    PAGE_UNKNOWN = "page_unknown"
    OTHER_VERSION = "other_version"
    PAGE_TWICE = "page_twice"
    PAGE_MISSING = "page_missing"
    BLURRED = "blurred"
    GLARE = "glare"
    FAINT = "faint"
    NO_INK = "no_ink"
    TOO_MUCH_INK = "too_much_ink"


@dataclass(frozen=True, slots=True)
class SheetProblem:
    """`picture` is the number of the uploaded file it is about, from 1; None for the sheet as a whole."""

    code: ProblemCode
    message: str
    picture: int | None = None


class UnreadableSheet(Exception):
    """A picture from which nothing can be taken."""

    def __init__(self, code: ProblemCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, eq=False)
class WrittenChar:
    """Pen strokes in x-heights: the baseline at y = 0, the left edge of the ink at x = 0, upward is positive.

    `char` has several letters where a word or a sentence was asked for. `radius` is the pen's.
    """

    char: str
    instance_number: int
    strokes: tuple[Floats, ...]
    radius: float
    is_doubtful: bool = False
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Signature:
    """Closed polygons for the nonzero winding rule: 1 high, from the lower left corner of the ink, `width` wide."""

    outlines: tuple[Floats, ...]
    width: float


@dataclass(frozen=True, slots=True)
class EmptyBox:
    char: str
    instance_number: int


@dataclass(frozen=True, eq=False)
class PageReading:
    """One page of the sheet, in one picture."""

    page: int
    chars: tuple[WrittenChar, ...]
    signature: Signature | None
    missing: tuple[EmptyBox, ...]
    problems: tuple[SheetProblem, ...]


@dataclass(frozen=True, eq=False)
class SheetReading:
    """`missing` are boxes without any ink, on the pages that could be read."""

    chars: tuple[WrittenChar, ...]
    signature: Signature | None
    missing: tuple[EmptyBox, ...]
    problems: tuple[SheetProblem, ...]
