# mypy: disable-error-code="import-not-found,import-untyped,misc,attr-defined"
"""skia-python: Chromium's drawing library and its PDF back end, in C++."""

from collections.abc import Sequence
from math import degrees
from pathlib import Path

import skia

from benchmarks.compose.contender import InThisProcess
from benchmarks.compose.sheet import INK, PAGE_HEIGHT, PAGE_WIDTH, Piece, Rectangle, Run, Sheet

_PAGE = skia.Rect(0, 0, PAGE_WIDTH, PAGE_HEIGHT)


class Skia(InThisProcess):
    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self._photo = skia.Image.MakeFromEncoded(skia.Data.MakeFromFileName(str(sheet.photo)))
        self._hand = skia.Typeface.MakeFromFile(str(sheet.hand))
        self._plain = skia.Typeface.MakeFromFile(str(sheet.plain))
        self._ink = skia.Paint(Color=skia.Color(*INK), AntiAlias=True)
        self._black = skia.Paint(Color=skia.ColorBLACK)
        self._grey = skia.Paint(Color=skia.Color(199, 199, 199))
        self._line = skia.Paint(Color=skia.ColorBLACK, Style=skia.Paint.kStroke_Style, StrokeWidth=0.5)

    def compose(self, count: int, out: Path) -> None:
        stream = skia.FILEWStream(str(out))
        document = skia.PDF.MakeDocument(stream)
        for piece in self._sheet.pieces[:count]:
            document.beginPage(PAGE_WIDTH, PAGE_HEIGHT).drawImageRect(self._photo, _PAGE)
            document.endPage()
            self._draw_back(document.beginPage(PAGE_WIDTH, PAGE_HEIGHT), piece)
            document.endPage()
        document.close()
        stream.flush()

    def _draw_back(self, canvas: "skia.Canvas", piece: Piece) -> None:
        canvas.drawRect(_rect(self._sheet.divider), self._grey)
        canvas.drawRect(_rect(self._sheet.frame), self._line)
        self._draw_plain(canvas, self._sheet.shared)
        for run in piece.words:
            canvas.save()
            canvas.translate(run.left, PAGE_HEIGHT - run.baseline)
            canvas.rotate(-degrees(run.slope))
            canvas.drawString(run.text, 0, 0, skia.Font(self._hand, run.size), self._ink)
            canvas.restore()
        self._draw_plain(canvas, piece.address)
        path = skia.Path()
        for rectangle in piece.dark:
            path.addRect(_rect(rectangle))
        canvas.drawPath(path, self._black)

    def _draw_plain(self, canvas: "skia.Canvas", runs: Sequence[Run]) -> None:
        for run in runs:
            font = skia.Font(self._plain, run.size)
            canvas.drawString(run.text, run.left, PAGE_HEIGHT - run.baseline, font, self._black)


def _rect(rectangle: Rectangle) -> "skia.Rect":
    left, bottom, width, height = rectangle
    return skia.Rect.MakeXYWH(left, PAGE_HEIGHT - bottom - height, width, height)


def start(sheet: Sheet) -> Skia:
    return Skia(sheet)
