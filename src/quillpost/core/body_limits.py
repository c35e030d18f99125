"""How much a body may hold, looked at before anything is made of it.

The check counts bytes and builds no values: of nine million numbers it looks at the first hundred thousand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from urllib.parse import parse_qsl

from quillpost.core.errors import Invalid

WINDOW = 16_000
"""Bytes that are looked at in one step: between two steps, other threads have their turn."""

MOST_BARE = 15_000
"""Bytes that may pass without a text and without a sign that divides values: spaces, or a number. A parser
takes all of them in one step. Less than a step of ours: only whole steps are looked at."""

MOST_FAULTS = 100
"""Errors that are built for one body, and told of it."""

_SPACES = b" \t\r\n"
_BRACKETS = b"[]{}"
_DIVIDERS = b",:" + _BRACKETS
_NOT_BRACKETS = bytes(each for each in range(256) if each not in _BRACKETS)
_STEPS = bytes.maketrans(_BRACKETS, bytes([1, 255, 1, 255]))
"""A bracket as the step in depth that it makes: a signed byte."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one body may hold at most; each is a setting."""

    nodes: int = 100_000
    """Objects, arrays, and whatever else stands in an array. A plain value with a key is no node: its key
    is counted."""
    keys: int = 200_000
    """Keys of all objects together: 5,000 recipients with every field have 115,000."""
    object_keys: int = 10_000
    """Keys of one object, or of what lies between two objects in it: a parser takes them in one step."""
    depth: int = 32
    """Objects and arrays within each other."""
    key_bytes: int = 1_000
    """Length of a key, as it is written."""
    text_bytes: int = 1_000_000
    """Length of any text, or of a form's field, as it is written."""
    unknown_keys: int = 1_000
    """Different keys that mean nothing to us."""


BOUNDS = Bounds()
"""Where no setting says otherwise."""


def check_json(body: bytes, bounds: Bounds) -> None:
    """`Invalid` if the body holds too much. What is no JSON passes: a parser stops where it is none, and has
    met no more until there than was counted here."""
    scan = _Scan(bounds)
    for window in _windows(body):
        scan.look(window)
        if scan.is_over:
            return
    scan.check(slack=0)


def read_form(
    body: bytes, *, fields: int, bounds: Bounds = BOUNDS, strict: bool = False
) -> list[tuple[str, str]]:
    """Names and values of a form in UTF-8, in their order. `Invalid` if there are more fields, or longer
    names; ValueError if it cannot be read."""
    if body.count(b"&") >= fields:
        raise _too_much(f"The form has more than {fields:,} fields: send {fields:,} at most.")
    for pair in body.split(b"&"):
        if len(pair.partition(b"=")[0]) > bounds.key_bytes:
            raise long_name(bounds)
        if len(pair) > bounds.text_bytes:
            raise _too_much(f"A field has more than {bounds.text_bytes:,} bytes: send a shorter one.")
    return parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=strict, errors="strict")


def long_name(bounds: Bounds) -> Invalid:
    return _too_much(f"A field's name has more than {bounds.key_bytes:,} bytes: use a shorter one.")


def check_unknown(names: set[str], bounds: Bounds) -> set[str]:
    """The same names, unless they are too many."""
    if len(names) > bounds.unknown_keys:
        raise _too_much(
            f"The body has more than {bounds.unknown_keys:,} different keys that mean nothing here: leave"
            " them out."
        )
    return names


def _too_much(sentence: str) -> Invalid:
    return Invalid({"body": [sentence]})


def _windows(body: bytes) -> Iterator[bytes]:
    """The body in steps, none of which ends between a backslash and what it escapes."""
    start = 0
    while start < len(body):
        end = start + WINDOW
        window = body[start:end]
        if (len(window) - len(window.rstrip(b"\\"))) % 2:
            window += body[end : end + 1]
        yield window
        start += len(window)


