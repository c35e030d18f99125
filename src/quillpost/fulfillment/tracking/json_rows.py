"""Carrier scans as JSON, read row by row."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from quillpost.fulfillment.tracking.rules import MAX_ROW_LENGTH, BadScanRow, RawScanRow, ScanColumns

MAX_PAIRS = 31
EVENTS_KEY = "events"
PAIR_START = re.compile(r'[ \t\r\n,]*"((?:[^"\\]|\\.){0,200})"\s*:\s*')
ROW_ARRAY = re.compile(r"\[(?=\s*\{)")
EMPTY_ARRAY = re.compile(r"\[(?=\s*\])")

# Skipped values are not used: numbers of any length stay text.
SKIP_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


class OpenArray(NamedTuple):
    """The first position inside the array, and how many objects are open around it."""

    position: int
    depth: int


def find_row_array(text: str, position: int) -> OpenArray | None:
    """The array of rows in the object at this position; None if the object is a row itself, or has none. It sees only
    the text that was read. Rows are preferred to an empty array, and the object's own array to a nested one."""
    names: list[str] = []
    values: list[int] = []
    for name, value in _read_pairs(text, position):
        names.append(name)
        values.append(value)
        if ROW_ARRAY.match(text, value):
            break
    if ScanColumns(names).has_scan_columns:
        return None
    inner_pairs = [pair for value in values if text.startswith("{", value) for pair in _read_pairs(text, value)]
    candidates = (
        *((ROW_ARRAY, 1, value) for value in values),
        *((ROW_ARRAY, 2, value) for _, value in inner_pairs),
        *((EMPTY_ARRAY, 1, value) for value in values),
        # An empty array of another name may be anything: such a file is better refused.
        *((EMPTY_ARRAY, 2, value) for name, value in inner_pairs if name == EVENTS_KEY),
    )
    for pattern, depth, value in candidates:
        if match := pattern.match(text, value):
            return OpenArray(match.end(), depth)
    return None


def _read_pairs(text: str, position: int) -> Iterator[tuple[str, int]]:
    """The names in an object, and where their values begin, as far as values can be skipped."""
    position += 1
    for _ in range(MAX_PAIRS):
        name = PAIR_START.match(text, position)
        if name is None:
            return
        yield name[1], name.end()
        try:
            _, position = SKIP_DECODER.raw_decode(text, name.end())
        except (ValueError, RecursionError):
            return


WHITESPACE = re.compile(r"[ \t\r\n,]*")
NEXT_ROW = re.compile(r"\}[ \t\r\n,]*(?=\{)")
MAX_VALUE_LENGTH = 2_000
MAX_NUMBER_LENGTH = 100
INVALID_JSON = "it is not valid JSON"


