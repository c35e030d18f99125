"""Whether bytes are an own hand's file: it comes from storage, which may have been changed."""

import json
import math
import string
from collections.abc import Sequence
from typing import Any

from quillpost.rendering.handwriting.ink import PENS
from quillpost.rendering.handwriting.letterforms import LineKind

VERSION = 1
_MAX_BYTES = 1_000_000
MAX_NAME = 80
_MAX_FORMS, _MAX_LINES, _MAX_KNOTS = 8, 30, 400
_MAX_UNITS = 12_000  # thousandths of an x-height from the origin of a letter
_BOUNDS = {
    "scale": (0.5, 1.3),
    "leading": (0.8, 2.5),
    "word_gap": (0.2, 1.0),
    "joining": (0.0, 1.0),
    "spacing": (-0.5, 0.5),
}
_FORMS_BOUNDS = {"pen": (0.01, 0.3), "slant": (-0.8, 0.8)}
_REQUIRED_CHARS = frozenset(string.ascii_letters + string.digits)


class InvalidOwnHand(ValueError):
    """The bytes are no hand that we wrote: cut short, changed, or of another version."""


def check_own_hand(data: bytes) -> dict[str, Any]:
    """The values in its first line; raises InvalidOwnHand unless they and all forms are as we write them."""
    if len(data) > _MAX_BYTES:
        raise InvalidOwnHand("too large")
    try:
        head, forms_head, *rows = map(json.loads, data.splitlines())
        _check_head(head)
        for name, bounds in _FORMS_BOUNDS.items():
            _check_measure(forms_head[name], bounds)
        _check_rows(rows)
    except InvalidOwnHand:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidOwnHand(str(error)) from error
    return {name: head[name] for name in ("name", "pen", *_BOUNDS)}


def _check_head(head: Any) -> None:
    name = head["name"]
    if head["version"] != VERSION or head["pen"] not in PENS:
        raise InvalidOwnHand("of another version")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise InvalidOwnHand("its name is no short text")
    for value, bounds in _BOUNDS.items():
        _check_measure(head[value], bounds)


def _check_measure(value: Any, bounds: tuple[float, float]) -> None:
    if type(value) not in (int, float) or not math.isfinite(value) or not bounds[0] <= value <= bounds[1]:
        raise InvalidOwnHand("a measure is out of its bounds")


def _check_rows(rows: Sequence[Any]) -> None:
    chars = [char for char, _ in rows]
    if not all(isinstance(char, str) and len(char) == 1 and not char.isspace() for char in chars):
        raise InvalidOwnHand("a form of no character")
    if len(set(chars)) < len(chars) or _REQUIRED_CHARS - set(chars):
        raise InvalidOwnHand("characters are missing, or there twice")
    for char, forms in rows:
        if not isinstance(forms, list) or not 1 <= len(forms) <= _MAX_FORMS:
            raise InvalidOwnHand("a character without forms, or with too many")
        for form in forms:
            _check_form(form)
            if char.isalpha() and all(kind != LineKind.BODY for kind, _, _ in form[3]):
                raise InvalidOwnHand("a letter without a body")


def _check_form(form: Any) -> None:
    advance, entry, exit_, lines = form
    if not isinstance(lines, list) or not 1 <= len(lines) <= _MAX_LINES or not _are_units([advance]):
        raise InvalidOwnHand("a form without lines, or with too many")
    for kind, ends, steps in lines:
        if type(kind) is not int or kind not in tuple(LineKind) or len(ends) != 2 or not {*ends} <= {0, 1}:
            raise InvalidOwnHand("a line of no kind")
        _check_steps(steps)
    for role in (entry, exit_):
        if role is None:
            continue
        if type(role) is not int or not 0 <= role < len(lines) or lines[role][0] != LineKind.BODY:
            raise InvalidOwnHand("a role of no line")


def _check_steps(steps: Any) -> None:
    if not isinstance(steps, list) or len(steps) % 2 or not 2 <= len(steps) // 2 <= _MAX_KNOTS:
        raise InvalidOwnHand("a line of no knots, or of too many")
    if not _are_units(steps):
        raise InvalidOwnHand("a step of no length")
    x = y = 0
    for across, rise in zip(steps[::2], steps[1::2], strict=True):
        x, y = x + across, y + rise
        if not _are_units([x, y]):
            raise InvalidOwnHand("a knot far from its letter")


def _are_units(values: Sequence[Any]) -> bool:
    return all(type(value) is int and abs(value) <= _MAX_UNITS for value in values)
