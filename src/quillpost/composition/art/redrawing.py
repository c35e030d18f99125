"""Pages that cannot print as they are, drawn as pictures."""

import io

import pikepdf
import pypdfium2 as pdfium
from PIL import Image

from quillpost.composition.art.sheets import Sheet
from quillpost.composition.geometry import INCH

DPI = 300
_QUALITY = 92


class Redrawer:
    """Draws pages of one PDF. It must be closed; pdfium is not thread-safe, so use one at a time."""

    def __init__(self, source: pikepdf.Pdf, sheets: list[Sheet]) -> None:
        """`source` has no annotations any more and may be changed; `sheets` are all its pages."""
        for page, sheet in zip(source.pages, sheets, strict=True):
            seen = sheet.seen
            page.obj["/MediaBox"] = pikepdf.Array([seen.left, seen.bottom, seen.right, seen.top])
            page.obj["/Rotate"] = sheet.turn
            for name in ("/CropBox", "/TrimBox", "/BleedBox", "/ArtBox", "/UserUnit", "/Annots"):
                if name in page.obj:
                    del page.obj[name]
        file = io.BytesIO()
        source.save(file, compress_streams=False, stream_decode_level=pikepdf.StreamDecodeLevel.none)
        self._document = pdfium.PdfDocument(file.getvalue())

    def close(self) -> None:
        self._document.close()

    def draw(self, index: int, sheet: Sheet) -> bytes:
        """The page as a JPEG file, grey if it has no colour."""
        page = self._document[index]
        scale = sheet.placed.width / page.get_width() * DPI / INCH
        bitmap = page.render(scale=scale, draw_annots=False, may_draw_forms=False, optimize_mode="print")
        picture = bitmap.to_pil().convert("RGB")
        page.close()
        red, green, blue = picture.split()
        if red.tobytes() == green.tobytes() == blue.tobytes():
            picture = red
        return _jpeg(picture)


def _jpeg(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=_QUALITY, subsampling=0, dpi=(DPI, DPI))
    return file.getvalue()
