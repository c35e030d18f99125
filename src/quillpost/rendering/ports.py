"""What rendering asks of the sandbox in which untrusted files are read and drawn."""

from collections.abc import Sequence
from typing import Protocol

from quillpost.rendering.images.models import CopiedPages, PrintablePages
from quillpost.rendering.models import Box


class Sandbox(Protocol):
    def rasterize(self, pdf: bytes, *, dpi: float, crops: Sequence[Box | None] | None = None) -> list[bytes]:
        """Pages as PNG, cut at the trim box; UnprintableArt if that takes too much.

        `crops` are in points from the trim's lower left corner, None for the whole page.
        """

    def copy_pages(self, pages: bytes, *, first: int, default_spaces: bytes) -> CopiedPages:
        """Printable pages as objects numbered from `first`; `default_spaces` join all color spaces."""

    def printable_pages(self, pdf: bytes) -> PrintablePages:
        """The PDF's pages, each on a letter sheet; UnprintablePdf has a sentence for the sender."""
