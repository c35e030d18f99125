"""JSON with its key order and number texts, and limits on what a body may hold."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from quillpost.core.errors import Invalid

WINDOW_BYTES = 16_000  # scanned at a time; other threads run between two windows
# Bytes without a text or separator, such as spaces or a number, which a parser takes in one step. Less than a window:
# only whole windows are checked.
MAX_BARE_BYTES = 15_000
MAX_REPORTED_ERRORS = 100

_SPACES = b" \t\r\n"
_BRACKETS = b"[]{}"
_SEPARATORS = b",:" + _BRACKETS
_NOT_BRACKETS = bytes(each for each in range(256) if each not in _BRACKETS)
_DEPTH_STEPS = bytes.maketrans(_BRACKETS, bytes([1, 255, 1, 255]))  # signed bytes: the change of depth


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What one body may hold; each is a setting."""

    max_nodes: int = 100_000
    """Objects, arrays, and whatever else stands in an array. A plain value with a key is no node: its key
    is counted."""
    max_keys: int = 200_000  # keys of all objects together: 5,000 recipients with every field have 115,000
    max_object_keys: int = 10_000
    """Keys of one object, or of what lies between two objects in it: a parser takes them in one step."""
    max_depth: int = 32  # objects and arrays within each other
    max_key_bytes: int = 1_000  # length of a key, as it is written
    max_text_bytes: int = 1_000_000  # length of any text, or of a form's field, as it is written
    max_unknown_keys: int = 1_000  # different keys that mean nothing to us


DEFAULT_BODY_LIMITS = BodyLimits()  # where no setting says otherwise


def check_json_limits(body: bytes, limits: BodyLimits) -> None:
    """Raises `Invalid`. What is not JSON passes: a parser stops there, and has met no more by then than was counted."""
    scan = _JsonScan(limits)
    for window in _split_windows(body):
        scan.scan_window(window)
        if scan.is_finished:
            return
    scan.check_counts(slack=0)


def parse_form(
    body: bytes, *, max_fields: int, limits: BodyLimits = DEFAULT_BODY_LIMITS, is_strict: bool = False
) -> list[tuple[str, str]]:
    """Names and values of a form in UTF-8, in order. `Invalid` if there are too many fields, or too long names;
    ValueError if it cannot be read."""
    if body.count(b"&") >= max_fields:
        raise _too_large_error(f"The form has more than {max_fields:,} fields: send {max_fields:,} at most.")
    for pair in body.split(b"&"):
        if len(pair.partition(b"=")[0]) > limits.max_key_bytes:
            raise long_name_error(limits)
        if len(pair) > limits.max_text_bytes:
            raise _too_large_error(f"A field has more than {limits.max_text_bytes:,} bytes: send a shorter one.")
    return parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=is_strict, errors="strict")


def long_name_error(limits: BodyLimits) -> Invalid:
    return _too_large_error(f"A field's name has more than {limits.max_key_bytes:,} bytes: use a shorter one.")


def check_unknown_keys(names: set[str], limits: BodyLimits) -> set[str]:
    if len(names) > limits.max_unknown_keys:
        raise _too_large_error(
            f"The body has more than {limits.max_unknown_keys:,} different keys that mean nothing here: leave them out."
        )
    return names


def _too_large_error(message: str) -> Invalid:
    return Invalid({"body": [message]})


def _split_windows(body: bytes) -> Iterator[bytes]:
    """None ends between a backslash and what it escapes."""
    start = 0
    while start < len(body):
        end = start + WINDOW_BYTES
        window = body[start:end]
        if (len(window) - len(window.rstrip(b"\\"))) % 2:
            window += body[end : end + 1]
        yield window
        start += len(window)


