"""Uploaded files: detect their encoding, delimiter and header, and read their rows. The first sheet of a workbook
(.xlsx) becomes a CSV file, in a process with limited memory and time."""

import codecs
import csv
import io
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import IO

from quillpost.core.errors import Invalid
from quillpost.core.requests import ClientDisconnected, FairQueue, current_client
from quillpost.recipients.field_names import find_field_meaning, normalize_name
from quillpost.recipients.imports.models import (
    MAX_CELL_LENGTH,
    MAX_COLUMNS,
    MAX_LINE_BYTES,
    FileLayout,
    FileRecord,
    SniffedFile,
)
from quillpost.recipients.imports.rules import build_column_names

CHUNK_BYTES = 1_000_000
HEAD_BYTES = 64 * 1024
MAX_SAMPLE_ROWS = 200
MAX_SAMPLE_CHARACTERS = 4_000_000
DELIMITERS = (",", "\t", ";", "|")
_SIGNATURES = (
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"PK", "a zip archive"),
    (b"\x1f\x8b", "packed with gzip: unpack it first"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"\xd0\xcf\x11\xe0", "an old Office file: save it as .xlsx or CSV"),
    (b"{\\rtf", "a text with layout (RTF)"),
    (b"<!doctype", "a web page"),
    (b"<html", "a web page"),
    (b"<?xml", "XML"),
)
_ACCEPTED_FILES = "Send a CSV, TSV or .xlsx file."
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_MEANINGLESS_CHARACTERS = " \t\r\n\0\"'\ufeff\ufffd" + "".join(DELIMITERS)
_CONTROL_BYTES = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")


def build_file_error(sentence: str) -> Invalid:
    return Invalid({"file": [sentence]})


def sniff(file: IO[bytes], *, has_header: bool | None = None, is_workbook: bool = False) -> SniffedFile:
    """The layout and the first rows, or `Invalid` if it is no table."""
    file.seek(0)
    head = file.read(HEAD_BYTES)
    if not head.strip():
        raise build_file_error(f"The file is empty. {_ACCEPTED_FILES}")
    encoding = _detect_marked_encoding(head)
    if encoding is None:
        _require_text(head)
    encoding = encoding or _detect_utf16(head) or _detect_encoding(file)
    _require_lines(file)
    delimiter, rows = _detect_delimiter(file, encoding)
    if is_workbook:
        delimiter, rows = ",", _read_first_rows(file, encoding, ",")
    if rows and rows[0].width:
        raise _build_width_error(rows[0].width)
    cells = [row.cells for row in rows if row.error is None]
    if not cells:
        raise build_file_error(f"No row of the file can be read. {rows[0].error if rows else _ACCEPTED_FILES}")
    if not any(cell.strip(_MEANINGLESS_CHARACTERS) for row in cells for cell in row):
        raise build_file_error(f"The file is empty: no cell of it says anything. {_ACCEPTED_FILES}")
    is_header_present = _is_header(cells) if has_header is None else has_header
    width = len(cells[0]) if is_header_present else max(map(len, cells))
    if width > MAX_COLUMNS:
        raise _build_width_error(width)
    if is_header_present and len(cells) == 1:
        raise build_file_error("The file has a line of column names and nobody below it.")
    layout = FileLayout(
        encoding,
        delimiter,
        is_header_present,
        build_column_names(cells[0] if is_header_present else None, width),
        is_workbook,
    )
    return SniffedFile(layout, cells[1:] if is_header_present else cells)


def _build_width_error(width: int) -> Invalid:
    return build_file_error(f"The file has {width:,} columns, and may have {MAX_COLUMNS:,}. Leave some out.")


def _detect_marked_encoding(head: bytes) -> str | None:
    """By a byte order mark."""
    return next((encoding for mark, encoding in _BYTE_ORDER_MARKS if head.startswith(mark)), None)


def _require_text(head: bytes) -> None:
    start = head.lstrip()[:16].lower()
    for signature, description in _SIGNATURES:
        if head.startswith(signature) or start.startswith(signature.lower()):
            raise build_file_error(f"This file is {description}. {_ACCEPTED_FILES}")
    if _detect_utf16(head) is None and len(_CONTROL_BYTES.findall(head)) + head.count(0) > len(head) / 100 + 2:
        raise build_file_error(f"This file is no text. {_ACCEPTED_FILES}")


