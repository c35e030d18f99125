"""The process that reads a workbook from its standard input and writes its first sheet as CSV, with limited memory and
time."""

import csv
import io
import os
import resource
import sys
import zipfile
from datetime import date, datetime, time, timedelta
from typing import IO

from python_calamine import CalamineWorkbook, SheetVisibleEnum

from quillpost.recipients.imports.files import REFUSED_EXIT_CODE, TOO_LARGE

MAX_MEMORY_BYTES = 1_500_000_000
MAX_CPU_SECONDS = 60
MAX_OUTPUT_BYTES = 2_000_000_000

NICENESS = 5

MAX_UNPACKED_BYTES = 1_000_000_000
MAX_COMPRESSION_RATIO = 100
"""For an archive larger than `SMALL_ARCHIVE_BYTES`; rows of people come to twenty."""
SMALL_ARCHIVE_BYTES = 20_000_000


def main() -> int:
    for kind, limit in (
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_CPU, MAX_CPU_SECONDS),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))
    os.nice(NICENESS)
    if archive_error := _find_archive_error(sys.stdin.buffer):
        sys.stderr.write(archive_error)
        return REFUSED_EXIT_CODE
    sys.stdin.buffer.seek(0)
    with CalamineWorkbook.from_filelike(sys.stdin.buffer) as workbook:
        visible_names = [sheet.name for sheet in workbook.sheets_metadata if sheet.visible == SheetVisibleEnum.Visible]
        for name in visible_names:
            sheet = workbook.get_sheet_by_name(name)
            if sheet.height:
                _write_csv(sheet)
                return 0
    sys.stderr.write("No sheet of the workbook holds anything.")
    return REFUSED_EXIT_CODE


def _find_archive_error(file: IO[bytes]) -> str | None:
    """By the archive's own directory."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
        size = file.seek(0, os.SEEK_END)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, MemoryError):
        return TOO_LARGE
    if "xl/workbook.xml" not in {entry.filename for entry in entries}:
        return "This file is a zip archive and no workbook. Send a CSV, TSV or .xlsx file."
    unpacked_bytes = sum(entry.file_size for entry in entries)
    return (
        TOO_LARGE
        if unpacked_bytes > MAX_UNPACKED_BYTES
        or unpacked_bytes > max(SMALL_ARCHIVE_BYTES, MAX_COMPRESSION_RATIO * size)
        else None
    )


def _write_csv(sheet: object) -> None:
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", errors="replace", newline="")
    writer = csv.writer(out, lineterminator="\n")
    for row in sheet.iter_rows():  # type: ignore[attr-defined]
        writer.writerow([_cell_text(cell) for cell in row])
    out.flush()


def _cell_text(cell: object) -> str:
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
