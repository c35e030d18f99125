"""JSON to the letter: what a caller sent comes back with its key order and its number texts.

`1.0`, `1e2` and thirty-digit integers survive; a duplicate key, NaN or Infinity is refused.
"""

import json
from typing import Any, NoReturn

from quillpost.core.body_limits import Bounds, check_json

DEEPEST = 100
"""Levels of nesting. Deeper is no one's data, and would exhaust whoever walks it after us."""


class NotJson(ValueError):
    """The text is no JSON, with a sentence that says where and why."""


class WrittenNumber(float):
    """A float that remembers how it was written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "WrittenNumber":
        number = super().__new__(cls, text)
        number.text = text
        return number


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise NotJson(f'The key "{twice[:60]}" is given twice.')
    return found


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not a JSON value.")


def _integer(text: str) -> int | WrittenNumber:
    return WrittenNumber(text) if text == "-0" else int(text)


_decoder = json.JSONDecoder(
    object_pairs_hook=_no_duplicates,
    parse_float=WrittenNumber,
    parse_int=_integer,
    parse_constant=_no_constant,
)


def read(source: bytes, *, bounds: Bounds | None = None) -> Any:
    """The value, or `NotJson`. Floats are `WrittenNumber`s. Of what comes from outside, `bounds` say how much
    it may hold: nothing is made of more (`Invalid`)."""
    if bounds is not None:
        check_json(source, bounds)
    try:
        value = _decoder.decode(source.decode("utf-8-sig"))
    except UnicodeDecodeError as bad:
        raise NotJson(f"The body is not UTF-8 (byte {bad.start}).") from None
    except json.JSONDecodeError as bad:
        raise NotJson(f"The body is not valid JSON: {bad.msg} at character {bad.pos}.") from None
    except RecursionError:
        raise NotJson("The body is nested too deeply.") from None
    except ValueError as bad:
        if isinstance(bad, NotJson):
            raise
        raise NotJson("The body holds a number with too many digits.") from None
    if bounds is None:
        _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    """Level by level, so that the check itself never goes deep."""
    level = [value] if type(value) in (dict, list) else []
    for _ in range(DEEPEST):
        if not level:
            return
        inside = [outer.values() if type(outer) is dict else outer for outer in level]
        level = [inner for values in inside for inner in values if type(inner) in (dict, list)]
    if level:
        raise NotJson("The body is nested too deeply.")


def write(value: Any) -> str:
    """Compact JSON of what `read` gave, number for number."""
    if isinstance(value, WrittenNumber):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{_string(k)}:{write(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    if isinstance(value, str):
        return _string(value)
    return json.dumps(value)


def _string(text: str) -> str:
    """As UTF-8 where UTF-8 can say it; a lone surrogate stays an escape."""
    written = json.dumps(text, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return written
