"""What a decoder process does with an untrusted file. Nothing else opens one."""

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from threading import Lock
from typing import Any

import numpy as np
import pikepdf
import pypdfium2 as pdfium
from PIL import Image, ImageOps

from quillpost.rendering.decoder.messages import MessageHead, pack_parts, unpack_parts
from quillpost.rendering.handwriting.sheet.models import PageReading, UnreadableSheet
from quillpost.rendering.handwriting.sheet.reader import read_page
from quillpost.rendering.handwriting.sheet.records import Record, page_to_record, signature_to_record
from quillpost.rendering.handwriting.sheet.signature import read_signature
from quillpost.rendering.images.models import CopiedPages, ObjectList, PrintablePages, PrintablePicture
from quillpost.rendering.images.objects import copy_page_forms
from quillpost.rendering.images.pdfs import count_pages, make_printable_pages
from quillpost.rendering.images.pictures import make_printable_picture, measure_tones
from quillpost.rendering.images.rules import (
    JPEG_SIGNATURE,
    MAX_FILE_BYTES,
    MAX_RASTER_PIXELS,
    PNG_SIGNATURE,
    UnprintableArt,
    describe_file_kind,
    format_megabytes,
    is_pdf,
)
from quillpost.rendering.models import INCH, Box
from quillpost.rendering.pdf.png import Pixels, drop_color_if_gray, encode_png, scratch_memory

_PDFIUM_LOCK = Lock()  # pdfium keeps global state and is not thread-safe
_SIZE_FACTOR = 1 - 1e-9  # pdfium rounds a picture's size up: a hair less keeps 1100.0000000000002 from becoming 1101
_BOX_TOLERANCE = 0.001  # boxes are read back with the precision with which they are written
_CHANNELS = 3


def rasterize_pages(
    pdf: bytes, *, dpi: float, pages: Sequence[int] | None = None, crops: Sequence[Box | None] | None = None
) -> list[bytes]:
    """Pages as PNG, cut at the trim box; `crops` are in points from the trim's corner, None for the whole."""
    with _PDFIUM_LOCK, pdfium.PdfDocument(pdf) as document:
        indexes = range(len(document)) if pages is None else pages
        page_crops = [None] * len(indexes) if crops is None else crops
        return [
            _page_png(document, index, dpi, page_crop) for index, page_crop in zip(indexes, page_crops, strict=True)
        ]


def _page_png(document: pdfium.PdfDocument, index: int, dpi: float, crop: Box | None) -> bytes:
    """One at a time: many bitmaps together would fill the memory."""
    with ExitStack() as buffers:
        return encode_png(drop_color_if_gray(_draw_page(document, index, dpi, crop, buffers)), dpi=dpi)


def _draw_page(document: pdfium.PdfDocument, index: int, dpi: float, crop: Box | None, buffers: ExitStack) -> Pixels:
    page = document[index]
    left, bottom, right, top = page.get_trimbox()
    if crop is not None:
        left, bottom = left + crop.left, bottom + crop.bottom
        right, top = left + crop.width, bottom + crop.height
    crop_box = (left, bottom, right, top)
    if any(abs(a - b) > _BOX_TOLERANCE for a, b in zip(page.get_cropbox(), crop_box, strict=True)):
        page.set_cropbox(left, bottom, right, top)
        page.close()  # a page learns its size when it is loaded
        page = document[index]

    def make_bitmap(width: int, height: int, **options: Any) -> pdfium.PdfBitmap:
        if width * height > MAX_RASTER_PIXELS:
            raise UnprintableArt(f"A picture of {width:,} x {height:,} pixels is too large to be drawn.")
        buffer = buffers.enter_context(scratch_memory(width * height * _CHANNELS))
        return pdfium.PdfBitmap.new_native(width, height, buffer=np.ctypeslib.as_ctypes(buffer), **options)

    bitmap = page.render(scale=dpi / INCH * _SIZE_FACTOR, rev_byteorder=True, bitmap_maker=make_bitmap)
    pixels: Pixels = bitmap.to_numpy()
    bitmap.close()
    page.close()
    return pixels


