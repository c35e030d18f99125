"""PDFs as they come in, turned into letter pages that print as they are.

This reads a stranger's bytes: the service runs it in a limited process.
"""

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pikepdf
from pypdfium2 import PdfiumError

from quillpost.rendering.images.annotations import DPI, Redrawer, flatten, hides_layers, left_behind
from quillpost.rendering.images.copied_pages import ObjectList
from quillpost.rendering.images.forms import page_forms
from quillpost.rendering.images.inspection import Inspection
from quillpost.rendering.images.jpeg import read_jpeg_header
from quillpost.rendering.images.limits import (
    MOST_BYTES,
    MOST_CONTENT_BYTES,
    MOST_OBJECTS,
    MOST_PAGES,
    BadPdf,
    is_pdf,
    kind_of,
    megabytes,
)
from quillpost.rendering.images.models import PrintablePages
from quillpost.rendering.images.pdf_objects import PdfObject
from quillpost.rendering.images.resources import unpacked_drawing
from quillpost.rendering.images.sheets import SHEET, Sheet, read_sheet

_VERSION = "1.6"
_TAIL_BYTES = 2048
_LIMITS: dict[str, Any] = {
    "flate_max_memory": 300_000_000,
    "png_max_memory": 300_000_000,
    "tiff_max_memory": 300_000_000,
    "run_length_max_memory": 300_000_000,
    "dct_max_memory": 300_000_000,
    "parser_max_nesting": 100,
    "max_stream_filters": 5,
    "doc_max_warnings": 1_000,
}
_MOST_NOTES = 20
_DAMAGED = "The PDF is damaged or too complex to be read."


