"""The sheet as a PDF to print at home."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Protocol

from quillpost.rendering.handwriting.sheet import layout
from quillpost.rendering.handwriting.sheet.layout import BoxKind, Point, SheetBox, SheetPage
from quillpost.rendering.models import Box

_MARK_INK = b"0 g"
_TEXT_INK = b".25 g"
_LABEL_INK = b".42 g"
# Pale enough to be told from any ink, and still there when a printer has only black.
_FRAME_INK = b".80 .89 .96 RG"
_BASELINE_INK = b".62 .79 .92 RG"
_X_HEIGHT_INK = b".72 .85 .95 RG"

_TITLE_SIZE, _TEXT_SIZE, _LABEL_SIZE = 16.0, 9.0, 6.5
_TEXT_LEFT = 84.0
_TITLE_BASELINE = 743.0
_LINE_HEIGHT = 11.5
_LABEL_RISE = 1.9  # from the top of a box to its label

_TITLES = {1: "Your handwriting: letters", 2: "Your handwriting: numbers, signs, words and signature"}
_INSTRUCTIONS = (
    "Use a black or dark blue pen. Write as you usually do: don't draw the letters.",
    "In each box, write what is printed above it, on the solid line. Letters like x reach up to the dashed line.",
    "Made a mistake? Leave the box as it is. You choose later which letters we use.",
)
_PICTURE_ADVICE = (
    "Then lay the page flat in even light. Scan it, or take its picture from above with all four corner marks visible."
)


class PageWriter(Protocol):
    """A PDF file: `PdfFile`, which lies above this package."""

    def add(self, body: bytes) -> int: ...

    def add_stream(self, data: bytes, entries: bytes = b"") -> int: ...

    def add_page(self, entries: bytes, contents: Sequence[int]) -> int: ...

    def finish(self) -> bytes: ...


def make_sheet_pdf(file: PageWriter) -> bytes:
    """All pages of the sheet, on US Letter."""
    add_sheet_pages(file, {})
    return file.finish()


def add_sheet_pages(file: PageWriter, writing: dict[int, bytes]) -> None:
    """`writing` is drawn over the page of that number."""
    # Every viewer and printer has this font, and nothing here depends on its exact shapes.
    font = file.add(b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>")
    size = b"[0 0 %d %d]" % (layout.PAGE_WIDTH, layout.PAGE_HEIGHT)
    entries = b"/MediaBox%b/TrimBox%b/Resources<</Font<</F %d 0 R>>>>" % (size, size, font)
    for page in layout.sheet_pages():
        content = b"\n".join(_draw_page(page)) + b"\n" + writing.get(page.number, b"")
        file.add_page(entries, [file.add_stream(content)])


def _draw_page(page: SheetPage) -> Iterator[bytes]:
    yield from _draw_header(page)
    for box in page.boxes:
        yield from _draw_box(box)
    yield _MARK_INK
    yield from chain.from_iterable(map(_draw_mark, layout.MARK_CENTERS))
    yield from map(_fill_box, _edge_blocks())
    yield from (_fill_square(tick, layout.TICK_SIDE) for tick in page.ticks)
    bits = layout.encode_page(layout.SHEET_VERSION, page.number)
    for is_dark, center in zip(bits, layout.code_centers(), strict=True):
        if is_dark:
            yield _fill_square(center, layout.CODE_SQUARE)


def _draw_header(page: SheetPage) -> Iterator[bytes]:
    yield _TEXT_INK
    yield _draw_text(_TITLES[page.number], _TEXT_LEFT, _TITLE_BASELINE, _TITLE_SIZE)
    for row, line in enumerate((*_INSTRUCTIONS, _PICTURE_ADVICE)):
        yield _draw_text(line, _TEXT_LEFT, _TITLE_BASELINE - 15.0 - row * _LINE_HEIGHT, _TEXT_SIZE)
    count = len(layout.sheet_pages())
    right = layout.code_centers()[-1][0] + 4 * layout.CODE_SQUARE
    yield _draw_text(f"Page {page.number} of {count}", right, layout.MARK_INSET - 3, _TEXT_SIZE)


def _draw_box(box: SheetBox) -> Iterator[bytes]:
    area = box.box
    yield b"%b .6 w %.2f %.2f %.2f %.2f re S" % (_FRAME_INK, area.left, area.bottom, area.width, area.height)
    yield b"%b .7 w" % _BASELINE_INK + _line(area, box.baseline)
    if box.kind is not BoxKind.SIGNATURE:
        yield b"%b .6 w [2 2] 0 d" % _X_HEIGHT_INK + _line(area, box.baseline + layout.X_HEIGHT) + b" [] 0 d"
    yield _LABEL_INK
    yield _draw_text(box.label, area.left + 1, area.top + _LABEL_RISE, _LABEL_SIZE)


def _line(area: Box, height: float) -> bytes:
    return b" %.2f %.2f m %.2f %.2f l S" % (area.left, height, area.right, height)


def _draw_mark(center: Point) -> Iterator[bytes]:
    for modules, ink in ((7, _MARK_INK), (5, b"1 g"), (3, _MARK_INK)):
        yield ink
        yield _fill_square(center, modules * layout.MARK_MODULE)


def _edge_blocks() -> Iterator[Box]:
    for index, has_blocks in enumerate(layout.EDGE_BLOCKS):
        start = layout.MARK_CENTERS[index]
        end = layout.MARK_CENTERS[(index + 1) % len(layout.MARK_CENTERS)]
        for (x, y), (other_x, other_y), has_block in ((start, end, has_blocks[0]), (end, start, has_blocks[1])):
            if has_block:
                share = layout.BLOCK_DISTANCE / (abs(other_x - x) + abs(other_y - y))
                center = (x + share * (other_x - x), y + share * (other_y - y))
                yield _square(center, layout.BLOCK_SIDE)


def _square(center: Point, side: float) -> Box:
    return Box(center[0] - side / 2, center[1] - side / 2, side, side)


def _fill_square(center: Point, side: float) -> bytes:
    return _fill_box(_square(center, side))


def _fill_box(box: Box) -> bytes:
    return b"%.2f %.2f %.2f %.2f re f" % (box.left, box.bottom, box.width, box.height)


def _draw_text(text: str, left: float, bottom: float, size: float) -> bytes:
    escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)").encode("cp1252")
    return b"BT /F %.1f Tf %.2f %.2f Td (%b) Tj ET" % (size, left, bottom, escaped)
