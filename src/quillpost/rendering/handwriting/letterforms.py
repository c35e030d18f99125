"""The letters of a hand as movements of the pen: several forms of each, in x-heights."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from importlib import resources
from typing import Any, Self

import numpy as np

from quillpost.rendering.handwriting.outlines import Floats

HELPER_FORMS = "helper"
_FOLDER = "hands"
_UNITS = 1000  # an x-height in files


class LineKind(IntEnum):
    """Bars and dots are written when the word is done."""

    BODY = 0
    BAR = 1
    DOT = 2


@dataclass(frozen=True, slots=True)
class PenLine:
    """One movement, as knots along it. An end is loose unless it hides in another line's ink."""

    knots: Floats
    kind: LineKind = LineKind.BODY
    loose: tuple[bool, bool] = (True, True)


@dataclass(frozen=True, slots=True)
class Letterform:
    """One way to write a character; the base line is at 0, and the letter before it ends there.

    `entry` is the line into which a joining stroke runs, at its start; `exit` the line that runs on, at its end.
    """

    lines: tuple[PenLine, ...]
    advance: float
    entry: int | None = None
    exit: int | None = None


@dataclass(frozen=True, slots=True)
class HandForms:
    """All that a hand can write. `pen` is the radius of its usual pen, `slant` the tangent of its lean."""

    forms: Mapping[str, tuple[Letterform, ...]]
    pen: float
    slant: float

    def to_bytes(self) -> bytes:
        """A line for each character, so that changes can be read."""
        head = {"pen": round(self.pen, 4), "slant": round(self.slant, 3)}
        rows = [json.dumps(head)]
        rows += [json.dumps([char, [_pack_form(form) for form in forms]]) for char, forms in sorted(self.forms.items())]
        return "\n".join(row.replace(" ", "") for row in rows).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        head, *rows = map(json.loads, data.splitlines())
        forms = {char: tuple(map(_unpack_form, packed)) for char, packed in rows}
        return cls(forms, head["pen"], head["slant"])


def read_forms(name: str) -> HandForms:
    """The letters of a natural hand, as shipped."""
    return HandForms.from_bytes((resources.files(__package__) / _FOLDER / f"{name}.hand").read_bytes())


def _pack_form(form: Letterform) -> list[Any]:
    lines = [[int(line.kind), [int(end) for end in line.loose], _pack_knots(line.knots)] for line in form.lines]
    return [round(form.advance * _UNITS), form.entry, form.exit, lines]


def _pack_knots(knots: Floats) -> list[int]:
    """The first knot, and from each to the next."""
    units = np.rint(knots * _UNITS).astype(np.int64)
    return np.diff(units, axis=0, prepend=0).ravel().tolist()


def _unpack_form(packed: Sequence[Any]) -> Letterform:
    advance, entry, exit_, lines = packed
    return Letterform(tuple(map(_unpack_line, lines)), advance / _UNITS, entry, exit_)


def _unpack_line(packed: Sequence[Any]) -> PenLine:
    kind, (start, stop), steps = packed
    knots = np.cumsum(np.array(steps, np.float64).reshape(-1, 2), axis=0) / _UNITS
    return PenLine(knots, LineKind(kind), (bool(start), bool(stop)))
