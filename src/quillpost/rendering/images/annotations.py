"""What a PDF holds beside its pages, made ink or left behind; pages drawn as pictures."""

import io
from collections.abc import Iterator

import pikepdf
import pypdfium2 as pdfium
from PIL import Image

from quillpost.rendering.geometry import INCH
from quillpost.rendering.images.pdf_objects import PdfObject
from quillpost.rendering.images.sheets import Sheet

_WITHOUT_INK = frozenset({"/Link", "/Popup"})


def left_behind(pdf: pikepdf.Pdf) -> list[str]:
    """Sentences on what will not be in the print."""
    notes = []
    root = pdf.Root
    names = root.get("/Names")
    has_scripts = isinstance(names, pikepdf.Dictionary) and "/JavaScript" in names
    opening: PdfObject = root.get("/OpenAction")
    acts = isinstance(opening, pikepdf.Dictionary) and opening.get("/S") != "/GoTo"
    if has_scripts or acts or "/AA" in root or any("/AA" in page for page in pdf.pages):
        notes.append("Scripts and actions in the PDF were left out.")
    has_files = isinstance(names, pikepdf.Dictionary) and "/EmbeddedFiles" in names
    if has_files or "/AF" in root or "/Collection" in root:
        notes.append("Files attached to the PDF were left out.")
    return notes


def flatten(pdf: pikepdf.Pdf) -> list[str]:
    """Draw form fields and printing comments into their pages; sentences on what was done."""
    kinds = [str(note.get("/Subtype")) for note in _annotations(pdf)]
    if not kinds:
        return []
    form: PdfObject = pdf.Root.get("/AcroForm")
    if isinstance(form, pikepdf.Dictionary) and bool(form.get("/NeedAppearances", False)):
        pdf.generate_appearance_streams()
        form["/NeedAppearances"] = False
    pdf.flatten_annotations("print")
    notes = []
    if "/Widget" in kinds:
        notes.append("Form fields were flattened: they print as they are filled in.")
    if any(kind != "/Widget" and kind not in _WITHOUT_INK for kind in kinds):
        notes.append("Comments were flattened: those that are meant for print are printed.")
    return notes


def hides_layers(pdf: pikepdf.Pdf) -> bool:
    """Whether some layer is switched off, or may be when it is printed."""
    properties = pdf.Root.get("/OCProperties")
    if not isinstance(properties, pikepdf.Dictionary):
        return False
    config = properties.get("/D")
    if not isinstance(config, pikepdf.Dictionary):
        return False
    hidden = config.get("/OFF")
    depends = config.get("/AS")
    return (
        config.get("/BaseState", pikepdf.Name.ON) != "/ON"
        or (isinstance(hidden, pikepdf.Array) and len(hidden) > 0)
        or (isinstance(depends, pikepdf.Array) and len(depends) > 0)
    )


def _annotations(pdf: pikepdf.Pdf) -> Iterator[pikepdf.Dictionary]:
    for page in pdf.pages:
        notes = page.obj.get("/Annots")
        for note in notes if isinstance(notes, pikepdf.Array) else ():
            if isinstance(note, pikepdf.Dictionary):
                yield note


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
