"""Pictures of PDF pages. The preview is made from the very page that would print."""

import io
from threading import Lock

import pypdfium2 as pdfium

# pdfium keeps global state and is not thread-safe.
_PDFIUM = Lock()

# pdfium rounds a picture's size up: a hair less keeps 1100.0000000000002 from becoming 1101.
_HAIR = 1 - 1e-9


def rasterise(pdf: bytes, *, dpi: int) -> list[bytes]:
    """Every page as PNG at its finished size, cut at the trim box."""
    with _PDFIUM:
        document = pdfium.PdfDocument(pdf)
        try:
            return [_png_of(document, index, dpi) for index in range(len(document))]
        finally:
            document.close()


def _png_of(document: pdfium.PdfDocument, index: int, dpi: int) -> bytes:
    page = document[index]
    page.set_cropbox(*page.get_trimbox())
    page.close()  # a page learns its size when it is loaded
    picture = document[index].render(scale=dpi / 72 * _HAIR).to_pil().convert("RGB")
    png = io.BytesIO()
    picture.save(png, "PNG", compress_level=3)
    return png.getvalue()
