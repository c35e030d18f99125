# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""reportlab: the usual way to make PDFs in Python."""

from math import cos, sin
from pathlib import Path

from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from benchmarks.compose.contender import InThisProcess
from benchmarks.compose.sheet import BLEED, INK, PAGE_HEIGHT, PAGE_WIDTH, Piece, Sheet

_PAGE = (0, 0, PAGE_WIDTH, PAGE_HEIGHT)
_TRIM = (BLEED, BLEED, PAGE_WIDTH - BLEED, PAGE_HEIGHT - BLEED)


class Reportlab(InThisProcess):
    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def compose(self, count: int, out: Path) -> None:
        # New ones each time: a registered font remembers the letters of earlier files.
        pdfmetrics.registerFont(TTFont("Hand", str(self._sheet.hand)))
        pdfmetrics.registerFont(TTFont("Plain", str(self._sheet.plain)))
        canvas = Canvas(str(out), pagesize=(PAGE_WIDTH, PAGE_HEIGHT), pageCompression=1)
        self._draw_shared(canvas)
        for piece in self._sheet.pieces[:count]:
            self._set_boxes(canvas)
            canvas.drawImage(str(self._sheet.photo), *_PAGE)
            canvas.showPage()
            self._set_boxes(canvas)
            canvas.doForm("shared")
            self._draw_piece(canvas, piece)
            canvas.showPage()
        canvas.save()

    def _set_boxes(self, canvas: Canvas) -> None:
        canvas.setTrimBox(_TRIM)
        canvas.setBleedBox(_PAGE)

    def _draw_shared(self, canvas: Canvas) -> None:
        canvas.beginForm("shared", *_PAGE)
        canvas.setLineWidth(0.5)
        canvas.rect(*self._sheet.frame)
        for run in self._sheet.shared:
            canvas.setFont("Plain", run.size)
            canvas.drawString(run.left, run.baseline, run.text)
        canvas.setFillGray(0.78)
        canvas.rect(*self._sheet.divider, stroke=0, fill=1)
        canvas.endForm()

    def _draw_piece(self, canvas: Canvas, piece: Piece) -> None:
        text = canvas.beginText()
        text.setFillColorRGB(*(channel / 255 for channel in INK))
        for run in piece.words:
            along, up = cos(run.slope), sin(run.slope)
            text.setFont("Hand", run.size)
            text.setTextTransform(along, up, -up, along, run.left, run.baseline)
            text.textOut(run.text)
        canvas.drawText(text)
        canvas.setFillGray(0)
        for run in piece.address:
            canvas.setFont("Plain", run.size)
            canvas.drawString(run.left, run.baseline, run.text)
        path = canvas.beginPath()
        for rectangle in piece.dark:
            path.rect(*rectangle)
        canvas.drawPath(path, stroke=0, fill=1)


def start(sheet: Sheet) -> Reportlab:
    return Reportlab(sheet)
