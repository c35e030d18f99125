"""Pages of a printable PDF, copied into a file of ours as forms that its pages can draw."""

import io
from decimal import Decimal

import pikepdf

from quillpost.rendering.images.copied_pages import CopyTarget
from quillpost.rendering.images.pdf_objects import PdfObject

_MAX_DEPTH = 100
_FORM_ENTRIES = b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources "


def copy_page_forms(pdf: CopyTarget, pages: bytes, *, default_spaces: bytes = b"") -> list[int]:
    """Numbers of forms of 612 x 792 points, one a page; what pages share is copied once.

    `pages` is what `printable_pages` made. `default_spaces`, such as `/DefaultRGB 5 0 R`,
    join the color spaces of everything that is drawn.
    """
    with pikepdf.open(io.BytesIO(pages)) as source:
        copier = _ObjectCopier(pdf, default_spaces)
        return [copier.copy_page(page.obj) for page in source.pages]


class _ObjectCopier:
    """Objects of one PDF on their way into another, each once."""

    def __init__(self, pdf: CopyTarget, default_spaces: bytes) -> None:
        self._pdf = pdf
        self._default_spaces = default_spaces
        self._numbers: dict[tuple[int, int], int] = {}
        self._open_streams: set[tuple[int, int]] = set()

    def copy_page(self, page: PdfObject) -> int:
        resources = self._write_resources(page["/Resources"], 0)
        contents = page["/Contents"]
        return self._pdf.add_stream(
            contents.read_raw_bytes(), _FORM_ENTRIES + resources + self._write_entries(contents, 0), is_final=True
        )

    def _write_value(self, value: object, depth: int) -> bytes:
        """Any object as it is written where it stands: itself, or a reference."""
        if depth > _MAX_DEPTH:
            raise RecursionError("a PDF that is nested too deeply")
        if isinstance(value, pikepdf.Object) and value.is_indirect:
            return self._write_reference(value, depth)
        return self._write_direct(value, depth)

    def _write_reference(self, value: PdfObject, depth: int) -> bytes:
        key = value.objgen
        if key in self._numbers:
            return b"%d 0 R" % self._numbers[key]
        if isinstance(value, pikepdf.Stream):
            if key in self._open_streams:  # a drawing inside itself shows nothing
                return b"null"
            self._open_streams.add(key)
            entries = self._write_entries(value, depth + 1)
            number = self._pdf.add_stream(value.read_raw_bytes(), entries, is_final=True)
            self._numbers[key] = number
        else:
            number = self._numbers[key] = self._pdf.reserve()
            self._pdf.put(number, self._write_direct(value, depth + 1))
        return b"%d 0 R" % number

    def _write_direct(self, value: object, depth: int) -> bytes:
        if isinstance(value, pikepdf.Dictionary):
            return b"<<%b>>" % self._write_entries(value, depth)
        if isinstance(value, pikepdf.Array):
            return b"[%b]" % b" ".join([self._write_value(part, depth + 1) for part in value])
        return _scalar_body(value)

    def _write_entries(self, dictionary: PdfObject, depth: int) -> bytes:
        """In the order of their names, so that the same pages give the same bytes."""
        parts = []
        for name, value in sorted(dictionary.items()):
            if name == "/Length" and isinstance(dictionary, pikepdf.Stream):
                continue
            is_resources = name == "/Resources" and isinstance(value, pikepdf.Dictionary)
            body = self._write_resources(value, depth + 1) if is_resources else self._write_value(value, depth + 1)
            parts.append(b"%b %b" % (pikepdf.Name(name).unparse(), body))
        return b"".join(parts)

    def _write_resources(self, resources: PdfObject, depth: int) -> bytes:
        if not self._default_spaces:
            return self._write_value(resources, depth)
        spaces = resources.get("/ColorSpace", pikepdf.Dictionary())
        has_default_rgb = "/DefaultRGB" in spaces
        other_resources = pikepdf.Dictionary(
            {name: value for name, value in resources.items() if name != "/ColorSpace"}
        )
        return b"<<%b/ColorSpace<<%b%b>>>>" % (
            self._write_entries(other_resources, depth),
            self._write_entries(spaces, depth),
            b"" if has_default_rgb else self._default_spaces,
        )


def _scalar_body(value: object) -> bytes:
    if value is None:
        return b"null"
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, Decimal):
        return format(value, "f").encode()
    if isinstance(value, pikepdf.String):
        return b"<%b>" % bytes(value).hex().encode()
    assert isinstance(value, pikepdf.Object)
    body: bytes = value.unparse()
    return body