class _Scan:
    """What a body has had so far. `is_over` when no parser can go on."""

    def __init__(self, bounds: Bounds) -> None:
        self.is_over = False
        self._bounds = bounds
        self._values = 1
        self._keys = self._inner = self._texts = self._depth = 0
        self._row = 0
        """Keys since the last brace."""
        self._bare = 0
        self._is_open = False
        """Whether the last window ended within a text."""
        self._length = 0
        """Bytes of the text that was the last in it."""
        self._before = b""
        """The last that stood outside of texts."""

    def look(self, window: bytes) -> None:
        """Count what is in the next step."""
        # As long as before: the length of a key counts.
        plain = window.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        parts = plain.split(b'"')
        if self._is_open:
            parts.insert(0, b"")
        self._check_texts(parts)
        outside = self._outside(parts)
        self._check_bare(window, parts, outside)
        self._count(outside)
        self._check_row(outside)
        self._is_open = len(parts) % 2 == 0
        self._descend(outside)
        self.check(slack=1)

    def check(self, *, slack: int) -> None:
        """`slack` for a key that is yet to come: its value's comma has been counted."""
        nodes, keys = self._bounds.nodes, self._bounds.keys
        # A text stands in an array, or is a key, or has one.
        if self._keys > keys or self._texts > nodes + 2 * keys + slack:
            raise _too_much(f"The body has more than {keys:,} keys: send less in one call.")
        if self._values - self._keys + self._inner > nodes + slack:
            raise _too_much(
                f"The body has more than {nodes:,} nodes (objects, arrays and values in arrays): send less in"
                " one call."
            )

    def _check_bare(self, window: bytes, parts: Sequence[bytes], outside: bytes) -> None:
        is_bare = len(parts) == 1 and len(outside.translate(None, _DIVIDERS)) == len(outside)
        self._bare = self._bare + len(window) if is_bare else 0
        if self._bare > MOST_BARE:
            raise _too_much(
                f"The body has more than {MOST_BARE:,} spaces or digits in a row: leave out what says"
                " nothing."
            )

    def _check_row(self, outside: bytes) -> None:
        first, *others = [row.count(b":") for row in outside.replace(b"{", b"}").split(b"}")]
        longest = max(self._row + first, *others, 0)
        self._row = others[-1] if others else longest
        if longest > (most := self._bounds.object_keys):
            raise _too_much(f"An object of the body has more than {most:,} keys: send less in one call.")

    def _outside(self, parts: Sequence[bytes]) -> bytes:
        """All but texts and spaces; a quotation mark for each text that began."""
        joined = b'"'.join(parts[::2]) + (b'"' if len(parts) % 2 == 0 else b"")
        return (joined[1:] if self._is_open else joined).translate(None, _SPACES)

    def _count(self, outside: bytes) -> None:
        linked = self._before + outside
        empty = linked.count(b"[]") + linked.count(b"{}")
        self._values += outside.count(b",") + outside.count(b"[") + outside.count(b"{") - empty
        self._keys += outside.count(b":")
        self._inner += linked.count(b":[") + linked.count(b":{")
        self._texts += outside.count(b'"')
        self._before = linked[-1:]

    def _descend(self, outside: bytes) -> None:
        steps = memoryview(outside.translate(_STEPS, _NOT_BRACKETS)).cast("b")
        depths = list(accumulate(steps, initial=self._depth))
        if max(depths) > self._bounds.depth:
            raise _too_much(
                f"The body is nested more than {self._bounds.depth} levels deep: send it flatter."
            )
        self._depth = depths[-1]
        self.is_over = self._depth < 0  # more was closed than was open

    def _check_texts(self, parts: Sequence[bytes]) -> None:
        """None may be too long; one that a colon follows is a key."""
        most, longest = self._bounds.key_bytes, self._bounds.text_bytes
        if not self._is_open and self._length > most and parts[0].strip(_SPACES):
            self._require_no_key(parts[0])
            self._length = 0
        carried = self._length if self._is_open else 0
        if carried + max(map(len, parts)) > min(most, longest):
            for place in range(1, len(parts), 2):
                length = len(parts[place]) + (carried if place == 1 else 0)
                if length > longest:
                    raise _too_much(
                        f"A text of the body has more than {longest:,} bytes: send a shorter one."
                    )
                if length > most and place + 1 < len(parts):
                    self._require_no_key(parts[place + 1])
        self._carry(parts, carried)

    def _carry(self, parts: Sequence[bytes], carried: int) -> None:
        """The length of the last text, if it is open yet or nothing has followed it."""
        last = len(parts) - 1 if len(parts) % 2 == 0 else len(parts) - 2
        if last < 0:
            return
        is_followed = last + 1 < len(parts) and parts[last + 1].strip(_SPACES)
        self._length = 0 if is_followed else len(parts[last]) + (carried if last == 1 else 0)

    def _require_no_key(self, after: bytes) -> None:
        if after.lstrip(_SPACES)[:1] == b":":
            most = self._bounds.key_bytes
            raise _too_much(f"A key of the body has more than {most:,} bytes: use a shorter one.")