class TextWindow:
    """The part of the text in memory, with at least one row ahead."""

    def __init__(self, chunks: Iterator[str]) -> None:
        self._chunks = chunks
        self._has_more = True
        self.text = ""
        self.position = 0

    def peek(self) -> str:
        """The next character that is neither space nor comma; empty at the end."""
        while True:
            self._fill()
            match = WHITESPACE.match(self.text, self.position)
            self.position = match.end() if match else self.position
            if self.position < len(self.text):
                self._fill()
                return self.text[self.position]
            if not self._has_more:
                return ""

    def advance(self) -> None:
        self.position += 1

    def skip_to_next_row(self) -> bool:
        while True:
            if match := NEXT_ROW.search(self.text, self.position):
                self.position = match.end()
                return True
            self.position = max(self.position, len(self.text) - MAX_ROW_LENGTH // 2)
            if not self._has_more:
                return False
            self._fill(2 * MAX_ROW_LENGTH)

    def _fill(self, min_length: int = MAX_ROW_LENGTH) -> None:
        if len(self.text) - self.position >= min_length or not self._has_more:
            return
        chunks = [self.text[self.position :]]
        length = len(chunks[0])
        while length < min_length and self._has_more:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._has_more = False
            else:
                chunks.append(chunk)
                length += len(chunk)
        self.text, self.position = "".join(chunks), 0


class _JsonReader:
    def __init__(self, chunks: Iterator[str]) -> None:
        self._window = TextWindow(chunks)
        self._row = 0
        self._has_odd_number = False
        # Numbers stay as written: a barcode has more digits than a number can hold.
        self._decoder = json.JSONDecoder(
            parse_int=self._parse_integer, parse_float=self._keep_odd_number, parse_constant=self._keep_odd_number
        )

    def _parse_integer(self, text: str) -> str:
        return text if len(text) <= MAX_NUMBER_LENGTH else self._keep_odd_number(text)

    def _keep_odd_number(self, text: str) -> str:
        """Mark a number that the database may not take."""
        self._has_odd_number = True
        return text

    def read_rows(self) -> Iterator[RawScanRow | BadScanRow]:
        window = self._window
        window.peek()
        # All top-level objects are alike: wrappers of rows, or rows.
        is_wrapped = window.text[window.position : window.position + 1] == "{" and self._find_row_array() is not None
        while next_char := window.peek():
            if next_char == "[":
                window.advance()
                yield from self._read_array()
            elif next_char != "{":
                yield BadScanRow(self._row + 1, "what follows is not JSON")
                return
            elif is_wrapped and (row_array := self._find_row_array()):
                yield from self._read_wrapped_rows(row_array)
            else:
                yield from self._read_object()

    def _find_row_array(self) -> OpenArray | None:
        return find_row_array(self._window.text, self._window.position)

    def _read_wrapped_rows(self, row_array: OpenArray) -> Iterator[RawScanRow | BadScanRow]:
        """The rows of the array in an object; then skip to the end of all objects around it."""
        window = self._window
        window.position = row_array.position
        yield from self._read_array()
        for _ in range(row_array.depth):
            while window.peek() not in ("", "}"):
                if not self._skip_pair():
                    return
            window.advance()

    def _skip_pair(self) -> bool:
        window = self._window
        key = KEY_START.match(window.text, window.position)
        if key is None:
            return False
        window.position = key.end()
        window.peek()
        return self._read_value() is not None

    def _read_array(self) -> Iterator[RawScanRow | BadScanRow]:
        window = self._window
        while (next_char := window.peek()) not in ("", "]"):
            if next_char == "{":
                yield from self._read_object()
                continue
            self._row += 1
            yield BadScanRow(self._row, "it is not an object")
            if self._read_value() is None and not window.skip_to_next_row():
                window.position = len(window.text)
        window.advance()

    def _read_object(self) -> Iterator[RawScanRow | BadScanRow]:
        window = self._window
        start = window.position
        self._row += 1
        row = self._read_value()
        if not isinstance(row, dict):
            yield BadScanRow(self._row, INVALID_JSON)
            if not window.skip_to_next_row():
                window.position = len(window.text)
            return
        raw = window.text[start : window.position]
        if len(raw) > MAX_ROW_LENGTH:
            yield BadScanRow(self._row, f"it is longer than {MAX_ROW_LENGTH:,} characters")
            return
        if self._has_odd_number or "\\u" in raw or raw.find("{", 1) > 0 or "[" in raw:
            row = {_strip_unstorable(name): _to_storable(value) for name, value in row.items()}
            raw = json.dumps(row, ensure_ascii=False)
        yield RawScanRow(self._row, row, raw)

    def _read_value(self) -> Any:
        """The value here, skipped; None if there is none."""
        window = self._window
        self._has_odd_number = False
        try:
            value, window.position = self._decoder.raw_decode(window.text, window.position)
        except (ValueError, RecursionError):
            return None
        return value if value is not None else ""


KEY_START = re.compile(r'[ \t\r\n,]*"(?:[^"\\]|\\.){0,200}"\s*:')


def read_json_rows(chunks: Iterator[str]) -> Iterator[RawScanRow | BadScanRow]:
    return _JsonReader(chunks).read_rows()


def _to_storable(value: object) -> object:
    if isinstance(value, str):
        return _strip_unstorable(value)
    if value is None or isinstance(value, bool):
        return value
    try:
        return _strip_unstorable(json.dumps(value))[:MAX_VALUE_LENGTH]
    except RecursionError:
        return None


def _strip_unstorable(text: str) -> str:
    """Without NULs and half surrogates, which no database stores."""
    return text.replace("\x00", "").encode(errors="replace").decode()
