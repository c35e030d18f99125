"""What was read from a sender's sheet."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np

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


MAX_SIGNATURE_BYTES = 60_000
MAX_SIGNATURE_POINTS = 4_000  # of two numbers with up to thirteen characters
MAX_SIGNATURE_OUTLINES = 500
MAX_SIGNATURE_WIDTH = 20.0  # in heights; a flatter line is no signature
SIGNATURE_UNITS = 2_000  # of a signature's height: a third of a thousandth of an inch where it is printed

_SIGNATURE_VERSION = 1
_SIGNATURE_MARGIN = 0.02  # by which a point may be outside, as rounding leaves it


class InvalidSignature(ValueError):
    """No signature that could be printed: cut short, changed, too large, or of another version."""


@dataclass(frozen=True, eq=False)
class Signature:
    """Closed polygons for the nonzero winding rule: 1 high, from the lower left corner of the ink, `width` wide."""

    outlines: tuple[Floats, ...]
    width: float

    def check(self) -> None:
        """Raises InvalidSignature for what is too large or has ink outside."""
        counts = [len(outline) for outline in self.outlines]
        if not 0 < len(counts) <= MAX_SIGNATURE_OUTLINES or min(counts) < 3 or sum(counts) > MAX_SIGNATURE_POINTS:
            raise InvalidSignature("too few or too many points")
        if not 0 < self.width <= MAX_SIGNATURE_WIDTH:
            raise InvalidSignature("no such width")
        points = np.concatenate(self.outlines)
        low, high = points.min(axis=0) + _SIGNATURE_MARGIN, points.max(axis=0) - _SIGNATURE_MARGIN
        if not ((low >= 0).all() and high[0] <= self.width and high[1] <= 1):
            raise InvalidSignature("a point outside")

    def to_bytes(self) -> bytes:
        """JSON: each outline is a list of numbers, from point to point so far across and so far up."""
        self.check()
        points = [np.rint(outline * SIGNATURE_UNITS).astype(np.int64) for outline in self.outlines]
        steps = [np.diff(outline, axis=0, prepend=np.zeros((1, 2), np.int64)).ravel().tolist() for outline in points]
        record = {"version": _SIGNATURE_VERSION, "width": round(self.width, 5), "outlines": steps}
        return json.dumps(record, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises InvalidSignature."""
        if len(data) > MAX_SIGNATURE_BYTES:
            raise InvalidSignature("too many bytes")
        try:
            record = json.loads(data)
            if record["version"] != _SIGNATURE_VERSION:
                raise InvalidSignature("another version")
            signature = cls(tuple(map(_read_outline, record["outlines"])), float(record["width"]))
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidSignature(str(error)) from error
        signature.check()
        return signature


def _read_outline(steps: Any) -> Floats:
    limit = MAX_SIGNATURE_WIDTH * SIGNATURE_UNITS
    if not isinstance(steps, list) or not all(type(step) is int and abs(step) <= limit for step in steps):
        raise InvalidSignature("not a list of steps")
    points = np.cumsum(np.array(steps, np.int64).reshape(-1, 2), axis=0)
    return points / SIGNATURE_UNITS


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
