"""Uploaded PDFs turned into letter pages that print as they are. Runs only in a sandboxed process."""

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pikepdf
from pypdfium2 import PdfiumError

from quillpost.rendering.images import rules
from quillpost.rendering.images.files import read_jpeg_header
from quillpost.rendering.images.inspection import PageInspection
from quillpost.rendering.images.models import ObjectList, PrintablePages
from quillpost.rendering.images.objects import PdfObject, copy_page_forms, unpack_content
from quillpost.rendering.images.pages import (
    LETTER_SHEET,
    REDRAW_DPI,
    PagePlacement,
    PageRedrawer,
    flatten_annotations,
    has_hidden_layers,
    left_out_notes,
    place_page,
)
from quillpost.rendering.images.rules import UnprintablePdf

_TAIL_BYTES = 2048
_QPDF_LIMITS: dict[str, Any] = {
    **{f"{kind}_max_memory": 300_000_000 for kind in ("flate", "png", "tiff", "run_length", "dct")},
    "parser_max_nesting": 100,
    "max_stream_filters": 5,
    "doc_max_warnings": 1_000,
}
_MAX_NOTES = 20

# What bindings raise when an object turns out to be of another kind than it claims.
_LIBRARY_ERRORS = (pikepdf.PdfError, pikepdf.PikepdfError, PdfiumError)
_PYTHON_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def make_printable_pages(data: bytes) -> PrintablePages:
    """The PDF's pages, each on a letter sheet, or UnprintablePdf with a sentence for the sender."""
    _check_file(data)
    with _qpdf_limits():
        printable = _make_printable(data)
        copy_page_forms(ObjectList(1), printable.data)  # what was copied once can be copied again, when it is composed
        return printable


def count_pages(printable: bytes) -> int:
    """Pages of what `make_printable_pages` made; UnprintablePdf if it cannot be composed."""
    with _qpdf_limits():
        return len(copy_page_forms(ObjectList(1), printable))


@contextmanager
def _qpdf_limits() -> Iterator[None]:
    previous_limits: dict[str, Any] = pikepdf.settings.set_qpdf_limits(**_QPDF_LIMITS)
    try:
        yield
    except (*_LIBRARY_ERRORS, *_PYTHON_ERRORS) as error:
        raise UnprintablePdf("The PDF is damaged or too complex to be read.") from error
    finally:
        pikepdf.settings.set_qpdf_limits(**previous_limits)


def _check_file(data: bytes) -> None:
    if len(data) > rules.MAX_FILE_BYTES:
        raise UnprintablePdf(f"The PDF is larger than {rules.format_megabytes(rules.MAX_FILE_BYTES)}.")
    if not data:
        raise UnprintablePdf("The PDF is empty: there is not a single byte in it.")
    if not rules.is_pdf(data):
        raise UnprintablePdf(f"The file is no PDF: it is {rules.describe_file_kind(data)}.")
    if b"startxref" not in data[-_TAIL_BYTES:]:
        raise UnprintablePdf("The PDF is incomplete: its end is missing.")
    if data.count(b"endobj") > rules.MAX_PDF_OBJECTS:
        raise UnprintablePdf(f"The PDF is too complex: it is made of more than {rules.MAX_PDF_OBJECTS:,} objects.")


def _make_printable(data: bytes) -> PrintablePages:
    with _open_pdf(data) as source:
        notes = [*_opening_notes(source), *left_out_notes(source), *flatten_annotations(source)]
        has_hidden = has_hidden_layers(source)
        placements = [place_page(page, number) for number, page in enumerate(source.pages, 1)]
        pages: list[_InspectedPage] = []
        inspections: list[PageInspection] = []
        for number, (page, placement) in enumerate(zip(source.pages, placements, strict=True), 1):
            form = _page_form(source, page, placement, number)
            inspection = PageInspection(number, has_hidden, (placement.visible_box.width, placement.visible_box.height))
            inspection.inspect_page(form)
            inspections.append(inspection)
            pages.append(_InspectedPage(number, placement, form, tuple(inspection.redraw_reasons)))
        for inspection in inspections:
            inspection.strip_entries()
        notes += _page_notes(pages)
        pictures = _redraw_pages(data, pages)
        with pikepdf.new() as target:
            for inspected_page in pages:
                _add_page(target, inspected_page, pictures.get(inspected_page.number))
            return PrintablePages(_save(target), len(pages), _shorten_notes(notes))


@dataclass(frozen=True, slots=True)
class _InspectedPage:
    number: int
    placement: PagePlacement
    form: pikepdf.Stream
    redraw_reasons: tuple[str, ...]

    @property
    def notes(self) -> Iterator[str]:
        if self.placement.size_note is not None:
            yield self.placement.size_note
        if self.redraw_reasons:
            yield f"redrawn as a picture of {REDRAW_DPI} dpi because of {', '.join(self.redraw_reasons)}"


@contextmanager
def _open_pdf(data: bytes) -> Iterator[pikepdf.Pdf]:
    try:
        pdf = pikepdf.open(io.BytesIO(data))
    except pikepdf.PasswordError:
        raise UnprintablePdf("The PDF needs a password to be opened: send it without one.") from None
    except pikepdf.PdfError as error:
        if "no pages" in str(error):
            raise UnprintablePdf("The PDF has no pages.") from None
        raise
    with pdf:
        if not 1 <= len(pdf.pages) <= rules.MAX_PAGES:
            raise UnprintablePdf(f"The PDF has {len(pdf.pages)} pages; 1 to {rules.MAX_PAGES} can be printed.")
        root: PdfObject = pdf.Root
        if root.get("/NeedsRendering") is True:
            raise UnprintablePdf("The PDF is a dynamic XFA form, which is no fixed page: print it to a PDF first.")
        declared_count = root["/Pages"].get("/Count", 0)
        if declared_count != len(pdf.pages):
            raise UnprintablePdf(f"The PDF is damaged: it promises {declared_count} pages and has {len(pdf.pages)}.")
        yield pdf


