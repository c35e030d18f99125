"""Prepares the folder that all contenders share: photo, fonts, and the layout read back from our own pages.

Run as a program in a process of its own: `python -m benchmarks.compose.groundwork FOLDER PIECES`.
"""

import ctypes
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from math import atan2, hypot
from pathlib import Path

import pypdfium2 as pdfium
import pypdfium2.raw as raw
from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

from benchmarks.compose import ours, sheet
from benchmarks.compose.recipients import draw_photo, recipient
from benchmarks.compose.sheet import BLEED, Piece, Rectangle, Run, Sheet

# The feet and the tops of the bars, in thirds of a full one.
_SPANS = {"T": (1, 2), "A": (1, 3), "D": (0, 2), "F": (0, 3)}
_LINE = 0.5

_SHOWN = 512


def main(folder: Path, count: int) -> None:
    draw_photo(sheet.photo_in(folder))
    _save_fonts(folder)
    core = ours.Core(folder)
    read_sheet(core.batch(core.copies(0, count)), folder).save()


def read_sheet(pdf: bytes, folder: Path) -> Sheet:
    """The words of our own backs at their places; what all of them say in print is shared."""
    document = pdfium.PdfDocument(pdf)
    backs = [_lettering(document[index]) for index in range(1, len(document), 2)]
    document.close()
    in_common = set(backs[0].printed).intersection(*(back.printed for back in backs))
    places = ours.places_of_marks()
    return Sheet(
        folder,
        shared=[run for run in backs[0].printed if run in in_common],
        frame=_on_page(places.frame),
        divider=(*_on_page(places.divider)[:2], _LINE, places.divider.height),
        pieces=[
            Piece(
                words=back.written,
                address=[run for run in back.printed if run not in in_common],
                dark=[*_bars(number, places.barcode), *_modules(number, places.qr)],
            )
            for number, back in enumerate(backs)
        ],
    )


@dataclass(frozen=True, slots=True)
class _Lettering:
    """A back's texts in the hand, and in the plain face."""

    written: list[Run]
    printed: list[Run]


def _lettering(page: pdfium.PdfPage) -> _Lettering:
    texts = list(_texts(page))
    return _Lettering(
        written=[run for face, run in texts if face == ours.HAND_FACE],
        printed=[run for face, run in texts if face == ours.PLAIN_FACE],
    )


def _texts(page: pdfium.PdfPage) -> Iterator[tuple[str, Run]]:
    """Each text on the page with the name of its face."""
    letters = page.get_textpage()
    for item in page.get_objects(filter=[raw.FPDF_PAGEOBJ_TEXT]):
        buffer = ctypes.create_string_buffer(_SHOWN)
        used = raw.FPDFTextObj_GetText(item.raw, letters.raw, _as_wide(buffer), _SHOWN)
        text = buffer.raw[: max(used - 2, 0)].decode("utf-16-le").strip()
        if text:
            yield _face_of(item), _placed(item, text)


def _as_wide(buffer: "ctypes.Array[ctypes.c_char]") -> object:
    return ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR))


def _placed(item: pdfium.PdfObject, text: str) -> Run:
    size = ctypes.c_float()
    raw.FPDFTextObj_GetFontSize(item.raw, size)
    a, b, _, _, left, baseline = item.get_matrix().get()
    return Run(text, round(left, 2), round(baseline, 2), round(size.value * hypot(a, b), 2), round(atan2(b, a), 4))


def _face_of(item: pdfium.PdfObject) -> str:
    name = ctypes.create_string_buffer(_SHOWN)
    raw.FPDFFont_GetBaseFontName(raw.FPDFTextObj_GetFont(item.raw), name, _SHOWN)
    return name.value.decode().rpartition("+")[2].partition("-")[0]


def _on_page(box: ours.Box) -> Rectangle:
    """From the trim's corner to the page's."""
    return round(box.left + BLEED, 2), round(box.bottom + BLEED, 2), round(box.width, 2), round(box.height, 2)


def _bars(number: int, box: ours.Box) -> Iterator[Rectangle]:
    left, bottom, _, height = _on_page(box)
    third = height / 3
    for place, letter in enumerate(ours.bars_of(recipient(number))):
        foot, top = _SPANS[letter]
        low, tall = round(bottom + foot * third, 2), round((top - foot) * third, 2)
        yield round(left + place * ours.BAR_PITCH, 2), low, ours.BAR_WIDTH, tall


def _modules(number: int, box: ours.Box) -> Iterator[Rectangle]:
    """Dark modules, those side by side as one rectangle."""
    left, bottom, side, _ = _on_page(box)
    rows = ours.qr_rows(recipient(number))
    module = side / len(rows)
    for place, row in enumerate(rows):
        low = round(bottom + side - (place + 1) * module, 2)
        start = 0
        for stretch in bytes(row).split(b"\0"):
            if stretch:
                yield round(left + start * module, 2), low, round(len(stretch) * module, 2), round(module, 2)
            start += len(stretch) + 1


def _save_fonts(folder: Path) -> None:
    hand = resources.files("fontpkg_zeyada") / "files" / "Zeyada.ttf"
    sheet.hand_in(folder).write_bytes(hand.read_bytes())
    plain = resources.files("fontpkg_source_sans_3") / "files" / "SourceSans3[wght].ttf"
    font = TTFont(io.BytesIO(plain.read_bytes()))
    letters = subset.Subsetter(subset.Options(layout_features=[], hinting=False))
    letters.populate(unicodes=range(0x20, 0x100))
    letters.subset(font)
    instancer.instantiateVariableFont(font, {"wght": 400}).save(sheet.plain_in(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