_SCAN_SIDE = 3_000  # pixels: pictures more than twice as long are made smaller
_SCAN_DPI = 250
_MAX_SCAN_PIXELS = 12_000_000
_MAX_SCAN_PAGES = 8


def decode_scans(data: bytes) -> list[Pixels]:
    """Uploaded photographs, or the pages of a scan, in gray; UnprintableArt with a sentence for the sender."""
    if len(data) > MAX_FILE_BYTES:
        raise UnprintableArt(f"This file is larger than {format_megabytes(MAX_FILE_BYTES)}. Upload a smaller one.")
    if data.startswith((JPEG_SIGNATURE, PNG_SIGNATURE)):
        return [_decode_photograph(data)]
    if is_pdf(data):
        return _draw_scanned_pages(data)
    raise UnprintableArt(f"Upload a JPEG or PNG picture, or a PDF. This file is {describe_file_kind(data)}.")


def _decode_photograph(data: bytes) -> Pixels:
    with Image.open(io.BytesIO(make_printable_picture(data).data), formats=("JPEG", "PNG")) as image:
        factor = max(1, max(image.size) // _SCAN_SIDE)
        image.draft("L", (image.width // factor, image.height // factor))  # a JPEG is decoded no larger than it takes
        gray = ImageOps.exif_transpose(image.convert("L"))
    return np.asarray(gray.reduce(max(1, max(gray.size) // _SCAN_SIDE)))


def _draw_scanned_pages(data: bytes) -> list[Pixels]:
    try:
        with _PDFIUM_LOCK, pdfium.PdfDocument(data) as document:
            if len(document) > _MAX_SCAN_PAGES:
                raise UnprintableArt(
                    f"This PDF has {len(document)} pages. Upload one with only the pages that you filled in."
                )
            return [_draw_gray_page(document[index]) for index in range(len(document))]
    except pdfium.PdfiumError as error:
        raise UnprintableArt("This PDF is damaged or needs a password. Save it again, and upload that.") from error


def _draw_gray_page(page: pdfium.PdfPage) -> Pixels:
    width, height = page.get_size()
    scale = min(_SCAN_DPI / INCH, math.sqrt(_MAX_SCAN_PIXELS / max(width * height, 1.0)))
    bitmap = page.render(scale=scale, grayscale=True)
    pixels: Pixels = bitmap.to_numpy().copy()
    bitmap.close()
    page.close()
    return pixels.reshape(pixels.shape[:2])


def sample_pictures() -> list[bytes]:
    rotated_exif = Image.Exif()
    rotated_exif[0x0112] = 6
    return [
        _make_picture("JPEG", "RGB"),
        _make_picture("JPEG", "RGB", exif=rotated_exif),
        _make_picture("JPEG", "CMYK"),
        _make_picture("PNG", "RGB"),
        _make_picture("PNG", "P"),
        _make_picture("PNG", "RGBA"),
        _make_picture("PNG", "I;16"),
        b"GIF89a",
    ]


def sample_pages() -> list[bytes]:
    """A page that passes, a page that must be redrawn, and no page at all."""
    return [
        _make_page(b"0 0 9 9 re f"),
        _make_page(b"0 0 9 9 re f", encryption=pikepdf.Encryption(owner="owner", user="", R=6)),
        _make_page(b"BT /F 9 Tf (a) Tj ET 0 0 0 1 k 0 0 9 9 re f"),
        b"%PDF-1.7 startxref",
    ]


def sample_print_file() -> bytes:
    with pikepdf.open(io.BytesIO(_make_page(b"0 0 9 9 re f"))) as pdf:
        with pdf.open_metadata() as metadata:
            metadata["dc:title"] = "A specimen"
        file = io.BytesIO()
        pdf.save(file)
        return file.getvalue()


def _make_picture(file_format: str, mode: str, **extras: Any) -> bytes:
    Image.init()  # all plugins: a picture may hold another within
    file = io.BytesIO()
    Image.new(mode, (8, 8)).save(file, file_format, **extras)
    return file.getvalue()


def _make_page(content: bytes, **extras: Any) -> bytes:
    with pikepdf.new() as pdf:
        page = pdf.add_blank_page(page_size=(612, 792)).obj
        page["/Contents"] = pdf.make_stream(content)
        font = pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
        page["/Resources"] = pikepdf.Dictionary(Font=pikepdf.Dictionary(F=font))
        file = io.BytesIO()
        pdf.save(file, **extras)
        return file.getvalue()


DecoderTask = Callable[[bytes, MessageHead], tuple[MessageHead, bytes]]


def _answer_printable(printable: PrintablePicture | PrintablePages) -> tuple[MessageHead, bytes]:
    return {"notes": printable.notes}, printable.data


def copy_pages_task(data: bytes, options: MessageHead) -> tuple[MessageHead, bytes]:
    objects = ObjectList(options["first"])
    forms = copy_page_forms(objects, data, default_spaces=options["default_spaces"].encode("latin-1"))
    copied = CopiedPages(objects.objects, tuple(forms))
    return {"forms": copied.forms}, pack_parts(copied.to_byte_strings())


def draw_pages_task(data: bytes, options: MessageHead) -> tuple[MessageHead, bytes]:
    crops = options["crops"]
    boxes = None if crops is None else [None if crop is None else Box(*crop) for crop in crops]
    return {}, pack_parts(rasterize_pages(data, dpi=options["dpi"], pages=options["pages"], crops=boxes))


def join_files_task(data: bytes, _options: MessageHead) -> tuple[MessageHead, bytes]:
    """The pages of several files in one; all else is as in the first."""
    first, *others = unpack_parts(data)
    output = io.BytesIO()
    with ExitStack() as open_files:  # all of them until the whole is written, which holds parts of each
        merged = open_files.enter_context(pikepdf.open(io.BytesIO(first)))
        for other in others:
            merged.pages.extend(open_files.enter_context(pikepdf.open(io.BytesIO(other))).pages)
        merged.save(output, deterministic_id=True)
    return {}, output.getvalue()


def read_sheet_task(data: bytes, _options: MessageHead) -> tuple[MessageHead, bytes]:
    """What each picture of the file shows, as JSON; a scan may hold all pages of the handwriting sheet."""
    return {}, _encode_records([page_to_record(_read_sheet_page(gray)) for gray in decode_scans(data)])


def _read_sheet_page(gray: Pixels) -> PageReading | UnreadableSheet:
    try:
        return read_page(gray)
    except UnreadableSheet as error:
        return error


def read_signature_task(data: bytes, _options: MessageHead) -> tuple[MessageHead, bytes]:
    """The outlines of a signature, as JSON; of a scan, the first page."""
    try:
        return {}, _encode_records([signature_to_record(read_signature(gray)) for gray in decode_scans(data)[:1]])
    except UnreadableSheet as error:
        return {}, _encode_records([page_to_record(error)])


def _encode_records(records: list[Record]) -> bytes:
    return json.dumps(records, separators=(",", ":")).encode()


DECODER_TASKS: Mapping[str, DecoderTask] = {
    "picture": lambda data, _: _answer_printable(make_printable_picture(data)),
    "pages": lambda data, _: _answer_printable(make_printable_pages(data)),
    "tones": lambda data, _: ({}, measure_tones(data)),
    "count": lambda data, _: ({"count": count_pages(data)}, b""),
    "copy": copy_pages_task,
    "draw": draw_pages_task,
    "join": join_files_task,
    "sheet": read_sheet_task,
    "signature": read_signature_task,
}


def preload_libraries() -> None:
    """Run everything once: a limited child can no longer load libraries."""
    for sample in sample_pictures():
        with suppress(UnprintableArt):
            measure_tones(make_printable_picture(sample).data)
            read_sheet_task(sample, {})
            read_signature_task(sample, {})
    for sample in sample_pages():
        with suppress(UnprintableArt):
            decode_scans(sample)
            pages = make_printable_pages(sample).data
            copy_pages_task(pages, {"first": 1, "default_spaces": ""})
            draw_pages_task(pages, {"dpi": 72, "pages": None, "crops": None})
    join_files_task(pack_parts([sample_print_file(), sample_print_file()]), {})
