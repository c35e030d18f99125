"""PDF objects: the entries that may be printed, resources, and copies of pages."""

import io
import tomllib
from collections.abc import Hashable, Sequence
from decimal import Decimal
from importlib.resources import files
from typing import Any

import pikepdf

from quillpost.rendering.images.models import ObjectList
from quillpost.rendering.images.rules import MAX_CONTENT_BYTES, UnprintablePdf

PdfObject = Any  # pikepdf returns numbers, booleans and nulls as Python's own, which its types do not say

Node = Hashable


# By the kind of an object, the entries that may be printed.
_KEPT_ENTRIES = {
    kind: frozenset(f"/{name}" for name in names.split())
    for kind, names in tomllib.loads(files(__package__).joinpath("entries.toml").read_text("utf-8")).items()
}


def keep_entries(pdf_object: PdfObject, kind: str) -> None:
    """Remove all entries but those that an object of this kind, as in `entries.toml`, may be printed with."""
    if isinstance(pdf_object, pikepdf.Dictionary | pikepdf.Stream):
        for name in set(pdf_object.keys()) - _KEPT_ENTRIES[kind]:
            del pdf_object[name]


_GRAY_OPERATORS = {"k": pikepdf.Operator("g"), "K": pikepdf.Operator("G")}


def is_black_only(inks: Sequence[PdfObject]) -> bool:
    return len(inks) == 4 and all(isinstance(ink, int | Decimal) for ink in inks) and not any(inks[:3])


def black_to_gray(stream: pikepdf.Stream) -> None:
    """Rewrite a drawing whose CMYK colors are all black."""
    instructions: list[PdfObject] = []
    for instruction in pikepdf.parse_content_stream(stream):
        gray_operator = _GRAY_OPERATORS.get(str(instruction.operator))
        if gray_operator is None:
            instructions.append(instruction)
        else:
            black: PdfObject = instruction.operands[3]
            level = 1 - Decimal(black)
            instructions.append(pikepdf.ContentStreamInstruction([level], gray_operator))
    stream.write(pikepdf.unparse_content_stream(instructions))


RESOURCE_CATEGORIES = {
    **{"Tf": "/Font", "Do": "/XObject", "gs": "/ExtGState", "cs": "/ColorSpace", "CS": "/ColorSpace"},
    **{"scn": "/Pattern", "SCN": "/Pattern", "sh": "/Shading", "BDC": "/Properties", "DP": "/Properties"},
}
DEFAULT_SPACES = ("/DefaultGray", "/DefaultRGB", "/DefaultCMYK")  # in force without being named

_MAX_OBJECTS = 20_000
_MAX_DEPTH = 24

# A packed drawing may be a thousand times as large when it is unpacked.
_QPDF_LIMITS: dict[str, Any] = {f"{kind}_max_memory": MAX_CONTENT_BYTES for kind in ("flate", "png", "run_length")}


def resource_name(operands: Sequence[PdfObject], operator: str) -> str | None:
    """A font comes first in an instruction, a pattern or a property list last."""
    if not len(operands):
        return None
    operand = operands[0] if operator == "Tf" else operands[-1]
    return str(operand) if isinstance(operand, pikepdf.Name) else None


def find_resource(resources: PdfObject, category: str, name: str | None) -> PdfObject:
    if name is None or not isinstance(resources, pikepdf.Dictionary):
        return None
    category_resources = resources.get(category)
    return category_resources.get(name) if isinstance(category_resources, pikepdf.Dictionary) else None


def soft_mask_node(state: pikepdf.Dictionary) -> Node | None:
    mask = state.get("/SMask")
    group: PdfObject = mask.get("/G") if isinstance(mask, pikepdf.Dictionary) else None
    return group.objgen if isinstance(group, pikepdf.Stream) else None


def int_or_zero(number: PdfObject) -> int:
    return number if isinstance(number, int) else 0


def stream_filters(stream: pikepdf.Stream) -> list[str]:
    filters = stream.get("/Filter")
    if isinstance(filters, pikepdf.Array):
        return [str(name) for name in filters]
    return [] if filters is None else [str(filters)]


def unpack_content(stream: pikepdf.Stream) -> bytes:
    """Unpacks up to MAX_CONTENT_BYTES; pikepdf raises if there is more, or damage."""
    previous_limits: dict[str, Any] = pikepdf.settings.set_qpdf_limits(**_QPDF_LIMITS)
    try:
        content: bytes = stream.read_bytes()
        return content
    finally:
        pikepdf.settings.set_qpdf_limits(**previous_limits)


class SeenObjects:
    """The objects that a page uses, counted against what one page may hold."""

    def __init__(self, page_number: int) -> None:
        self._page_number = page_number
        self._seen: set[tuple[int, int]] = set()
        self._count = self._direct_count = 0

    def node_of(self, pdf_object: PdfObject) -> Node:
        """Its key in the drawing cost; a direct object is met once."""
        if pdf_object.is_indirect:
            return pdf_object.objgen
        self._direct_count += 1
        return ("direct", self._direct_count)

    def is_already_seen(self, pdf_object: PdfObject, depth: int) -> bool:
        self.check_depth(depth)
        self._count += 1
        if self._count > _MAX_OBJECTS:
            raise UnprintablePdf(f"Page {self._page_number} of the PDF is too complex to be printed.")
        if not pdf_object.is_indirect:
            return False
        is_seen = pdf_object.objgen in self._seen
        self._seen.add(pdf_object.objgen)
        return is_seen

    def check_depth(self, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise UnprintablePdf(f"Page {self._page_number} of the PDF is nested too deeply.")


_MAX_COPY_DEPTH = 100
_FORM_ENTRIES = b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources "


def copy_page_forms(target: ObjectList, pages: bytes, *, default_spaces: bytes = b"") -> list[int]:
    """The number of a form of 612 x 792 points for each page; shared objects are copied once.

    `default_spaces`, such as `/DefaultRGB 5 0 R`, join the color spaces of everything that is drawn.
    """
    with pikepdf.open(io.BytesIO(pages)) as source:
        copier = _ObjectCopier(target, default_spaces)
        return [copier.copy_page(page.obj) for page in source.pages]


class _ObjectCopier:
    """Copies objects of one PDF into another, each once."""

    def __init__(self, target: ObjectList, default_spaces: bytes) -> None:
        self._target = target
        self._default_spaces = default_spaces
        self._numbers: dict[tuple[int, int], int] = {}
        self._open_streams: set[tuple[int, int]] = set()

    def copy_page(self, page: PdfObject) -> int:
        resources = self._write_resources(page["/Resources"], 0)
        contents = page["/Contents"]
        entries = _FORM_ENTRIES + resources + self._write_entries(contents, 0)
        return self._target.add_stream(contents.read_raw_bytes(), entries)

    def _write_value(self, value: object, depth: int) -> bytes:
        if depth > _MAX_COPY_DEPTH:
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
            number = self._numbers[key] = self._target.add_stream(value.read_raw_bytes(), entries)
        else:
            number = self._numbers[key] = self._target.reserve()
            self._target.put(number, self._write_direct(value, depth + 1))
        return b"%d 0 R" % number

    def _write_direct(self, value: object, depth: int) -> bytes:
        if isinstance(value, pikepdf.Dictionary):
            return b"<<%b>>" % self._write_entries(value, depth)
        if isinstance(value, pikepdf.Array):
            return b"[%b]" % b" ".join([self._write_value(part, depth + 1) for part in value])
        return _scalar_body(value)

    def _write_entries(self, dictionary: PdfObject, depth: int) -> bytes:
        """Sorted by name, so that the same pages give the same bytes."""
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