def _opening_notes(pdf: pikepdf.Pdf) -> Iterator[str]:
    if pdf.is_encrypted:
        yield "The PDF was protected against changes; it is printed as it is."
    if pdf.get_warnings():
        yield "The PDF was damaged and has been repaired: look at the proof before you print."


def _page_form(source: pikepdf.Pdf, page: pikepdf.Page, placement: PagePlacement, number: int) -> pikepdf.Stream:
    visible_box = placement.visible_box
    form = source.make_stream(_page_content(page, number))
    form["/Type"], form["/Subtype"] = pikepdf.Name.XObject, pikepdf.Name.Form
    form["/BBox"] = pikepdf.Array([visible_box.left, visible_box.bottom, visible_box.right, visible_box.top])
    form["/Resources"] = page.obj.get("/Resources", pikepdf.Dictionary())
    if isinstance(page.obj.get("/Group"), pikepdf.Dictionary):
        form["/Group"] = page.obj["/Group"]
    return form


def _page_content(page: pikepdf.Page, number: int) -> bytes:
    contents = page.obj.get("/Contents")
    streams = list(contents) if isinstance(contents, pikepdf.Array) else [contents]
    limit = rules.format_megabytes(rules.MAX_CONTENT_BYTES)
    parts, size = [], 0
    for stream in streams:
        if isinstance(stream, pikepdf.Stream):
            try:
                parts.append(unpack_content(stream))
            except (pikepdf.PdfError, pikepdf.DataDecodingError) as error:
                raise UnprintablePdf(
                    f"The drawing of page {number} of the PDF is damaged, or larger than"
                    f" {limit}. Make it simpler, or save the page as a picture."
                ) from error
            size += len(parts[-1])
        if size > rules.MAX_CONTENT_BYTES:
            raise UnprintablePdf(
                f"The drawing of page {number} of the PDF is larger than {limit}."
                " Make it simpler, or save the page as a picture."
            )
    return b"\n".join(parts)


def _redraw_pages(data: bytes, pages: list[_InspectedPage]) -> dict[int, bytes]:
    """JPEG files of the pages that need it, by page number, drawn from the original file."""
    pages_to_redraw = [page for page in pages if page.redraw_reasons]
    if not pages_to_redraw:
        return {}
    with _open_pdf(data) as source:
        flatten_annotations(source)
        with closing(PageRedrawer(source, [page.placement for page in pages])) as redrawer:
            return {page.number: redrawer.draw(page.number - 1, page.placement) for page in pages_to_redraw}


def _add_page(target: pikepdf.Pdf, page: _InspectedPage, picture: bytes | None) -> None:
    if picture is None:
        xobject = target.copy_foreign(page.form)
        matrix = page.placement.matrix
    else:
        xobject = _make_image(target, picture)
        placed_box = page.placement.placed_box
        matrix = (placed_box.width, 0, 0, placed_box.height, placed_box.left, placed_box.bottom)
    page_object = target.add_blank_page(page_size=(LETTER_SHEET.width, LETTER_SHEET.height)).obj
    page_object["/MediaBox"] = page_object["/TrimBox"] = pikepdf.Array([0, 0, 612, 792])
    page_object["/Resources"] = pikepdf.Dictionary(XObject=pikepdf.Dictionary(P=xobject))
    page_object["/Contents"] = target.make_stream(b"q %.6f %.6f %.6f %.6f %.6f %.6f cm /P Do Q" % matrix)


def _make_image(target: pikepdf.Pdf, picture: bytes) -> pikepdf.Stream:
    head = read_jpeg_header(picture)
    image = target.make_stream(picture)
    image["/Type"], image["/Subtype"] = pikepdf.Name.XObject, pikepdf.Name.Image
    image["/Width"], image["/Height"], image["/BitsPerComponent"] = head.width, head.height, 8
    image["/ColorSpace"] = pikepdf.Name.DeviceGray if head.components == 1 else pikepdf.Name.DeviceRGB
    image["/Filter"] = pikepdf.Name.DCTDecode
    return image


def _save(target: pikepdf.Pdf) -> bytes:
    file = io.BytesIO()
    target.save(
        file,
        force_version="1.6",
        object_stream_mode=pikepdf.ObjectStreamMode.generate,
        stream_decode_level=pikepdf.StreamDecodeLevel.generalized,
        deterministic_id=True,
    )
    return file.getvalue()


def _page_notes(pages: list[_InspectedPage]) -> list[str]:
    """Each note once, with its pages."""
    numbers: dict[str, list[int]] = {}
    for page in pages:
        for note in page.notes:
            numbers.setdefault(note, []).append(page.number)
    return [f"{_page_list(page_numbers)}: {note}." for note, page_numbers in numbers.items()]


def _page_list(numbers: list[int]) -> str:
    """Such as "Page 2" or "Pages 1-3, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    ranges = ", ".join("-".join(map(str, run)) for run in runs)
    return f"Page {ranges}" if len(numbers) == 1 else f"Pages {ranges}"


def _shorten_notes(notes: list[str]) -> tuple[str, ...]:
    if len(notes) <= _MAX_NOTES:
        return tuple(notes)
    return (*notes[:_MAX_NOTES], f"There are {len(notes) - _MAX_NOTES} more notes of this kind.")
