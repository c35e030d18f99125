"""Files of carrier scans: JSON and CSV, packed or not, read row by row."""

import codecs
import csv
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple, Protocol

import orjson

from quillpost.fulfillment.tracking import rules
from quillpost.fulfillment.tracking.rules import MAX_ROW_LENGTH, BadScanRow, InvalidScanFile, RawScanRow, ScanColumns

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


CHUNK_BYTES = 262_144
MAX_FILE_BYTES = 1_000_000_000  # unpacked: some millions of scans
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def read_text_chunks(source: BinaryIO) -> Iterator[str]:
    """Invalid bytes become replacement characters; NULs, which cannot be stored, are removed."""
    chunks = _unpack(source)
    first = next(chunks, b"")
    decoder = codecs.getincrementaldecoder(BYTE_ORDER_MARKS.get(first[:2], "utf-8-sig"))("replace")
    total = len(first)
    yield decoder.decode(first).replace("\x00", "")
    for chunk in chunks:
        total += len(chunk)
        if total > MAX_FILE_BYTES:
            raise InvalidScanFile(f"The file is larger than {MAX_FILE_BYTES:,} bytes: send it in parts.")
        yield decoder.decode(chunk).replace("\x00", "")
    yield decoder.decode(b"", final=True).replace("\x00", "")


def _unpack(source: BinaryIO) -> Iterator[bytes]:
    first = _read_chunk(source)
    if first[:2] != GZIP_MAGIC:
        while first:
            yield first
            first = _read_chunk(source)
        return
    yield from _gunzip(source, first)


def _gunzip(source: BinaryIO, packed: bytes) -> Iterator[bytes]:
    """In small chunks, however large the content. A file may have several gzip members."""
    decompressor = zlib.decompressobj(wbits=31)
    try:
        while packed:
            yield decompressor.decompress(packed, CHUNK_BYTES)
            if decompressor.eof:
                packed = decompressor.unused_data or _read_chunk(source)
                if packed[:2] != GZIP_MAGIC:  # what follows is padding
                    return
                decompressor = zlib.decompressobj(wbits=31)
            else:
                packed = decompressor.unconsumed_tail or _read_chunk(source)
    except zlib.error:
        raise InvalidScanFile("The file is packed with gzip, and damaged: send it again.") from None
    if not decompressor.eof:
        raise InvalidScanFile("The file is packed with gzip, and ends too early: send it again.")


def _read_chunk(source: BinaryIO) -> bytes:
    return source.read(CHUNK_BYTES) or b""


DELIMITERS = ",;\t|"
MAX_HEADER_LINES = 20  # among which one must be a header or a scan
UNKNOWN_FORMAT = (
    "This is no file of scans: it is neither JSON with events, nor lines with a header that names a barcode"
    " and a time, nor lines of facility ZIP, operation, time, routing and tracking code."
)


def read_csv_rows(chunks: Iterator[str]) -> Iterator[RawScanRow | BadScanRow]:
    lines = _split_lines(chunks)
    first_lines = list(islice(lines, MAX_HEADER_LINES))
    first = next((line for line in first_lines if line.strip()), "")
    reader = csv.reader(chain(first_lines, lines), delimiter=max(DELIMITERS, key=first.count))
    unrecognized: list[Sequence[str]] = []
    for number, row in _number_rows(reader):
        if isinstance(row, str) or not any(row):
            continue
        if not unrecognized and rules.ScanColumns(row).has_scan_columns:
            yield from _read_named_rows([name.strip() for name in row], reader)
            return
        unrecognized.append(row)
        if _is_legacy(row):
            for skipped in range(1, number):
                yield BadScanRow(skipped, "it is not a scan")
            yield _build_raw_row(number, rules.LEGACY_COLUMNS, row)
            yield from _read_named_rows(rules.LEGACY_COLUMNS, reader)
            return
        if len(unrecognized) >= MAX_HEADER_LINES:
            break
    if unrecognized or first:
        raise InvalidScanFile(UNKNOWN_FORMAT)
    raise InvalidScanFile("The file is empty.")


def _is_legacy(row: Sequence[str]) -> bool:
    if len(row) < len(rules.LEGACY_COLUMNS):
        return False
    zip_code, operation, _, _, tracking = (cell.strip() for cell in row[: len(rules.LEGACY_COLUMNS)])
    is_code = tracking.isdigit() and rules.MIN_BARCODE_DIGITS <= len(tracking) <= 20
    return len(operation) == 3 and operation.isdigit() and zip_code.isdigit() and is_code


class _CsvReader(Protocol):
    """The standard library's reader, which has no public name."""

    line_num: int

    def __next__(self) -> list[str]: ...


def _read_named_rows(names: Sequence[str], reader: _CsvReader) -> Iterator[RawScanRow | BadScanRow]:
    for number, row in _number_rows(reader):
        if isinstance(row, str):
            yield BadScanRow(number, row)
        elif len(row) > len(names):
            yield BadScanRow(number, f"it has {len(row)} columns instead of {len(names)}")
        elif row:
            yield _build_raw_row(number, names, row)


def _build_raw_row(number: int, names: Sequence[str], row: Sequence[str]) -> RawScanRow:
    columns = dict(zip(names, row, strict=False))
    return RawScanRow(number, columns, orjson.dumps(columns).decode())


def _number_rows(reader: _CsvReader) -> Iterator[tuple[int, list[str] | str]]:
    """Each row with its line number, or with the reason why it cannot be read."""
    while True:
        try:
            yield reader.line_num + 1, next(reader)
        except csv.Error:
            yield reader.line_num, "its quotes or its length are wrong"
        except StopIteration:
            return


def _split_lines(chunks: Iterator[str]) -> Iterator[str]:
    """A line without an end is cut, and will not be a scan."""
    remainder = ""
    for chunk in chunks:
        # Unlike `splitlines` it breaks only at line ends, not at form feeds and the like.
        complete_lines = list(StringIO(remainder + chunk, newline=""))
        remainder = complete_lines.pop() if complete_lines and not complete_lines[-1].endswith("\n") else ""
        yield from complete_lines
        while len(remainder) > rules.MAX_ROW_LENGTH:
            yield remainder[: rules.MAX_ROW_LENGTH] + "\n"
            remainder = remainder[rules.MAX_ROW_LENGTH :]
    if remainder:
        yield remainder
