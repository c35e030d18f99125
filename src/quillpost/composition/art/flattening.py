"""What a PDF holds beside its pages: fields and comments become ink, the rest stays behind."""

from collections.abc import Iterator

import pikepdf

from quillpost.composition.art.entries import PdfObject

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
