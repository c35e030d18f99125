"""Pages that were taken out of one PDF on their way into another, as numbered objects."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from quillpost.rendering.images.limits import UnprintablePdf

_PLAIN_OBJECT, _STREAM_OBJECT = b"o", b"s"


class CopiedObject(NamedTuple):
    """Its body; or, where it is a stream, its entries without the length, and its data as they are."""

    body: bytes
    data: bytes | None


class CopyTarget(Protocol):
    """Where copied objects are put, as in `PdfFile`."""

    def reserve(self) -> int: ...

    def put(self, number: int, body: bytes) -> int: ...

    def add_stream(self, data: bytes, entries: bytes = b"", *, is_final: bool = False) -> int: ...


@dataclass(frozen=True, slots=True)
class CopiedPages:
    """Objects that follow each other in number, and the numbers of those that are the pages' forms."""

    objects: Sequence[CopiedObject]
    forms: tuple[int, ...]

    def to_byte_strings(self) -> list[bytes]:
        """As byte strings that can be sent."""
        parts: list[bytes] = []
        for copied_object in self.objects:
            is_stream = copied_object.data is not None
            parts += [_STREAM_OBJECT if is_stream else _PLAIN_OBJECT, copied_object.body, copied_object.data or b""]
        return parts

    @classmethod
    def from_byte_strings(cls, parts: Sequence[bytes], forms: Sequence[int], *, first_number: int) -> "CopiedPages":
        """What was written, or BadPdf: whoever wrote it has read a stranger's file and is not believed."""
        kinds, bodies, stream_data = parts[0::3], parts[1::3], parts[2::3]
        # What is put in place of an object may not end it, and begin another.
        if len(parts) % 3 or any(b"endobj" in body for body in bodies):
            raise UnprintablePdf("The PDF is damaged or too complex to be read.")
        objects = [
            CopiedObject(body, data if kind == _STREAM_OBJECT else None)
            for kind, body, data in zip(kinds, bodies, stream_data, strict=True)
        ]
        numbers = range(first_number, first_number + len(objects))
        if not forms or not all(isinstance(form, int) and form in numbers for form in forms):
            raise UnprintablePdf("The PDF is damaged or too complex to be read.")
        return cls(objects, tuple(forms))


class ObjectList:
    """A file in the making that is nothing but its objects, numbered from `first`."""

    def __init__(self, first_number: int) -> None:
        self._first = first_number
        self._objects: list[CopiedObject] = []

    def reserve(self) -> int:
        self._objects.append(CopiedObject(b"null", None))
        return self._first + len(self._objects) - 1

    def put(self, number: int, body: bytes) -> int:
        self._objects[number - self._first] = CopiedObject(body, None)
        return number

    def add_stream(self, data: bytes, entries: bytes = b"", *, is_final: bool = False) -> int:
        assert is_final
        self._objects.append(CopiedObject(entries, data))
        return self._first + len(self._objects) - 1

    def copied_objects(self) -> list[CopiedObject]:
        return self._objects
