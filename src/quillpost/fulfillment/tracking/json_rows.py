"""Carrier scans as JSON, read row by row."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from quillpost.fulfillment.tracking.fields import Columns
from quillpost.fulfillment.tracking.rows import LONGEST_ROW, BadRow, RawRow

MOST_PAIRS = 31
EVENTS = "events"
PAIR = re.compile(r'[ \t\r\n,]*"((?:[^"\\]|\\.){0,200})"\s*:\s*')
ROWS = re.compile(r"\[(?=\s*\{)")
NO_ROWS = re.compile(r"\[(?=\s*\])")

# What is passed over is not used: numbers of any length stay text.
SKIPPING = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


class Opened(NamedTuple):
    """The first place inside the array, and how many objects are open around it."""

    at: int
    depth: int


def find_array(text: str, at: int) -> Opened | None:
    """The rows' array in the object that begins here; None if the object is a row itself, or holds none.

    It looks no further than the text that is there. Rows are preferred to an empty array, and what lies in
    the object itself to what lies in one of its values.
    """
    names: list[str] = []
    values: list[int] = []
    for name, value in _pairs(text, at):
        names.append(name)
        values.append(value)
        if ROWS.match(text, value):
            break
    if Columns(names).can_be_scans:
        return None
    inner = [pair for value in values if text.startswith("{", value) for pair in _pairs(text, value)]
    tries = (
        *((ROWS, 1, value) for value in values),
        *((ROWS, 2, value) for _, value in inner),
        *((NO_ROWS, 1, value) for value in values),
        # An empty array of another name may be anything: such a file is better refused.
        *((NO_ROWS, 2, value) for name, value in inner if name == EVENTS),
    )
    for wanted, depth, value in tries:
        if found := wanted.match(text, value):
            return Opened(found.end(), depth)
    return None


def _pairs(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The names in an object, and where their values begin, as far as values can be passed over."""
    at += 1
    for _ in range(MOST_PAIRS):
        name = PAIR.match(text, at)
        if name is None:
            return
        yield name[1], name.end()
        try:
            _, at = SKIPPING.raw_decode(text, name.end())
        except (ValueError, RecursionError):
            return


SPACE = re.compile(r"[ \t\r\n,]*")
NEXT_ROW = re.compile(r"\}[ \t\r\n,]*(?=\{)")
LONGEST_VALUE = 2_000
LONGEST_NUMBER = 100
NO_JSON = "it is not valid JSON"


class Window:
    """The part of the text that is looked at, with at least one row ahead."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._has_more = True
        self.text = ""
        self.at = 0

    def look(self) -> str:
        """The next character that is neither space nor comma; nothing at the end."""
        while True:
            self._fill()
            found = SPACE.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text):
                self._fill()
                return self.text[self.at]
            if not self._has_more:
                return ""

    def take(self) -> None:
        self.at += 1

    def find_next_row(self) -> bool:
        """Go to the next object that follows another."""
        while True:
            if found := NEXT_ROW.search(self.text, self.at):
                self.at = found.end()
                return True
            self.at = max(self.at, len(self.text) - LONGEST_ROW // 2)
            if not self._has_more:
                return False
            self._fill(2 * LONGEST_ROW)

    def _fill(self, wanted: int = LONGEST_ROW) -> None:
        if len(self.text) - self.at >= wanted or not self._has_more:
            return
        ahead = [self.text[self.at :]]
        length = len(ahead[0])
        while length < wanted and self._has_more:
            piece = next(self._pieces, None)
            if piece is None:
                self._has_more = False
            else:
                ahead.append(piece)
                length += len(piece)
        self.text, self.at = "".join(ahead), 0


class _Reader:
    def __init__(self, pieces: Iterator[str]) -> None:
        self._window = Window(pieces)
        self._row = 0
        self._is_odd = False
        # Numbers stay as they are written: a barcode has more digits than a number can hold.
        self._decoder = json.JSONDecoder(
            parse_int=self._whole, parse_float=self._odd, parse_constant=self._odd
        )

    def _whole(self, text: str) -> str:
        return text if len(text) <= LONGEST_NUMBER else self._odd(text)

    def _odd(self, text: str) -> str:
        """A number that the database, or whoever reads it from there, may not take."""
        self._is_odd = True
        return text

    def rows(self) -> Iterator[RawRow | BadRow]:
        window = self._window
        window.look()
        # What the first object is, the others are: an envelope of rows, or a row itself.
        is_wrapped = window.text[window.at : window.at + 1] == "{" and self._envelope() is not None
        while ahead := window.look():
            if ahead == "[":
                window.take()
                yield from self._array()
            elif ahead != "{":
                yield BadRow(self._row + 1, "what follows is not JSON")
                return
            elif is_wrapped and (inside := self._envelope()):
                yield from self._wrapped(inside)
            else:
                yield from self._object()

    def _envelope(self) -> Opened | None:
        return find_array(self._window.text, self._window.at)

    def _wrapped(self, inside: Opened) -> Iterator[RawRow | BadRow]:
        """The rows of the array in an object, and past the end of all that is open around it."""
        window = self._window
        window.at = inside.at
        yield from self._array()
        for _ in range(inside.depth):
            while window.look() not in ("", "}"):
                if not self._skip_pair():
                    return
            window.take()

    def _skip_pair(self) -> bool:
        """Pass over a key and its value behind the array."""
        window = self._window
        key = KEY.match(window.text, window.at)
        if key is None:
            return False
        window.at = key.end()
        window.look()
        return self._value() is not None

    def _array(self) -> Iterator[RawRow | BadRow]:
        window = self._window
        while (ahead := window.look()) not in ("", "]"):
            if ahead == "{":
                yield from self._object()
                continue
            self._row += 1
            yield BadRow(self._row, "it is not an object")
            if self._value() is None and not window.find_next_row():
                window.at = len(window.text)
        window.take()

    def _object(self) -> Iterator[RawRow | BadRow]:
        window = self._window
        start = window.at
        self._row += 1
        found = self._value()
        if not isinstance(found, dict):
            yield BadRow(self._row, NO_JSON)
            if not window.find_next_row():
                window.at = len(window.text)
            return
        raw = window.text[start : window.at]
        if len(raw) > LONGEST_ROW:
            yield BadRow(self._row, f"it is longer than {LONGEST_ROW:,} characters")
            return
        if self._is_odd or "\\u" in raw or raw.find("{", 1) > 0 or "[" in raw:
            found = {_plain(name): _storable(value) for name, value in found.items()}
            raw = json.dumps(found, ensure_ascii=False)
        yield RawRow(self._row, found, raw)

    def _value(self) -> Any:
        """The value here, passed over; None if there is none."""
        window = self._window
        self._is_odd = False
        try:
            value, window.at = self._decoder.raw_decode(window.text, window.at)
        except (ValueError, RecursionError):
            return None
        return value if value is not None else ""


KEY = re.compile(r'[ \t\r\n,]*"(?:[^"\\]|\\.){0,200}"\s*:')


def json_rows(pieces: Iterator[str]) -> Iterator[RawRow | BadRow]:
    return _Reader(pieces).rows()


def _storable(value: object) -> object:
    if isinstance(value, str):
        return _plain(value)
    if value is None or isinstance(value, bool):
        return value
    try:
        return _plain(json.dumps(value))[:LONGEST_VALUE]
    except RecursionError:
        return None


def _plain(text: str) -> str:
    """Without what no database stores: a NUL, or half a character."""
    return text.replace("\x00", "").encode(errors="replace").decode()
