# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""fpdf2: a small PDF library in pure Python."""

from collections.abc import Sequence
from math import degrees
from pathlib import Path

from fpdf import FPDF

from benchmarks.compose.contender import InThisProcess
from benchmarks.compose.sheet import INK, PAGE_HEIGHT, PAGE_WIDTH, Piece, Rectangle, Run, Sheet


class Fpdf2(InThisProcess):
    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def compose(self, count: int, out: Path) -> None:
        pdf = FPDF(unit="pt", format=(PAGE_WIDTH, PAGE_HEIGHT))
        pdf.set_auto_page_break(False)
        pdf.add_font("Hand", "", str(self._sheet.hand))
        pdf.add_font("Plain", "", str(self._sheet.plain))
        for piece in self._sheet.pieces[:count]:
            pdf.add_page()
            pdf.image(str(self._sheet.photo), 0, 0, PAGE_WIDTH, PAGE_HEIGHT)
            pdf.add_page()
            self._draw_back(pdf, piece)
        pdf.output(str(out))

    def _draw_back(self, pdf: FPDF, piece: Piece) -> None:
        pdf.set_fill_color(199)
        pdf.rect(*_from_top(self._sheet.divider), style="F")
        pdf.set_line_width(0.5)
        pdf.rect(*_from_top(self._sheet.frame))
        _draw_plain(pdf, self._sheet.shared)
        pdf.set_text_color(*INK)
        for run in piece.words:
            pdf.set_font("Hand", "", run.size)
            with pdf.rotation(degrees(run.slope), run.left, PAGE_HEIGHT - run.baseline):
                pdf.text(run.left, PAGE_HEIGHT - run.baseline, run.text)
        _draw_plain(pdf, piece.address)
        pdf.set_fill_color(0)
        for rectangle in piece.dark:
            pdf.rect(*_from_top(rectangle), style="F")


def _draw_plain(pdf: FPDF, runs: Sequence[Run]) -> None:
    pdf.set_text_color(0)
    for run in runs:
        pdf.set_font("Plain", "", run.size)
        pdf.text(run.left, PAGE_HEIGHT - run.baseline, run.text)


def _from_top(rectangle: Rectangle) -> Rectangle:
    left, bottom, width, height = rectangle
    return left, PAGE_HEIGHT - bottom - height, width, height


def start(sheet: Sheet) -> Fpdf2:
    return Fpdf2(sheet)