def _detect_utf16(head: bytes) -> str | None:
    """UTF-16 without a mark: every other byte of plain letters is zero."""
    for encoding, offset in (("utf-16-le", 1), ("utf-16-be", 0)):
        if head[offset::2].count(0) > len(head) * 0.35 and head[1 - offset :: 2].count(0) < len(head) * 0.05:
            return encoding
    return None


def _detect_encoding(file: IO[bytes]) -> str:
    """UTF-8 if the whole file is, even one that breaks off within its last character; else by its non-ASCII
    characters."""
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    file.seek(0)
    try:
        while chunk := file.read(CHUNK_BYTES):
            decoder.decode(chunk)
    except UnicodeDecodeError:
        return _detect_broken_encoding(file)
    return "utf-8"


def _detect_broken_encoding(file: IO[bytes]) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    valid_count = broken_count = 0
    file.seek(0)
    while chunk := file.read(CHUNK_BYTES):
        text = decoder.decode(chunk)
        broken_in_chunk = text.count("\ufffd")
        valid_count += len(text) - len(text.encode("ascii", "ignore")) - broken_in_chunk
        broken_count += broken_in_chunk
    return "utf-8" if valid_count > broken_count else "cp1252"


def _require_lines(file: IO[bytes]) -> None:
    """One endless line would fill the memory."""
    file.seek(0)
    line_bytes = 0
    while chunk := file.read(CHUNK_BYTES):
        first_end, last_end = _find_line_end(chunk), max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        if line_bytes + first_end > MAX_LINE_BYTES:
            raise build_file_error(f"A line of the file is longer than {MAX_LINE_BYTES:,} bytes. {_ACCEPTED_FILES}")
        line_bytes = line_bytes + len(chunk) if last_end < 0 else len(chunk) - last_end


def _find_line_end(chunk: bytes) -> int:
    return min((index for index in (chunk.find(b"\n"), chunk.find(b"\r")) if index >= 0), default=len(chunk))


def _detect_delimiter(file: IO[bytes], encoding: str) -> tuple[str, list[FileRecord]]:
    """The delimiter by which most rows are as wide as the first. If nothing divides the first row, there is one
    column."""
    best: tuple[tuple[float, int], str, list[FileRecord]] | None = None
    for delimiter in DELIMITERS:
        rows = _read_first_rows(file, encoding, delimiter)
        widths = [row.width or len(row.cells) for row in rows if row.width or row.error is None]
        if not widths or widths[0] < 2:
            continue
        share_like_first = sum(width == widths[0] for width in widths) / len(widths)
        share_most_common = Counter(widths).most_common(1)[0][1] / len(widths)
        score = (round(max(share_like_first, share_most_common), 1), widths[0])
        if best is None or score > best[0]:
            best = score, delimiter, rows
    return best[1:] if best is not None else ("", _read_first_rows(file, encoding, ""))


def _read_first_rows(file: IO[bytes], encoding: str, delimiter: str) -> list[FileRecord]:
    file.seek(0)
    text = io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="")
    try:
        return list(_take_sample(parse_records(text, delimiter)))
    finally:
        text.detach()


def _take_sample(rows: Iterator[FileRecord]) -> Iterator[FileRecord]:
    length = 0
    for row in islice(rows, MAX_SAMPLE_ROWS):
        yield row
        length += sum(map(len, row.cells))
        if length > MAX_SAMPLE_CHARACTERS:
            return


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names columns: a known name, or words above what are no words."""
    first_cells = [cell.strip() for cell in rows[0] if cell.strip()]
    if any("@" in cell for cell in first_cells):
        return False
    if any(find_field_meaning(normalize_name(cell)) for cell in first_cells):
        return True
    has_digits = any(any(map(str.isdigit, cell)) for cell in first_cells)
    return not has_digits and any(any(map(str.isdigit, cell)) for row in rows[1:20] for cell in row)


SINGLE_COLUMN_DELIMITER = "\x1f"
"""The delimiter of a file with one column: a character that no one types."""
UNCLOSED_QUOTE = 'A quote (") is opened here and not closed: nothing from here to the end of the file was read.'
MAX_ROW_LENGTH = 4_000_000
"""In quotes a row can go on for any number of lines."""
TOO_LONG = (
    f'A cell is longer than {MAX_CELL_LENGTH:,} characters, or the row than can be: perhaps a quote (") is not'
    " closed."
    " The lines to {last} were not read."
)
TOO_MANY_COLUMNS = f"The row has {{width:,}} columns, and may have {MAX_COLUMNS:,}. Leave some out."
READ_AHEAD_BYTES = 256 * 1024


class _LineReader:
    """The lines of a text, and whether more were requested than there are."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self.has_ended = False
        self.length = 0
        """Characters since it was last set to nothing."""

    def __iter__(self) -> "_LineReader":
        return self

    def __next__(self) -> str:
        line = self._text.readline()
        if not line:
            self.has_ended = True
            raise StopIteration
        self.length += len(line)
        if self.length > MAX_ROW_LENGTH:
            raise csv.Error
        return line