# What bindings raise when an object turns out to be of another kind than it claims.
_UNREADABLE = (
    pikepdf.PdfError,
    pikepdf.PikepdfError,
    PdfiumError,
    MemoryError,
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def printable_pages(data: bytes) -> PrintablePages:
    """The PDF's pages, each on a letter sheet, or BadPdf with a sentence for its sender."""
    _check_file(data)
    with _limited():
        printable = _printable(data)
        # What is kept must be fit to be composed.
        _composed(printable.data)
        return printable


def count_pages(printable: bytes) -> int:
    """How many pages there are in what claims to be made by `printable_pages`; BadPdf if it cannot be."""
    with _limited():
        return _composed(printable)


def _composed(printable: bytes) -> int:
    """The proof: a file that was composed once will be composed again. How many pages that were."""
    return len(page_forms(ObjectList(1), printable))


@contextmanager
def _limited() -> Iterator[None]:
    before: dict[str, Any] = pikepdf.settings.set_qpdf_limits(**_LIMITS)
    try:
        yield
    except _UNREADABLE as error:
        raise BadPdf(_DAMAGED) from error
    finally:
        pikepdf.settings.set_qpdf_limits(**before)


def _check_file(data: bytes) -> None:
    if len(data) > MOST_BYTES:
        raise BadPdf(f"The PDF is larger than {megabytes(MOST_BYTES)}.")
    if not data:
        raise BadPdf("The PDF is empty: there is not a single byte in it.")
    if not is_pdf(data):
        raise BadPdf(f"The file is no PDF: it is {kind_of(data)}.")
    if b"startxref" not in data[-_TAIL_BYTES:]:
        raise BadPdf("The PDF is incomplete: its end is missing.")
    if data.count(b"endobj") > MOST_OBJECTS:
        raise BadPdf(f"The PDF is too complex: it is made of more than {MOST_OBJECTS:,} objects.")


def _printable(data: bytes) -> PrintablePages:
    with _opened(data) as source:
        notes = [*_opening_notes(source), *left_behind(source), *flatten(source)]
        hides = hides_layers(source)
        sheets = [read_sheet(page, number) for number, page in enumerate(source.pages, 1)]
        pages: list[_Page] = []
        inspections: list[Inspection] = []
        for number, (page, sheet) in enumerate(zip(source.pages, sheets, strict=True), 1):
            form = _form_of(source, page, sheet, number)
            inspection = Inspection(number, hides, (sheet.seen.width, sheet.seen.height))
            inspection.page(form)
            inspections.append(inspection)
            pages.append(_Page(number, sheet, form, tuple(inspection.reasons)))
        for inspection in inspections:
            inspection.strip()
        notes += _page_notes(pages)
        pictures = _redrawn(data, pages)
        with pikepdf.new() as target:
            for each in pages:
                _add_page(target, each, pictures.get(each.number))
            return PrintablePages(_saved(target), len(pages), _shortened(notes))


@dataclass(frozen=True, slots=True)
class _Page:
    number: int
    sheet: Sheet
    form: pikepdf.Stream
    reasons: tuple[str, ...]

    @property
    def notes(self) -> Iterator[str]:
        if self.sheet.size_note is not None:
            yield self.sheet.size_note
        if self.reasons:
            yield f"redrawn as a picture of {DPI} dpi because of {', '.join(self.reasons)}"


@contextmanager
def _opened(data: bytes) -> Iterator[pikepdf.Pdf]:
    try:
        pdf = pikepdf.open(io.BytesIO(data))
    except pikepdf.PasswordError:
        raise BadPdf("The PDF needs a password to be opened: send it without one.") from None
    except pikepdf.PdfError as error:
        if "no pages" in str(error):
            raise BadPdf("The PDF has no pages.") from None
        raise
    with pdf:
        if not 1 <= len(pdf.pages) <= MOST_PAGES:
            raise BadPdf(f"The PDF has {len(pdf.pages)} pages; 1 to {MOST_PAGES} can be printed.")
        root: PdfObject = pdf.Root
        if root.get("/NeedsRendering") is True:
            raise BadPdf("The PDF is a dynamic XFA form, which is no fixed page: print it to a PDF first.")
        promised = root["/Pages"].get("/Count", 0)
        if promised != len(pdf.pages):
            raise BadPdf(f"The PDF is damaged: it promises {promised} pages and has {len(pdf.pages)}.")
        yield pdf


def _opening_notes(pdf: pikepdf.Pdf) -> Iterator[str]:
    if pdf.is_encrypted:
        yield "The PDF was protected against changes; it is printed as it is."
    if pdf.get_warnings():
        yield "The PDF was damaged and has been repaired: look at the proof before you print."


def _form_of(source: pikepdf.Pdf, page: pikepdf.Page, sheet: Sheet, number: int) -> pikepdf.Stream:
    """The page as a form that shows its visible part alone."""
    seen = sheet.seen
    form = source.make_stream(_content_of(page, number))
    form["/Type"], form["/Subtype"] = pikepdf.Name.XObject, pikepdf.Name.Form
    form["/BBox"] = pikepdf.Array([seen.left, seen.bottom, seen.right, seen.top])
    form["/Resources"] = page.obj.get("/Resources", pikepdf.Dictionary())
    if isinstance(page.obj.get("/Group"), pikepdf.Dictionary):
        form["/Group"] = page.obj["/Group"]
    return form


def _content_of(page: pikepdf.Page, number: int) -> bytes:
    contents = page.obj.get("/Contents")
    streams = list(contents) if isinstance(contents, pikepdf.Array) else [contents]
    parts, size = [], 0
    for stream in streams:
        if isinstance(stream, pikepdf.Stream):
            try:
                parts.append(unpacked_drawing(stream))
            except (pikepdf.PdfError, pikepdf.DataDecodingError) as error:
                raise BadPdf(
                    f"The drawing of page {number} of the PDF is damaged, or larger than"
                    f" {megabytes(MOST_CONTENT_BYTES)}. Make it simpler, or save the page as a picture."
                ) from error
            size += len(parts[-1])
        if size > MOST_CONTENT_BYTES:
            raise BadPdf(
                f"The drawing of page {number} of the PDF is larger than {megabytes(MOST_CONTENT_BYTES)}."
                " Make it simpler, or save the page as a picture."
            )
    return b"\n".join(parts)


def _redrawn(data: bytes, pages: list[_Page]) -> dict[int, bytes]:
    """Pictures of the pages that need one, by their number, drawn from the file as it came."""
    wanted = [page for page in pages if page.reasons]
    if not wanted:
        return {}
    with _opened(data) as source:
        flatten(source)
        with closing(Redrawer(source, [page.sheet for page in pages])) as redrawer:
            return {page.number: redrawer.draw(page.number - 1, page.sheet) for page in wanted}


def _add_page(target: pikepdf.Pdf, page: _Page, picture: bytes | None) -> None:
    if picture is None:
        drawn = target.copy_foreign(page.form)
        matrix = page.sheet.matrix
    else:
        drawn = _image(target, picture)
        placed = page.sheet.placed
        matrix = (placed.width, 0, 0, placed.height, placed.left, placed.bottom)
    added = target.add_blank_page(page_size=(SHEET.width, SHEET.height)).obj
    added["/MediaBox"] = added["/TrimBox"] = pikepdf.Array([0, 0, 612, 792])
    added["/Resources"] = pikepdf.Dictionary(XObject=pikepdf.Dictionary(P=drawn))
    added["/Contents"] = target.make_stream(b"q %.6f %.6f %.6f %.6f %.6f %.6f cm /P Do Q" % matrix)


def _image(target: pikepdf.Pdf, picture: bytes) -> pikepdf.Stream:
    head = read_jpeg_header(picture)
    image = target.make_stream(picture)
    image["/Type"], image["/Subtype"] = pikepdf.Name.XObject, pikepdf.Name.Image
    image["/Width"], image["/Height"], image["/BitsPerComponent"] = head.width, head.height, 8
    image["/ColorSpace"] = pikepdf.Name.DeviceGray if head.components == 1 else pikepdf.Name.DeviceRGB
    image["/Filter"] = pikepdf.Name.DCTDecode
    return image


def _saved(target: pikepdf.Pdf) -> bytes:
    file = io.BytesIO()
    target.save(
        file,
        force_version=_VERSION,
        object_stream_mode=pikepdf.ObjectStreamMode.generate,
        stream_decode_level=pikepdf.StreamDecodeLevel.generalized,
        deterministic_id=True,
    )
    return file.getvalue()


def _page_notes(pages: list[_Page]) -> list[str]:
    """Each note once, with the pages of which it is true."""
    numbers: dict[str, list[int]] = {}
    for page in pages:
        for note in page.notes:
            numbers.setdefault(note, []).append(page.number)
    return [f"{_pages(found)}: {note}." for note, found in numbers.items()]


def _pages(numbers: list[int]) -> str:
    """Such as "Page 2" or "Pages 1-3, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    listed = ", ".join("-".join(map(str, run)) for run in runs)
    return f"Page {listed}" if len(numbers) == 1 else f"Pages {listed}"


def _shortened(notes: list[str]) -> tuple[str, ...]:
    """A file of many faulty pages says so without drowning its reader."""
    if len(notes) <= _MOST_NOTES:
        return tuple(notes)
    return (*notes[:_MOST_NOTES], f"There are {len(notes) - _MOST_NOTES} more notes of this kind.")
