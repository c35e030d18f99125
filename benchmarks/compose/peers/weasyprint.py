# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""WeasyPrint: HTML and CSS to PDF in Python."""

from pathlib import Path

from weasyprint import HTML

from benchmarks.compose import markup
from benchmarks.compose.contender import InThisProcess
from benchmarks.compose.sheet import Sheet


class WeasyPrint(InThisProcess):
    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def compose(self, count: int, out: Path) -> None:
        HTML(string=markup.document(self._sheet, self._sheet.pieces[:count])).write_pdf(str(out))


def start(sheet: Sheet) -> WeasyPrint:
    return WeasyPrint(sheet)