def read_records(source: IO[bytes], layout: FileLayout) -> Iterator[FileRecord]:
    """The rows below the header that are not blank. A broken character becomes U+FFFD. The source is closed with
    them."""
    text = io.TextIOWrapper(source, encoding=layout.encoding, errors="replace", newline="")
    records = parse_records(text, layout.delimiter, is_workbook=layout.is_workbook)
    if layout.has_header:
        next(records, None)
    return records


def parse_records(text: io.TextIOWrapper, delimiter: str, *, is_workbook: bool = False) -> Iterator[FileRecord]:
    """Every row of a text that is not blank, including the header."""
    lines = _LineReader(text)
    reader = csv.reader(lines, delimiter=delimiter or SINGLE_COLUMN_DELIMITER)
    for row_number in count(1):
        position = row_number if is_workbook else reader.line_num + 1
        lines.length = 0
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield FileRecord(position, [], TOO_LONG.format(last=reader.line_num))
            continue
        if len(cells) > MAX_COLUMNS:  # not kept: a short line of commas would be a long list
            yield FileRecord(position, [], TOO_MANY_COLUMNS.format(width=len(cells)), len(cells))
        elif any(map(str.strip, cells)):
            # Only within quotes does the reader ask for a line beyond the last.
            yield FileRecord(position, cells, UNCLOSED_QUOTE if lines.has_ended else None)


ZIP_SIGNATURE = b"PK\x03\x04"
TIMEOUT_SECONDS = 75.0
MAX_CONCURRENT = 2
"""A sheet is in memory while it is read: about a megabyte for a thousand rows."""
MAX_PER_ACCOUNT = 1
MAX_WAIT_SECONDS = 10.0
READER_BUSY = "Another workbook is being read. Send this one again in a moment, or save the sheet as CSV and send that."
REFUSED_EXIT_CODE = 3
"""The process wrote the reason to its standard error."""
TOO_LARGE = "The workbook is damaged, or too large to be read: save the sheet as CSV and send that."
_ENVIRONMENT_NAMES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "PYTHONPYCACHEPREFIX")
reader_queue = FairQueue(MAX_CONCURRENT, MAX_PER_ACCOUNT, MAX_WAIT_SECONDS)


def is_workbook(file: IO[bytes]) -> bool:
    """By its first bytes; `convert_to_csv` rejects other zip archives."""
    file.seek(0)
    first_bytes = file.read(len(ZIP_SIGNATURE))
    file.seek(0)
    return first_bytes == ZIP_SIGNATURE


def convert_to_csv(file: IO[bytes]) -> IO[bytes]:
    """The first sheet that is not empty, as CSV in UTF-8, including blank rows."""
    file.flush()
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    csv_file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    try:
        with reader_queue.slot(READER_BUSY):
            _run_reader(file, csv_file)
    except BaseException:
        csv_file.close()
        raise
    return csv_file


def _run_reader(file: IO[bytes], csv_file: IO[bytes]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "quillpost.recipients.imports.workbook_reader"],
        stdin=file.fileno(),
        stdout=csv_file.fileno(),
        stderr=subprocess.PIPE,
        env={name: os.environ[name] for name in _ENVIRONMENT_NAMES if name in os.environ},
        cwd="/",
    )
    with process:
        try:
            with current_client().on_disconnect(process.kill):
                _, error_output = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise build_file_error(TOO_LARGE) from None
        finally:
            process.kill()
    if current_client().is_disconnected:
        raise ClientDisconnected
    if process.returncode == REFUSED_EXIT_CODE:
        raise build_file_error(error_output.decode(errors="replace")[:300])
    if process.returncode != 0:
        raise build_file_error(TOO_LARGE)
