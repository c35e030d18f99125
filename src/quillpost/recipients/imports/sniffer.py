"""What a file is that says it holds people: looked at once, whole, before anything is kept of it."""

import codecs
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO

from quillpost.core.errors import Invalid
from quillpost.recipients.field_names import meaning, plain
from quillpost.recipients.imports.columns import LONGEST_LINE, MOST_COLUMNS, Layout, names_of
from quillpost.recipients.imports.rows import Record, rows_of

PIECE = 1_000_000
HEAD = 64 * 1024
SAMPLE_ROWS = 200
SAMPLE_CHARACTERS = 4_000_000

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
_SENDABLE = "Send a CSV, TSV or .xlsx file."
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_SAYS_NOTHING = " \t\r\n\0\"'\ufeff\ufffd" + "".join(DELIMITERS)
_CONTROLS = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Sniffed:
    """A file that can be read, and its first rows."""

    layout: Layout
    rows: Sequence[Sequence[str]]


def refused(sentence: str) -> Invalid:
    return Invalid({"file": [sentence]})


def sniff(file: IO[bytes], *, has_header: bool | None = None, is_workbook: bool = False) -> Sniffed:
    """How the file is read, or `Invalid` with what it is instead of a table."""
    file.seek(0)
    head = file.read(HEAD)
    if not head.strip():
        raise refused(f"The file is empty. {_SENDABLE}")
    encoding = _marked(head)
    if encoding is None:
        _require_text(head)
    encoding = encoding or _wide(head) or _decided(file)
    _require_lines(file)
    delimiter, rows = _divided(file, encoding)
    if is_workbook:
        delimiter, rows = ",", _first_rows(file, encoding, ",")
    if rows and rows[0].width:
        raise _too_wide(rows[0].width)
    cells = [row.cells for row in rows if row.fault is None]
    if not cells:
        raise refused(f"No row of the file can be read. {rows[0].fault if rows else _SENDABLE}")
    if not any(cell.strip(_SAYS_NOTHING) for row in cells for cell in row):
        raise refused(f"The file is empty: no cell of it says anything. {_SENDABLE}")
    header = _is_header(cells) if has_header is None else has_header
    width = len(cells[0]) if header else max(map(len, cells))
    if width > MOST_COLUMNS:
        raise _too_wide(width)
    if header and len(cells) == 1:
        raise refused("The file has a line of column names and nobody below it.")
    layout = Layout(encoding, delimiter, header, names_of(cells[0] if header else None, width), is_workbook)
    return Sniffed(layout, cells[1:] if header else cells)


def _too_wide(width: int) -> Invalid:
    return refused(f"The file has {width:,} columns, and may have {MOST_COLUMNS:,}. Leave some out.")


def _marked(head: bytes) -> str | None:
    """The encoding that a mark at the beginning tells."""
    return next((encoding for mark, encoding in _MARKS if head.startswith(mark)), None)


def _require_text(head: bytes) -> None:
    begin = head.lstrip()[:16].lower()
    for signature, what in _SIGNATURES:
        if head.startswith(signature) or begin.startswith(signature.lower()):
            raise refused(f"This file is {what}. {_SENDABLE}")
    if _wide(head) is None and len(_CONTROLS.findall(head)) + head.count(0) > len(head) / 100 + 2:
        raise refused(f"This file is no text. {_SENDABLE}")


def _wide(head: bytes) -> str | None:
    """UTF-16 that does not say so: every other byte of plain letters is a nought."""
    for encoding, start in (("utf-16-le", 1), ("utf-16-be", 0)):
        if head[start::2].count(0) > len(head) * 0.35 and head[1 - start :: 2].count(0) < len(head) * 0.05:
            return encoding
    return None


def _decided(file: IO[bytes]) -> str:
    """UTF-8 where the whole file is; else what most of its letters beyond ASCII speak for.

    A file that only breaks off within its last letter was UTF-8.
    """
    strict = codecs.getincrementaldecoder("utf-8")("strict")
    file.seek(0)
    try:
        while piece := file.read(PIECE):
            strict.decode(piece)
    except UnicodeDecodeError:
        return _spoken_for(file)
    return "utf-8"


def _spoken_for(file: IO[bytes]) -> str:
    lenient = codecs.getincrementaldecoder("utf-8")("replace")
    good = bad = 0
    file.seek(0)
    while piece := file.read(PIECE):
        text = lenient.decode(piece)
        broken = text.count("\ufffd")
        good += len(text) - len(text.encode("ascii", "ignore")) - broken
        bad += broken
    return "utf-8" if good > bad else "cp1252"


def _require_lines(file: IO[bytes]) -> None:
    """A file without lines is no table; and one endless line would fill the memory."""
    file.seek(0)
    since = 0
    while piece := file.read(PIECE):
        first, last = _first_break(piece), max(piece.rfind(b"\n"), piece.rfind(b"\r"))
        if since + first > LONGEST_LINE:
            raise refused(f"A line of the file is longer than {LONGEST_LINE:,} bytes. {_SENDABLE}")
        since = since + len(piece) if last < 0 else len(piece) - last


def _first_break(piece: bytes) -> int:
    """How many bytes come before the first end of a line."""
    return min((at for at in (piece.find(b"\n"), piece.find(b"\r")) if at >= 0), default=len(piece))


def _divided(file: IO[bytes], encoding: str) -> tuple[str, list[Record]]:
    """What divides the cells: that by which most rows come out as wide as the first. A first row that
    nothing divides is that of a single column, whatever is in the rows below."""
    best: tuple[tuple[float, int], str, list[Record]] | None = None
    for delimiter in DELIMITERS:
        rows = _first_rows(file, encoding, delimiter)
        widths = [row.width or len(row.cells) for row in rows if row.width or row.fault is None]
        if not widths or widths[0] < 2:
            continue
        alike = sum(width == widths[0] for width in widths) / len(widths)
        usual = Counter(widths).most_common(1)[0][1] / len(widths)
        score = (round(max(alike, usual), 1), widths[0])
        if best is None or score > best[0]:
            best = score, delimiter, rows
    return best[1:] if best is not None else ("", _first_rows(file, encoding, ""))


def _first_rows(file: IO[bytes], encoding: str, delimiter: str) -> list[Record]:
    file.seek(0)
    text = io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="")
    try:
        return list(_some(rows_of(text, delimiter)))
    finally:
        text.detach()


def _some(rows: Iterator[Record]) -> Iterator[Record]:
    """The first of them; fewer where they are long."""
    length = 0
    for row in islice(rows, SAMPLE_ROWS):
        yield row
        length += sum(map(len, row.cells))
        if length > SAMPLE_CHARACTERS:
            return


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names columns: a name that we know, or words above what are no words."""
    first = [cell.strip() for cell in rows[0] if cell.strip()]
    if any("@" in cell for cell in first):
        return False
    if any(meaning(plain(cell)) for cell in first):
        return True
    has_digits = any(any(map(str.isdigit, cell)) for cell in first)
    return not has_digits and any(any(map(str.isdigit, cell)) for row in rows[1:20] for cell in row)
