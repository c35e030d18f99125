"""Products read from TOML: the shipped layouts, and an operator's changes."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, TypeGuard

from quillpost.rendering.layout import rules
from quillpost.rendering.layout.models import ProductLayout, Side, box_above_qr
from quillpost.rendering.layout.rules import largest_visible_area
from quillpost.rendering.models import INCH, Box

_BOX_KEYS = frozenset(
    {"art_area", "message", "message_above_qr", "divider", "return_address", "indicia"}
    | {"address", "barcode", "qr", "card", "opt_out", "panel"}
)
_SIDE_KEYS = _BOX_KEYS | {"size", "bleed", "art", "ink_free", "handwritten", "message_align", "windows", "insert"}
_PRODUCT_KEYS = ("title", "product", "stock", "previews")
_OPTIONAL_KEYS = frozenset(
    {"art", "art_area", "message_above_qr", "divider", "return_address", "indicia", "barcode", "opt_out"}
)
_ART_NAMES = ("front", "background")
_ALIGNMENTS = ("center", "top")
_MAX_SHEET_INCHES, _MAX_BLEED_INCHES = 15.0, 0.5

# Letters print these only when they are needed, and envelopes apart from the sheets.
_SEPARATE_SHEETS = {"page": "extra", "address": "address_sheet", "envelope": "envelope"}
_SIDE_NAMES = frozenset({"front", "back", "outside", "inside", "cover", *_SEPARATE_SHEETS})

_TomlTable = dict[str, Any]


class InvalidProductTemplate(ValueError):
    """Templates that cannot be printed, with a sentence for each reason."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


def load_products(text: str, overrides: str | None = None) -> dict[str, ProductLayout]:
    """Products by name; `overrides` changes single values."""
    parsed_tables = _parse_toml(text)
    tables = {name: _inherit_values(table, parsed_tables) for name, table in parsed_tables.items()}
    _raise_if_any(error for name, table in tables.items() for error in _key_errors(name, table))
    _raise_if_any(error for name, table in tables.items() for error in _missing_key_errors(name, table))
    if overrides is not None:
        changes = _parse_toml(overrides)
        _raise_if_any(_unknown_name_errors(changes, tables))
        _raise_if_any(error for name, table in changes.items() for error in _key_errors(name, table))
        tables = {name: _merge_tables(table, changes.get(name, {})) for name, table in tables.items()}
    products = {name: _build_product(name, table) for name, table in tables.items()}
    _raise_if_any(error for product in products.values() for error in rules.find_layout_errors(product))
    return products


def read_shipped_toml() -> str:
    return files("quillpost.rendering.layout").joinpath("products.toml").read_text("utf-8")


@cache
def load_shipped_products(overrides: str | None = None) -> Mapping[str, ProductLayout]:
    """Cached for each text of overrides."""
    return load_products(read_shipped_toml(), overrides)


def _raise_if_any(errors: Iterable[str]) -> None:
    if error_list := list(errors):
        raise InvalidProductTemplate(error_list)


def _parse_toml(text: str) -> _TomlTable:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidProductTemplate([f"The template cannot be read: {error}."]) from None


def _inherit_values(table: Any, all_tables: _TomlTable) -> Any:
    """A product that is `like` another inherits its sides and values."""
    if not isinstance(table, dict) or table.get("like") not in list(all_tables):
        return table
    return _merge_tables(all_tables[table["like"]], {key: value for key, value in table.items() if key != "like"})


def _merge_tables(table: _TomlTable, changes: _TomlTable) -> _TomlTable:
    merged = dict(table)
    for key, value in changes.items():
        current = table.get(key)
        merged[key] = {**current, **value} if isinstance(current, dict) and isinstance(value, dict) else value
    return merged


def _unknown_name_errors(changes: _TomlTable, tables: Mapping[str, _TomlTable]) -> Iterator[str]:
    """Names in an operator's file that would have no effect."""
    for name, table in changes.items():
        if name not in tables:
            yield f"There is no piece {name}; the pieces are {', '.join(tables)}."
            continue
        for key in _side_tables(table) if isinstance(table, dict) else ():
            sides = list(_side_tables(tables[name]))
            if key not in sides:
                yield f"{name}: there is no side {key}; its sides are {', '.join(sides)}."


def _side_tables(table: _TomlTable) -> dict[str, _TomlTable]:
    return {key: value for key, value in table.items() if isinstance(value, dict) and key != "previews"}


def _key_errors(name: str, table: Any) -> Iterator[str]:
    if not isinstance(table, dict):
        yield f"{name}: a piece is a table with sides."
        return
    sides = _side_tables(table)
    for key, value in table.items():
        if key in sides:
            is_known = key in _SIDE_NAMES
            problems = [_value_error(*entry) for entry in value.items()] if is_known else ["there is no such side."]
            yield from (f"{name}, {key}: {problem}" for problem in problems if problem)
        elif key not in _PRODUCT_KEYS:
            yield f'{name}: a piece has no "{key}".'
        elif key == "previews":
            if not isinstance(value, dict) or not all(isinstance(side, str) for side in value.values()):
                yield f"{name}: previews must name a side for each preview."
        elif not isinstance(value, str) or not value.strip():
            yield f"{name}: {key} must be a text."