class _JsonScan:
    """The counts so far. `is_finished` when no parser can go on."""

    def __init__(self, limits: BodyLimits) -> None:
        self.is_finished = False
        self._limits = limits
        self._values = 1
        self._keys = self._container_values = self._texts = self._depth = 0
        self._object_keys = 0  # keys since the last brace
        self._bare_bytes = 0
        self._is_in_text = False  # whether the last window ended within a text
        self._text_length = 0  # bytes of the text that was the last in it
        self._last_char = b""  # the last that stood outside of texts

    def scan_window(self, window: bytes) -> None:
        # As long as before: the length of a key counts.
        plain = window.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        parts = plain.split(b'"')
        if self._is_in_text:
            parts.insert(0, b"")
        self._check_texts(parts)
        outside = self._outside_texts(parts)
        self._check_bare(window, parts, outside)
        self._count_values(outside)
        self._check_object_keys(outside)
        self._is_in_text = len(parts) % 2 == 0
        self._update_depth(outside)
        self.check_counts(slack=1)

    def check_counts(self, *, slack: int) -> None:
        """`slack` for a key yet to come: its value's comma has been counted."""
        max_nodes, max_keys = self._limits.max_nodes, self._limits.max_keys
        # A text stands in an array, or is a key, or has one.
        if self._keys > max_keys or self._texts > max_nodes + 2 * max_keys + slack:
            raise _too_large_error(f"The body has more than {max_keys:,} keys: send less in one call.")
        if self._values - self._keys + self._container_values > max_nodes + slack:
            raise _too_large_error(
                f"The body has more than {max_nodes:,} nodes (objects, arrays and values in arrays): send less in"
                " one call."
            )

    def _check_bare(self, window: bytes, parts: Sequence[bytes], outside: bytes) -> None:
        is_bare = len(parts) == 1 and len(outside.translate(None, _SEPARATORS)) == len(outside)
        self._bare_bytes = self._bare_bytes + len(window) if is_bare else 0
        if self._bare_bytes > MAX_BARE_BYTES:
            raise _too_large_error(
                f"The body has more than {MAX_BARE_BYTES:,} spaces or digits in a row: leave out what says nothing."
            )

    def _check_object_keys(self, outside: bytes) -> None:
        first, *later_counts = [row.count(b":") for row in outside.replace(b"{", b"}").split(b"}")]
        longest = max(self._object_keys + first, *later_counts, 0)
        self._object_keys = later_counts[-1] if later_counts else longest
        if longest > (max_keys := self._limits.max_object_keys):
            raise _too_large_error(f"An object of the body has more than {max_keys:,} keys: send less in one call.")

    def _outside_texts(self, parts: Sequence[bytes]) -> bytes:
        """All but texts and spaces; a quotation mark for each text that began."""
        joined = b'"'.join(parts[::2]) + (b'"' if len(parts) % 2 == 0 else b"")
        return (joined[1:] if self._is_in_text else joined).translate(None, _SPACES)

    def _count_values(self, outside: bytes) -> None:
        joined = self._last_char + outside
        empty_containers = joined.count(b"[]") + joined.count(b"{}")
        self._values += outside.count(b",") + outside.count(b"[") + outside.count(b"{") - empty_containers
        self._keys += outside.count(b":")
        self._container_values += joined.count(b":[") + joined.count(b":{")
        self._texts += outside.count(b'"')
        self._last_char = joined[-1:]

    def _update_depth(self, outside: bytes) -> None:
        steps = memoryview(outside.translate(_DEPTH_STEPS, _NOT_BRACKETS)).cast("b")
        depths = list(accumulate(steps, initial=self._depth))
        if max(depths) > self._limits.max_depth:
            raise _too_large_error(
                f"The body is nested more than {self._limits.max_depth} levels deep: send it flatter."
            )
        self._depth = depths[-1]
        self.is_finished = self._depth < 0  # more was closed than was open

    def _check_texts(self, parts: Sequence[bytes]) -> None:
        """A text that a colon follows is a key."""
        max_key_bytes, max_text_bytes = self._limits.max_key_bytes, self._limits.max_text_bytes
        if not self._is_in_text and self._text_length > max_key_bytes and parts[0].strip(_SPACES):
            self._check_key_length(parts[0])
            self._text_length = 0
        carried_length = self._text_length if self._is_in_text else 0
        if carried_length + max(map(len, parts)) > min(max_key_bytes, max_text_bytes):
            for index in range(1, len(parts), 2):
                length = len(parts[index]) + (carried_length if index == 1 else 0)
                if length > max_text_bytes:
                    raise _too_large_error(
                        f"A text of the body has more than {max_text_bytes:,} bytes: send a shorter one."
                    )
                if length > max_key_bytes and index + 1 < len(parts):
                    self._check_key_length(parts[index + 1])
        self._carry_text_length(parts, carried_length)

    def _carry_text_length(self, parts: Sequence[bytes], carried_length: int) -> None:
        """The length of the last text, if it is still open or nothing has followed it."""
        last_index = len(parts) - 1 if len(parts) % 2 == 0 else len(parts) - 2
        if last_index < 0:
            return
        is_followed = last_index + 1 < len(parts) and parts[last_index + 1].strip(_SPACES)
        self._text_length = 0 if is_followed else len(parts[last_index]) + (carried_length if last_index == 1 else 0)

    def _check_key_length(self, following: bytes) -> None:
        if following.lstrip(_SPACES)[:1] == b":":
            max_key_bytes = self._limits.max_key_bytes
            raise _too_large_error(f"A key of the body has more than {max_key_bytes:,} bytes: use a shorter one.")


MAX_DEPTH = 100  # levels; deeper would exhaust the stack of code that walks it


class InvalidJson(ValueError):
    """A sentence that says where and why."""


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
    """Raises `InvalidJson`, or `Invalid` beyond `limits`, which are for what comes from outside. Floats are
    `ExactFloat`s."""
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
    """Level by level, so that the check itself does not recurse."""
    level = [value] if type(value) in (dict, list) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return
        containers = [outer.values() if type(outer) is dict else outer for outer in level]
        level = [inner for values in containers for inner in values if type(inner) in (dict, list)]
    if level:
        raise InvalidJson("The body is nested too deeply.")


def dump_json(value: Any) -> str:
    """Compact JSON of what `parse_json` returned, number for number."""
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
    """UTF-8; a lone surrogate stays an escape."""
    encoded = json.dumps(text, ensure_ascii=False)
    try:
        encoded.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return encoded
