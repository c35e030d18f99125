"""The process that reads a workbook from its standard input and writes its first sheet as CSV.

What strangers send is read with no more memory and time than it may have.
"""

import csv
import io
import resource
import sys
from datetime import date, datetime, time, timedelta

from python_calamine import CalamineWorkbook, SheetVisibleEnum

from quillpost.audience.importing.workbooks import REFUSED

MEMORY = 2_000_000_000
CPU_SECONDS = 60
WRITTEN = 2_000_000_000


def main() -> int:
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, WRITTEN),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    with CalamineWorkbook.from_filelike(sys.stdin.buffer) as book:
        shown = [sheet.name for sheet in book.sheets_metadata if sheet.visible == SheetVisibleEnum.Visible]
        for name in shown:
            sheet = book.get_sheet_by_name(name)
            if sheet.height:
                _write(sheet)
                return 0
    sys.stderr.write("No sheet of the workbook holds anything.")
    return REFUSED


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
