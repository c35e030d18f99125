"""Pieces read from TOML: the shipped templates, and an operator's changes to them."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, TypeGuard

from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.layout import placement
from quillpost.rendering.layout.products import Piece, Side, above_qr
from quillpost.rendering.layout.windows import ever_shown

_BOXES = frozenset(
    {
        "art_area",
        "message",
        "message_above_qr",
        "divider",
        "return_address",
        "indicia",
        "address",
        "barcode",
        "qr",
        "card",
        "opt_out",
        "panel",
    }
)
_SIDE_KEYS = _BOXES | {
    "size",
    "bleed",
    "art",
    "ink_free",
    "handwritten",
    "message_align",
    "windows",
    "insert",
}
_PIECE_KEYS = ("title", "product", "stock", "previews")
_MAY_BE_LEFT_OUT = frozenset(
    {"art", "art_area", "message_above_qr", "divider", "return_address", "indicia", "barcode", "opt_out"}
)
_ART = ("front", "background")
_ALIGNS = ("center", "top")
_LARGEST_SHEET, _MOST_BLEED = 15.0, 0.5

# Letters print these only when they are needed, and envelopes apart from the sheets.
_SHEETS_APART = {"page": "extra", "address": "address_sheet", "envelope": "envelope"}
_SIDE_NAMES = frozenset({"front", "back", "outside", "inside", "cover", *_SHEETS_APART})

_Table = dict[str, Any]


class BadTemplate(ValueError):
    """Templates that cannot be printed; `faults` has a sentence for each reason."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def load(text: str, overrides: str | None = None) -> dict[str, Piece]:
    """The pieces that a TOML text describes, by name; `overrides` changes single values of them."""
    given = _parsed(text)
    tables = {name: _complete(table, given) for name, table in given.items()}
    _refuse(fault for name, table in tables.items() for fault in _misspelt(name, table))
    _refuse(fault for name, table in tables.items() for fault in _incomplete(name, table))
    if overrides is not None:
        changes = _parsed(overrides)
        _refuse(_unknown(changes, tables))
        _refuse(fault for name, table in changes.items() for fault in _misspelt(name, table))
        tables = {name: _merged(table, changes.get(name, {})) for name, table in tables.items()}
    pieces = {name: _piece(name, table) for name, table in tables.items()}
    _refuse(fault for piece in pieces.values() for fault in placement.faults(piece))
    return pieces


def shipped_text() -> str:
    """The TOML that comes with the service."""
    return files("quillpost.rendering.layout").joinpath("products.toml").read_text("utf-8")


@cache
def shipped_pieces(overrides: str | None = None) -> Mapping[str, Piece]:
    """The shipped pieces as an operator has them, read once for each text of overrides."""
    return load(shipped_text(), overrides)


def _refuse(faults: Iterable[str]) -> None:
    if found := list(faults):
        raise BadTemplate(found)


def _parsed(text: str) -> _Table:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadTemplate([f"The template cannot be read: {error}."]) from None


def _complete(table: Any, given: _Table) -> Any:
    """A piece that is `like` another has all of the other's sides and values but its own."""
    if not isinstance(table, dict) or table.get("like") not in list(given):
        return table
    return _merged(given[table["like"]], {key: value for key, value in table.items() if key != "like"})


def _merged(table: _Table, changes: _Table) -> _Table:
    merged = dict(table)
    for key, value in changes.items():
        known = table.get(key)
        merged[key] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def _unknown(changes: _Table, tables: Mapping[str, _Table]) -> Iterator[str]:
    """What an operator's file may not name, as nothing would come of it."""
    for name, table in changes.items():
        if name not in tables:
            yield f"There is no piece {name}; the pieces are {', '.join(tables)}."
            continue
        for key in _sides_of(table) if isinstance(table, dict) else ():
            sides = list(_sides_of(tables[name]))
            if key not in sides:
                yield f"{name}: there is no side {key}; its sides are {', '.join(sides)}."


def _sides_of(table: _Table) -> dict[str, _Table]:
    return {key: value for key, value in table.items() if isinstance(value, dict) and key != "previews"}


def _misspelt(name: str, table: Any) -> Iterator[str]:
    """A sentence for every key that is not known and every value of the wrong form."""
    if not isinstance(table, dict):
        yield f"{name}: a piece is a table with sides."
        return
    sides = _sides_of(table)
    for key, value in table.items():
        if key in sides:
            known = key in _SIDE_NAMES
            problems = [_problem(*entry) for entry in value.items()] if known else ["there is no such side."]
            yield from (f"{name}, {key}: {problem}" for problem in problems if problem)
        elif key not in _PIECE_KEYS:
            yield f'{name}: a piece has no "{key}".'
        elif key == "previews":
            if not isinstance(value, dict) or not all(isinstance(side, str) for side in value.values()):
                yield f"{name}: previews must name a side for each preview."
        elif not isinstance(value, str) or not value.strip():
            yield f"{name}: {key} must be a text."


