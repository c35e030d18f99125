"""The process that reads a workbook from its standard input and writes its first sheet as CSV.

What strangers send is read with no more memory and time than it may have.
"""

import csv
import io
import os
import resource
import sys
import zipfile
from datetime import date, datetime, time, timedelta
from typing import IO

from python_calamine import CalamineWorkbook, SheetVisibleEnum

from quillpost.recipients.imports.workbooks import REFUSED, TOO_LARGE

MEMORY = 1_500_000_000
CPU_SECONDS = 60
WRITTEN = 2_000_000_000

GIVING_WAY = 5
"""A workbook may take a minute, and nobody's next call is to wait for it."""

UNPACKED = 1_000_000_000
"""Bytes of all that is in the archive, as it says of itself."""
SWELLS = 100
"""Times its own size that an archive of more than `SMALL` bytes may hold: people in rows come to twenty."""
SMALL = 20_000_000
NO_WORKBOOK = "This file is a zip archive and no workbook. Send a CSV, TSV or .xlsx file."


def main() -> int:
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, WRITTEN),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    os.nice(GIVING_WAY)
    if wrong := _fault_of(sys.stdin.buffer):
        sys.stderr.write(wrong)
        return REFUSED
    sys.stdin.buffer.seek(0)
    with CalamineWorkbook.from_filelike(sys.stdin.buffer) as book:
        shown = [sheet.name for sheet in book.sheets_metadata if sheet.visible == SheetVisibleEnum.Visible]
        for name in shown:
            sheet = book.get_sheet_by_name(name)
            if sheet.height:
                _write(sheet)
                return 0
    sys.stderr.write("No sheet of the workbook holds anything.")
    return REFUSED


def _fault_of(file: IO[bytes]) -> str | None:
    """What is wrong with the archive by its own list of what is in it, which can be as long as it likes."""
    try:
        with zipfile.ZipFile(file) as archive:
            inside = archive.infolist()
        size = file.seek(0, os.SEEK_END)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, MemoryError):
        return TOO_LARGE
    if "xl/workbook.xml" not in {each.filename for each in inside}:
        return NO_WORKBOOK
    unpacked = sum(each.file_size for each in inside)
    return TOO_LARGE if unpacked > UNPACKED or unpacked > max(SMALL, SWELLS * size) else None


def _write(sheet: object) -> None:
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", errors="replace", newline="")
    writer = csv.writer(out, lineterminator="\n")
    for row in sheet.iter_rows():  # type: ignore[attr-defined]
        writer.writerow([_text(cell) for cell in row])
    out.flush()


def _text(cell: object) -> str:
    """A cell as its reader sees it."""
    match cell:
        case str():
            return cell
        case bool():
            return str(cell).upper()
        case float():
            return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
        case datetime():
            is_day = (cell.hour, cell.minute, cell.second) == (0, 0, 0)
            return cell.date().isoformat() if is_day else cell.isoformat(sep=" ")
        case date() | time():
            return cell.isoformat()
        case timedelta() | int():
            return str(cell)
    return ""


if __name__ == "__main__":
    sys.exit(main())
