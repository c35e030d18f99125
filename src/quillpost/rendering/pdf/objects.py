"""PDF objects: what the parts of a file ask of its writer, and how texts are spelled in it."""

from typing import Protocol


class ObjectWriter(Protocol):
    """Numbered objects, as `PdfFile` keeps them."""

    def reserve(self) -> int: ...

    def put(self, number: int, body: bytes) -> int: ...

    def add_shared_stream(self, data: bytes, entries: bytes = b"") -> int: ...


def text_string(text: str) -> bytes:
    """Any text as a PDF string."""
    if text.isascii() and text.isprintable():
        return b"(%b)" % text.encode().replace(b"\\", rb"\\").replace(b"(", rb"\(").replace(b")", rb"\)")
    return b"<FEFF%b>" % text.encode("utf-16-be").hex().upper().encode()
