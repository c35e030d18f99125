"""Readings as JSON, between processes and into storage. What comes back is checked: its writer may be compromised."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.sheet.layout import BoxKind, sheet_pages
from quillpost.rendering.handwriting.sheet.models import (
    EmptyBox,
    PageReading,
    ProblemCode,
    SheetProblem,
    Signature,
    UnreadableSheet,
    WrittenChar,
)

Record = dict[str, Any]
Read = TypeVar("Read")

_MAX_PATHS = 1_000
_MAX_POINTS = 60_000
_MAX_COORDINATE = 500.0
_MAX_TEXT = 400
_MAX_PROBLEMS = 20


class InvalidRecord(ValueError):
    """Not what these functions write."""


def char_to_record(char: WrittenChar) -> Record:
    return {
        "char": char.char,
        "instance_number": char.instance_number,
        "strokes": [stroke.tolist() for stroke in char.strokes],
        "radius": char.radius,
        "is_doubtful": char.is_doubtful,
        "reason": char.reason,
    }


def char_from_record(record: Record) -> WrittenChar:
    return _checked(
        lambda: WrittenChar(
            char=_text(record["char"]),
            instance_number=_count(record["instance_number"]),
            strokes=_paths(record["strokes"]),
            radius=_measure(record["radius"]),
            is_doubtful=record["is_doubtful"] is True,
            reason=_text(record["reason"]),
        )
    )


def signature_to_record(signature: Signature) -> Record:
    return {"outlines": [outline.tolist() for outline in signature.outlines], "width": signature.width}


def signature_from_record(record: Record) -> Signature:
    return _checked(lambda: _read_signature(record))


def page_to_record(reading: PageReading | UnreadableSheet) -> Record:
    if isinstance(reading, UnreadableSheet):
        return {"code": reading.code.value, "message": reading.message}
    return {
        "page": reading.page,
        "chars": [char_to_record(char) for char in reading.chars],
        "signature": None if reading.signature is None else signature_to_record(reading.signature),
        "missing": [[empty.char, empty.instance_number] for empty in reading.missing],
        "problems": [{"code": problem.code.value, "message": problem.message} for problem in reading.problems],
    }


def page_from_record(record: Record) -> PageReading | UnreadableSheet:
    """Raises InvalidRecord, also for boxes that the page does not have."""
    return _checked(lambda: _read_page(record))


def _read_page(record: Record) -> PageReading | UnreadableSheet:
    if "code" in record:
        return UnreadableSheet(ProblemCode(record["code"]), _text(record["message"]))
    page = next((page for page in sheet_pages() if page.number == record["page"]), None)
    if page is None:
        raise InvalidRecord("no such page")
    boxes = [(box.text, box.instance_number) for box in page.boxes if box.kind is not BoxKind.SIGNATURE]
    chars = tuple(char_from_record(char) for char in record["chars"])
    missing = tuple(EmptyBox(_text(char), _count(number)) for char, number in record["missing"])
    filled = [(char.char, char.instance_number) for char in chars]
    if sorted([*filled, *((empty.char, empty.instance_number) for empty in missing)]) != sorted(boxes):
        raise InvalidRecord("other boxes than those of the page")
    problems = tuple(
        SheetProblem(ProblemCode(problem["code"]), _text(problem["message"]))
        for problem in record["problems"][:_MAX_PROBLEMS]
    )
    signature = None if record["signature"] is None else signature_from_record(record["signature"])
    return PageReading(page.number, chars, signature, missing, problems)


def _read_signature(record: Record) -> Signature:
    signature = Signature(_paths(record["outlines"]), _measure(record["width"]))
    signature.check()
    return signature


def _checked(read: Callable[[], Read]) -> Read:
    try:
        return read()
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InvalidRecord(str(error)) from error


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise InvalidRecord("not a short text")
    return value


def _count(value: object) -> int:
    if type(value) is not int or not 0 < value < 100:
        raise InvalidRecord("not a small number")
    return value


def _measure(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value < _MAX_COORDINATE:
        raise InvalidRecord("not a measure")
    return float(value)


def _paths(values: Sequence[Sequence[Sequence[float]]]) -> tuple[Floats, ...]:
    if not isinstance(values, list) or len(values) > _MAX_PATHS or sum(map(len, values)) > _MAX_POINTS:
        raise InvalidRecord("too many points")
    paths = tuple(np.array(path, dtype=np.float64) for path in values)
    for path in paths:
        if path.ndim != 2 or path.shape[1] != 2 or not (np.abs(path) < _MAX_COORDINATE).all():
            raise InvalidRecord("not a path")
    return paths
