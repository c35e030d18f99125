"""Chromium, printing HTML to PDF; it is running before the time is taken."""

from pathlib import Path

from benchmarks.compose import markup
from benchmarks.compose.browser import Browser
from benchmarks.compose.sheet import Sheet


class Chromium:
    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self._browser = Browser()

    def compose(self, count: int, out: Path) -> None:
        page = out.with_suffix(".html")
        page.write_text(markup.document(self._sheet, self._sheet.pieces[:count]))
        self._browser.open(page)
        self._browser.print_to(out)

    def cpu_seconds(self) -> float:
        return self._browser.cpu_seconds()

    def peak_bytes(self) -> int:
        return self._browser.peak_bytes()

    def close(self) -> None:
        self._browser.close()


def start(sheet: Sheet) -> Chromium:
    return Chromium(sheet)
