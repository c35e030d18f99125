"""JSON to the letter: what a caller sent comes back with its key order and its number texts.

`1.0`, `1e2` and thirty-digit integers survive; a duplicate key, NaN or Infinity is refused.
"""

import json
from typing import Any, NoReturn

from quillpost.core.body_limits import BodyLimits, check_json_limits

MAX_DEPTH = 100
"""Levels of nesting. Deeper is no one's data, and would exhaust whoever walks it after us."""


class InvalidJson(ValueError):
    """The text is no JSON, with a sentence that says where and why."""


class ExactFloat(float):
    """A float that remembers how it was written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "ExactFloat":
        number = super().__new__(cls, text)
        number.text = text
        return number


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) != len(pairs):
        seen: set[str] = set()
        duplicate = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidJson(f'The key "{duplicate[:60]}" is given twice.')
    return parsed


def _reject_constant(name: str) -> NoReturn:
    raise InvalidJson(f"{name} is not a JSON value.")


def _parse_integer(text: str) -> int | ExactFloat:
    return ExactFloat(text) if text == "-0" else int(text)


_decoder = json.JSONDecoder(
    object_pairs_hook=_reject_duplicate_keys,
    parse_float=ExactFloat,
    parse_int=_parse_integer,
    parse_constant=_reject_constant,
)


def parse_json(source: bytes, *, limits: BodyLimits | None = None) -> Any:
    """The value, or `InvalidJson`. Floats are `ExactFloat`s. Of what comes from outside, `limits` say how much
    it may hold: nothing is made of more (`Invalid`)."""
    if limits is not None:
        check_json_limits(source, limits)
    try:
        value = _decoder.decode(source.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidJson(f"The body is not UTF-8 (byte {error.start}).") from None
    except json.JSONDecodeError as error:
        raise InvalidJson(f"The body is not valid JSON: {error.msg} at character {error.pos}.") from None
    except RecursionError:
        raise InvalidJson("The body is nested too deeply.") from None
    except ValueError as error:
        if isinstance(error, InvalidJson):
            raise
        raise InvalidJson("The body holds a number with too many digits.") from None
    if limits is None:
        _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    """Level by level, so that the check itself never goes deep."""
    level = [value] if type(value) in (dict, list) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return
        containers = [outer.values() if type(outer) is dict else outer for outer in level]
        level = [inner for values in containers for inner in values if type(inner) in (dict, list)]
    if level:
        raise InvalidJson("The body is nested too deeply.")


def dump_json(value: Any) -> str:
    """Compact JSON of what `parse_json` gave, number for number."""
    if isinstance(value, ExactFloat):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{_dump_string(k)}:{dump_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump_json, value)) + "]"
    if isinstance(value, str):
        return _dump_string(value)
    return json.dumps(value)


def _dump_string(text: str) -> str:
    """As UTF-8 where UTF-8 can say it; a lone surrogate stays an escape."""
    encoded = json.dumps(text, ensure_ascii=False)
    try:
        encoded.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return encoded
