"""Where strangers' files are read and drawn: a process that may be lost, of which composition knows no more
than what it does."""

from collections.abc import Sequence
from typing import Protocol

from quillpost.rendering.images.models import CopiedPages, PrintablePages
from quillpost.rendering.models import Box


class Sandbox(Protocol):
    def rasterize(self, pdf: bytes, *, dpi: float, crops: Sequence[Box | None] | None = None) -> list[bytes]:
        """Pages as PNG at their finished size, cut at the trim box; `BadArt` if that takes too much.

        `crops` has for each of them the part that is wanted, in points from the trim's lower left corner,
        or None for the whole.
        """

    def copy_pages(self, pages: bytes, *, first: int, default_spaces: bytes) -> CopiedPages:
        """Printable pages as objects whose numbers begin with `first`; `default_spaces`, such as
        `/DefaultRGB 5 0 R`, join the color spaces of everything that is drawn."""

    def printable_pages(self, pdf: bytes) -> PrintablePages:
        """The PDF's pages, each on a letter sheet; `BadPdf` has a sentence for its sender."""