def _missing_key_errors(name: str, table: _TomlTable) -> Iterator[str]:
    yield from (f"{name}: {key} is missing." for key in _PRODUCT_KEYS if key not in table)
    for side, values in _side_tables(table).items():
        if "size" not in values:
            yield f"{name}, {side}: size is missing."


def _value_error(key: str, value: object) -> str | None:
    if key not in _SIDE_KEYS:
        return f'a side has no "{key}".'
    if value is False and key in _OPTIONAL_KEYS:
        return None
    if key in _BOX_KEYS and not _is_box(value, thin=key == "divider"):
        return f"{key} must be [left, bottom, width, height] in inches."
    if key in ("ink_free", "windows") and not (isinstance(value, list) and all(map(_is_box, value))):
        return f"{key} must be a list of boxes, each [left, bottom, width, height] in inches."
    if key in ("size", "insert") and not (_are_numbers(value, 2) and min(value) > 0):
        return f"{key} must be [width, height] in inches."
    if key == "bleed" and not (_are_numbers([value], 1) and 0 <= value <= _MAX_BLEED_INCHES):  # type: ignore[operator]
        return f"bleed must be from 0 to {_MAX_BLEED_INCHES:g} in."
    if key == "art" and value not in _ART_NAMES:
        return 'art must be "front" or "background".'
    if key == "message_align" and value not in _ALIGNMENTS:
        return 'message_align must be "center" or "top".'
    if key == "handwritten" and not isinstance(value, bool):
        return "handwritten must be true or false."
    return None


def _are_numbers(value: object, count: int) -> TypeGuard[list[float]]:
    return (
        isinstance(value, list)
        and len(value) == count
        and all(isinstance(number, int | float) and not isinstance(number, bool) for number in value)
        and all(abs(number) <= _MAX_SHEET_INCHES for number in value)
    )


def _is_box(value: object, *, thin: bool = False) -> bool:
    """A `thin` box may have no width or no height: it is a line."""
    if not _are_numbers(value, 4):
        return False
    narrow, wide = sorted(value[2:])
    return narrow >= 0 and wide > 0 if thin else narrow > 0


def _build_product(name: str, table: _TomlTable) -> ProductLayout:
    sides = {key: _build_side(key, values) for key, values in _side_tables(table).items()}
    if "envelope" in sides:
        sides = {key: _clear_behind_windows(side, sides["envelope"]) for key, side in sides.items()}
    separate_sides = {role: sides.pop(key, None) for key, role in _SEPARATE_SHEETS.items()}
    return ProductLayout(
        name=name,
        title=table["title"],
        product=table["product"],
        stock=table["stock"],
        sides=tuple(sides.values()),
        previews=MappingProxyType(dict(table["previews"])),
        **separate_sides,
    )


def _build_side(name: str, values: _TomlTable) -> Side:
    width, height = values["size"]
    trim = _box_from_inches([0, 0, width, height])
    bleed = values.get("bleed", 0) * INCH
    art, insert = values.get("art") or None, values.get("insert")
    boxes = {key: _box_from_inches(values[key]) for key in sorted(_BOX_KEYS & values.keys()) if values[key]}
    if art is None:
        boxes.pop("art_area", None)
    else:
        boxes.setdefault("art_area", trim.expand(bleed))
    if "message" in boxes and "qr" in boxes:
        boxes.setdefault("message_above_qr", box_above_qr(boxes["message"], boxes["qr"]))
    return Side(
        name=name,
        trim=trim,
        bleed=bleed,
        art=art,
        ink_free=tuple(_box_from_inches(zone) for zone in (*values.get("ink_free", ()), *values.get("windows", ()))),
        handwritten=values.get("handwritten", False),
        message_align=values.get("message_align", _ALIGNMENTS[0]),
        windows=tuple(_box_from_inches(window) for window in values.get("windows", ())),
        insert=(round(insert[0] * INCH, 3), round(insert[1] * INCH, 3)) if insert else None,
        **boxes,
    )


def _clear_behind_windows(side: Side, envelope: Side) -> Side:
    """A sheet with the address stays free of ink wherever a window can show it."""
    if not envelope.windows or side.address is None:
        return side
    window_areas = (largest_visible_area(window, envelope, side) for window in envelope.windows)
    return replace(side, ink_free=(*side.ink_free, *window_areas))


def _box_from_inches(inches: list[float]) -> Box:
    """Rounded, so that a box is the same on any machine."""
    return Box(*(round(length * INCH, 3) for length in inches))