def _incomplete(name: str, table: _Table) -> Iterator[str]:
    yield from (f"{name}: {key} is missing." for key in _PIECE_KEYS if key not in table)
    for side, values in _sides_of(table).items():
        if "size" not in values:
            yield f"{name}, {side}: size is missing."


def _problem(key: str, value: object) -> str | None:
    """What is wrong with the form of one value of a side."""
    if key not in _SIDE_KEYS:
        return f'a side has no "{key}".'
    if value is False and key in _MAY_BE_LEFT_OUT:
        return None
    if key in _BOXES and not _is_box(value, thin=key == "divider"):
        return f"{key} must be [left, bottom, width, height] in inches."
    if key in ("ink_free", "windows") and not (isinstance(value, list) and all(map(_is_box, value))):
        return f"{key} must be a list of boxes, each [left, bottom, width, height] in inches."
    if key in ("size", "insert") and not (_are_numbers(value, 2) and min(value) > 0):
        return f"{key} must be [width, height] in inches."
    if key == "bleed" and not (_are_numbers([value], 1) and 0 <= value <= _MOST_BLEED):  # type: ignore[operator]
        return f"bleed must be from 0 to {_MOST_BLEED:g} in."
    if key == "art" and value not in _ART:
        return 'art must be "front" or "background".'
    if key == "message_align" and value not in _ALIGNS:
        return 'message_align must be "center" or "top".'
    if key == "handwritten" and not isinstance(value, bool):
        return "handwritten must be true or false."
    return None


def _are_numbers(value: object, count: int) -> TypeGuard[list[float]]:
    return (
        isinstance(value, list)
        and len(value) == count
        and all(isinstance(number, int | float) and not isinstance(number, bool) for number in value)
        and all(abs(number) <= _LARGEST_SHEET for number in value)
    )


def _is_box(value: object, *, thin: bool = False) -> bool:
    """A `thin` box may have no width or no height: it is a line."""
    if not _are_numbers(value, 4):
        return False
    narrow, wide = sorted(value[2:])
    return narrow >= 0 and wide > 0 if thin else narrow > 0


def _piece(name: str, table: _Table) -> Piece:
    sides = {key: _side(key, values) for key, values in _sides_of(table).items()}
    if "envelope" in sides:
        sides = {key: _behind_windows(side, sides["envelope"]) for key, side in sides.items()}
    apart = {role: sides.pop(key, None) for key, role in _SHEETS_APART.items()}
    return Piece(
        name=name,
        title=table["title"],
        product=table["product"],
        stock=table["stock"],
        sides=tuple(sides.values()),
        previews=MappingProxyType(dict(table["previews"])),
        **apart,
    )


def _side(name: str, values: _Table) -> Side:
    width, height = values["size"]
    trim = _box([0, 0, width, height])
    bleed = values.get("bleed", 0) * INCH
    art = values.get("art") or None
    boxes = {key: _box(values[key]) for key in sorted(_BOXES & values.keys()) if values[key]}
    if art is None:
        boxes.pop("art_area", None)
    else:
        boxes.setdefault("art_area", trim.grown(bleed))
    if "message" in boxes and "qr" in boxes:
        boxes.setdefault("message_above_qr", above_qr(boxes["message"], boxes["qr"]))
    return Side(
        name=name,
        trim=trim,
        bleed=bleed,
        art=art,
        ink_free=tuple(_box(zone) for zone in (*values.get("ink_free", ()), *values.get("windows", ()))),
        handwritten=values.get("handwritten", False),
        message_align=values.get("message_align", _ALIGNS[0]),
        windows=tuple(_box(window) for window in values.get("windows", ())),
        insert=_points(values["insert"]) if "insert" in values else None,
        **boxes,
    )


def _behind_windows(side: Side, envelope: Side) -> Side:
    """A sheet with the address stays free of ink wherever a window of its envelope can show it."""
    if not envelope.windows or side.address is None:
        return side
    shown = (ever_shown(window, envelope, side) for window in envelope.windows)
    return replace(side, ink_free=(*side.ink_free, *shown))


def _box(inches: list[float]) -> Box:
    """Rounded, as an inch is no whole number of anything: the same box on any machine."""
    return Box(*(round(length * INCH, 3) for length in inches))


def _points(size: list[float]) -> tuple[float, float]:
    width, height = (round(length * INCH, 3) for length in size)
    return width, height
