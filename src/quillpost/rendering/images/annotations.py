"""What a PDF holds beside its pages, made ink or left behind; pages drawn as pictures."""

import io
from collections.abc import Iterator

import pikepdf
import pypdfium2 as pdfium
from PIL import Image

from quillpost.rendering.geometry import INCH
from quillpost.rendering.images.pdf_objects import PdfObject
from quillpost.rendering.images.sheets import PagePlacement

_INKLESS_SUBTYPES = frozenset({"/Link", "/Popup"})


def left_out_notes(pdf: pikepdf.Pdf) -> list[str]:
    """Sentences on what will not be in the print."""
    notes = []
    root = pdf.Root
    names = root.get("/Names")
    has_scripts = isinstance(names, pikepdf.Dictionary) and "/JavaScript" in names
    open_action: PdfObject = root.get("/OpenAction")
    has_action = isinstance(open_action, pikepdf.Dictionary) and open_action.get("/S") != "/GoTo"
    if has_scripts or has_action or "/AA" in root or any("/AA" in page for page in pdf.pages):
        notes.append("Scripts and actions in the PDF were left out.")
    has_files = isinstance(names, pikepdf.Dictionary) and "/EmbeddedFiles" in names
    if has_files or "/AF" in root or "/Collection" in root:
        notes.append("Files attached to the PDF were left out.")
    return notes


def flatten_annotations(pdf: pikepdf.Pdf) -> list[str]:
    """Draw form fields and printing comments into their pages; sentences on what was done."""
    kinds = [str(annotation.get("/Subtype")) for annotation in _iter_annotations(pdf)]
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
    if any(kind != "/Widget" and kind not in _INKLESS_SUBTYPES for kind in kinds):
        notes.append("Comments were flattened: those that are meant for print are printed.")
    return notes


def has_hidden_layers(pdf: pikepdf.Pdf) -> bool:
    """Whether some layer is switched off, or may be when it is printed."""
    properties = pdf.Root.get("/OCProperties")
    if not isinstance(properties, pikepdf.Dictionary):
        return False
    config = properties.get("/D")
    if not isinstance(config, pikepdf.Dictionary):
        return False
    layers_off = config.get("/OFF")
    automatic_states = config.get("/AS")
    return (
        config.get("/BaseState", pikepdf.Name.ON) != "/ON"
        or (isinstance(layers_off, pikepdf.Array) and len(layers_off) > 0)
        or (isinstance(automatic_states, pikepdf.Array) and len(automatic_states) > 0)
    )


def _iter_annotations(pdf: pikepdf.Pdf) -> Iterator[pikepdf.Dictionary]:
    for page in pdf.pages:
        annotations = page.obj.get("/Annots")
        for annotation in annotations if isinstance(annotations, pikepdf.Array) else ():
            if isinstance(annotation, pikepdf.Dictionary):
                yield annotation


REDRAW_DPI = 300
_JPEG_QUALITY = 92


class PageRedrawer:
    """Draws pages of one PDF. It must be closed; pdfium is not thread-safe, so use one at a time."""

    def __init__(self, source: pikepdf.Pdf, placements: list[PagePlacement]) -> None:
        """`source` has no annotations any more and may be changed; `placements` are all its pages."""
        for page, placement in zip(source.pages, placements, strict=True):
            visible_box = placement.visible_box
            page.obj["/MediaBox"] = pikepdf.Array(
                [visible_box.left, visible_box.bottom, visible_box.right, visible_box.top]
            )
            page.obj["/Rotate"] = placement.rotation
            for name in ("/CropBox", "/TrimBox", "/BleedBox", "/ArtBox", "/UserUnit", "/Annots"):
                if name in page.obj:
                    del page.obj[name]
        file = io.BytesIO()
        source.save(file, compress_streams=False, stream_decode_level=pikepdf.StreamDecodeLevel.none)
        self._document = pdfium.PdfDocument(file.getvalue())

    def close(self) -> None:
        self._document.close()

    def draw(self, index: int, placement: PagePlacement) -> bytes:
        """The page as a JPEG file, gray if it has no color."""
        page = self._document[index]
        scale = placement.placed_box.width / page.get_width() * REDRAW_DPI / INCH
        bitmap = page.render(scale=scale, draw_annots=False, may_draw_forms=False, optimize_mode="print")
        picture = bitmap.to_pil().convert("RGB")
        page.close()
        red, green, blue = picture.split()
        if red.tobytes() == green.tobytes() == blue.tobytes():
            picture = red
        return _encode_jpeg(picture)


def _encode_jpeg(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=_JPEG_QUALITY, subsampling=0, dpi=(REDRAW_DPI, REDRAW_DPI))
    return file.getvalue()
