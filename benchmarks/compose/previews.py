"""How long a person waits for the picture of a back, warm: ours, the bare render, and a browser's.

`python -m benchmarks.compose.previews FOLDER` prints one line of JSON: milliseconds that passed (median), and
milliseconds of processor time (mean) of all processes that had a part in it. Every round shows a piece that
was not shown before, so that nobody is helped by what is remembered.
"""

import io
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pikepdf
import pypdfium2 as pdfium
from PIL import Image

from benchmarks.compose import markup, sheet
from benchmarks.compose.browser import Browser
from benchmarks.compose.contender import Absent
from benchmarks.compose.ours import Core, png_of
from benchmarks.compose.sheet import BLEED, PAGE_HEIGHT, PAGE_WIDTH, Sheet

DPI = 150
_WARM_UP, _ROUNDS = 6, 36
PIECES = _WARM_UP + _ROUNDS
_CSS_PIXEL = 0.75

OURS = "ours"
BARE = "pdfium alone: open the file, draw the page"
OPEN_FILE = "pdfium alone: draw a new page of an open file"
LOADED = "Chromium: load the page, screenshot"
REPLACED = "Chromium: replace the words of an open page, screenshot"
OUR_PNG = "encoding alone: our PNG"
PILLOW = "encoding alone: Pillow's PNG"
PILLOW_FAST = "encoding alone: Pillow's PNG at level 1"

Draw = Callable[[int], object]
Clock = Callable[[], float]


def main(folder: Path) -> None:
    with ExitStack() as until_the_end:
        absent: dict[str, str] = {}
        timers = [_PreviewTimer(name, draw, time.process_time) for name, draw in _of_the_page(Core(folder)).items()]
        try:
            browser = until_the_end.enter_context(closing(Browser()))
            drawn = _of_a_browser(browser, sheet.load(folder, PIECES))
            timers += [_PreviewTimer(name, draw, browser.cpu_seconds) for name, draw in drawn.items()]
        except Absent as missing:
            absent["Chromium"] = str(missing)
        for place in range(PIECES):
            for timer in timers:
                timer.run(place)
    answer = {
        "milliseconds": {timer.name: round(statistics.median(timer.passed[_WARM_UP:]) * 1e3, 2) for timer in timers},
        "processor milliseconds": {
            timer.name: round(statistics.mean(timer.spent[_WARM_UP:]) * 1e3, 2) for timer in timers
        },
        "absent": absent,
    }
    print(json.dumps(answer))


@dataclass(frozen=True, slots=True)
class _PreviewTimer:
    """One contender and the seconds of each of its rounds."""

    name: str
    draw: Draw
    processor: Clock
    passed: list[float] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)

    def run(self, place: int) -> None:
        spent_before, started = self.processor(), time.perf_counter()
        self.draw(place)
        self.passed.append(time.perf_counter() - started)
        self.spent.append(self.processor() - spent_before)


def _of_the_page(core: Core) -> dict[str, Draw]:
    copies = core.copies(0, PIECES)
    files = [_cut_at_trim(core.batch([copy])) for copy in copies]
    all_in_one = pdfium.PdfDocument(_cut_at_trim(core.batch(copies)))
    pixels = [_render(pdfium.PdfDocument(file), 1).to_numpy().copy() for file in files]
    pictures = [Image.fromarray(drawn) for drawn in pixels]

    def open_and_render(place: int) -> None:
        with pdfium.PdfDocument(files[place]) as document:
            _render(document, 1)

    return {
        OURS: lambda i: core.preview_of_back(copies[i], DPI),
        BARE: open_and_render,
        OPEN_FILE: lambda i: _render(all_in_one, 2 * i + 1),
        OUR_PNG: lambda i: png_of(pixels[i], DPI),
        PILLOW: lambda i: pictures[i].save(io.BytesIO(), "PNG"),
        PILLOW_FAST: lambda i: pictures[i].save(io.BytesIO(), "PNG", compress_level=1),
    }


def _render(document: pdfium.PdfDocument, index: int) -> pdfium.PdfBitmap:
    page = document[index]
    try:
        return page.render(scale=DPI / 72, rev_byteorder=True)
    finally:
        page.close()


def _cut_at_trim(pdf: bytes) -> bytes:
    """The same file with its pages cut as a preview is."""
    with pikepdf.open(io.BytesIO(pdf)) as document:
        for page in document.pages:
            page.obj.CropBox = page.obj.TrimBox
        cut = io.BytesIO()
        document.save(cut)
        return cut.getvalue()


def _of_a_browser(browser: Browser, job: Sheet) -> dict[str, Draw]:
    pages = [job.folder / f"back-{place}.html" for place in range(PIECES)]
    backs = [markup.back(job, piece) for piece in job.pieces]
    for page, piece in zip(pages, job.pieces, strict=True):
        page.write_text(markup.back_alone(job, piece))
    browser.set_view(int(PAGE_WIDTH / _CSS_PIXEL), int(PAGE_HEIGHT / _CSS_PIXEL), DPI * _CSS_PIXEL / 72)

    def load_and_shoot(place: int) -> bytes:
        browser.open(pages[place])
        return _shot(browser)

    def replace_and_shoot(place: int) -> bytes:
        browser.replace_body(backs[place])
        return _shot(browser)

    return {LOADED: load_and_shoot, REPLACED: replace_and_shoot}


def _shot(browser: Browser) -> bytes:
    margin = BLEED / _CSS_PIXEL
    width, height = PAGE_WIDTH / _CSS_PIXEL - 2 * margin, PAGE_HEIGHT / _CSS_PIXEL - 2 * margin
    png = browser.screenshot(margin, margin, width, height)
    assert Image.open(io.BytesIO(png)).size == (900, 600)
    return png


if __name__ == "__main__":
    main(Path(sys.argv[1]))
