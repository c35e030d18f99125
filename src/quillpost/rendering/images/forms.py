"""Pages of a printable PDF, copied into a file of ours as forms that its pages can draw."""

import io
from decimal import Decimal

import pikepdf

from quillpost.rendering.images.copied_pages import Objects
from quillpost.rendering.images.pdf_objects import PdfObject

_DEEPEST = 100
_FORM = b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources "


def page_forms(pdf: Objects, pages: bytes, *, default_spaces: bytes = b"") -> list[int]:
    """Numbers of forms of 612 x 792 points, one a page; what pages share is copied once.

    `pages` is what `printable_pages` made. `default_spaces`, such as `/DefaultRGB 5 0 R`,
    join the colour spaces of everything that is drawn.
    """
    with pikepdf.open(io.BytesIO(pages)) as source:
        copier = _Copier(pdf, default_spaces)
        return [copier.form(page.obj) for page in source.pages]


class _Copier:
    """Objects of one PDF on their way into another, each once."""

    def __init__(self, pdf: Objects, default_spaces: bytes) -> None:
        self._pdf = pdf
        self._default_spaces = default_spaces
        self._numbers: dict[tuple[int, int], int] = {}
        self._open: set[tuple[int, int]] = set()

    def form(self, page: PdfObject) -> int:
        resources = self._resources(page["/Resources"], 0)
        contents = page["/Contents"]
        return self._pdf.add_stream(
            contents.read_raw_bytes(), _FORM + resources + self._entries(contents, 0), is_final=True
        )

    def _body(self, thing: object, depth: int) -> bytes:
        """Any object as it is written where it stands: itself, or a reference."""
        if depth > _DEEPEST:
            raise RecursionError("a PDF that is nested too deeply")
        if isinstance(thing, pikepdf.Object) and thing.is_indirect:
            return self._reference(thing, depth)
        return self._direct(thing, depth)

    def _reference(self, thing: PdfObject, depth: int) -> bytes:
        key = thing.objgen
        if key in self._numbers:
            return b"%d 0 R" % self._numbers[key]
        if isinstance(thing, pikepdf.Stream):
            if key in self._open:  # a drawing inside itself shows nothing
                return b"null"
            self._open.add(key)
            entries = self._entries(thing, depth + 1)
            number = self._pdf.add_stream(thing.read_raw_bytes(), entries, is_final=True)
            self._numbers[key] = number
        else:
            number = self._numbers[key] = self._pdf.reserve()
            self._pdf.put(number, self._direct(thing, depth + 1))
        return b"%d 0 R" % number

    def _direct(self, thing: object, depth: int) -> bytes:
        if isinstance(thing, pikepdf.Dictionary):
            return b"<<%b>>" % self._entries(thing, depth)
        if isinstance(thing, pikepdf.Array):
            return b"[%b]" % b" ".join([self._body(part, depth + 1) for part in thing])
        return _scalar(thing)

    def _entries(self, thing: PdfObject, depth: int) -> bytes:
        """In the order of their names, so that the same pages give the same bytes."""
        parts = []
        for name, value in sorted(thing.items()):
            if name == "/Length" and isinstance(thing, pikepdf.Stream):
                continue
            is_resources = name == "/Resources" and isinstance(value, pikepdf.Dictionary)
            body = self._resources(value, depth + 1) if is_resources else self._body(value, depth + 1)
            parts.append(b"%b %b" % (pikepdf.Name(name).unparse(), body))
        return b"".join(parts)

    def _resources(self, resources: PdfObject, depth: int) -> bytes:
        if not self._default_spaces:
            return self._body(resources, depth)
        spaces = resources.get("/ColorSpace", pikepdf.Dictionary())
        has_its_own = "/DefaultRGB" in spaces
        others = pikepdf.Dictionary(
            {name: value for name, value in resources.items() if name != "/ColorSpace"}
        )
        return b"<<%b/ColorSpace<<%b%b>>>>" % (
            self._entries(others, depth),
            self._entries(spaces, depth),
            b"" if has_its_own else self._default_spaces,
        )


def _scalar(thing: object) -> bytes:
    if thing is None:
        return b"null"
    if isinstance(thing, bool):
        return b"true" if thing else b"false"
    if isinstance(thing, int):
        return b"%d" % thing
    if isinstance(thing, Decimal):
        return format(thing, "f").encode()
    if isinstance(thing, pikepdf.String):
        return b"<%b>" % bytes(thing).hex().encode()
    assert isinstance(thing, pikepdf.Object)
    written: bytes = thing.unparse()
    return written
