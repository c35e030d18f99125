"""Pages of an uploaded PDF: their place on a letter sheet, annotations, and redrawing as images."""

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass

import pikepdf
import pypdfium2 as pdfium

from quillpost.rendering.images.objects import PdfObject
from quillpost.rendering.images.rules import UnprintablePdf
from quillpost.rendering.models import INCH, Box

LETTER_SHEET = Box(0, 0, 8.5 * INCH, 11 * INCH)

# Programs round 8.5 x 11 in to whole points, millimeters or pixels.
_SIZE_TOLERANCE = 3.0
_MAX_SIDE = 200 * INCH
_MIN_SIDE = 1.0

Matrix = tuple[float, float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class PagePlacement:
    """`visible_box` is in the page's own units, before rotation; `width` and `height` are as seen, in points."""

    visible_box: Box
    page_rotation: int
    rotation: int
    width: float
    height: float
    placed_box: Box

    @property
    def is_letter(self) -> bool:
        return self.rotation == self.page_rotation and _is_letter_size(self.width, self.height)

    @property
    def matrix(self) -> Matrix:
        """From the page's own units to the sheet."""
        across, up = self.visible_box.width, self.visible_box.height
        a, b, c, d, e, f = {
            0: (1.0, 0.0, 0.0, 1.0, 0.0, 0.0),
            90: (0.0, -1.0, 1.0, 0.0, 0.0, across),
            180: (-1.0, 0.0, 0.0, -1.0, across, up),
            270: (0.0, 1.0, -1.0, 0.0, up, 0.0),
        }[self.rotation]
        scale = self.placed_box.width / (across if self.rotation % 180 == 0 else up)
        left, bottom = self.visible_box.left, self.visible_box.bottom
        x = (e - a * left - c * bottom) * scale + self.placed_box.left
        y = (f - b * left - d * bottom) * scale + self.placed_box.bottom
        return a * scale, b * scale, c * scale, d * scale, x, y

    @property
    def size_note(self) -> str | None:
        if self.is_letter:
            return None
        size = f"{round(self.width / INCH, 2):g} x {round(self.height / INCH, 2):g} in"
        if _is_letter_size(self.height, self.width):
            return f"{size}, turned to lie along the sheet"
        turned_text = "turned and " if self.rotation != self.page_rotation else ""
        return f"{size}, {turned_text}scaled to fit 8.5 x 11 in"


def place_page(page: pikepdf.Page, number: int) -> PagePlacement:
    """Raises UnprintablePdf when the page has no sensible size."""
    visible_box = _visible_box(page, number)
    page_rotation = _read_rotation(page)
    unit = _read_user_unit(page)
    across, up = (
        (visible_box.width, visible_box.height) if page_rotation % 180 == 0 else (visible_box.height, visible_box.width)
    )
    width, height = across * unit, up * unit
    if not (min(width, height) >= _MIN_SIDE and max(width, height) <= _MAX_SIDE):
        raise UnprintablePdf(f"Page {number} of the PDF has no size that can be printed.")
    # A page that lies on its side is printed along the sheet.
    is_landscape = width > height
    rotation = (page_rotation + 270) % 360 if is_landscape else page_rotation
    across, up = (height, width) if is_landscape else (width, height)
    scale = 1.0 if _is_letter_size(across, up) else min(LETTER_SHEET.width / across, LETTER_SHEET.height / up)
    across, up = across * scale, up * scale
    placed_box = Box((LETTER_SHEET.width - across) / 2, (LETTER_SHEET.height - up) / 2, across, up)
    return PagePlacement(visible_box, page_rotation, rotation, width, height, placed_box)


def _is_letter_size(width: float, height: float) -> bool:
    return abs(width - LETTER_SHEET.width) <= _SIZE_TOLERANCE and abs(height - LETTER_SHEET.height) <= _SIZE_TOLERANCE


def _visible_box(page: pikepdf.Page, number: int) -> Box:
    """The trim box inside the crop box inside the media box, where present."""
    box = _read_box(page, "/MediaBox")
    if box is None:
        raise UnprintablePdf(f"Page {number} of the PDF has no size.")
    for name in ("/CropBox", "/TrimBox"):
        inner = _read_box(page, name)
        box = (_intersect(box, inner) if inner else None) or box
    return box


def _read_box(page: pikepdf.Page, name: str) -> Box | None:
    try:
        corners = [float(corner) for corner in page.obj[name]]
        left, right = sorted(corners[0::2])
        bottom, top = sorted(corners[1::2])
    except (KeyError, TypeError, ValueError):
        return None
    if not all(map(math.isfinite, corners)) or right <= left or top <= bottom:
        return None
    return Box(left, bottom, right - left, top - bottom)


def _intersect(first: Box, second: Box) -> Box | None:
    left, bottom = max(first.left, second.left), max(first.bottom, second.bottom)
    right, top = min(first.right, second.right), min(first.top, second.top)
    return Box(left, bottom, right - left, top - bottom) if left < right and bottom < top else None


def _read_rotation(page: pikepdf.Page) -> int:
    try:
        rotation = int(page.obj.get("/Rotate", 0))
    except (TypeError, ValueError):
        return 0
    return rotation % 360 if rotation % 90 == 0 else 0


def _read_user_unit(page: pikepdf.Page) -> float:
    try:
        unit = float(page.obj.get("/UserUnit", 1))
    except (TypeError, ValueError):
        return 1.0
    return unit if math.isfinite(unit) and unit > 0 else 1.0


_INKLESS_SUBTYPES = frozenset({"/Link", "/Popup"})


def left_out_notes(pdf: pikepdf.Pdf) -> list[str]:
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
    """Draw form fields and printing comments into their pages; notes on what was done."""
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
    """Whether some layer is off, or may be off in print."""
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
        """`source` has no annotations left and may be changed; `placements` are those of all its pages."""
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
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=_JPEG_QUALITY, subsampling=0, dpi=(REDRAW_DPI, REDRAW_DPI))
        return file.getvalue()
