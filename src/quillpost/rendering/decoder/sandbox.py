"""Strangers' files, read and drawn at no risk: each piece of work in a limited child of its own.

A child may have been taken over by what it read: what it answers is to be looked at, not believed.
"""

from collections.abc import Sequence
from typing import Final

from quillpost.rendering.decoder.messages import Broken, Head, packed, unpacked
from quillpost.rendering.decoder.pool import MEMORY, NURSERY, Died, TookTooLong
from quillpost.rendering.geometry import Box
from quillpost.rendering.images.copied_pages import CopiedPages
from quillpost.rendering.images.limits import JPEG, MOST_PAGES, BadArt, BadImage, BadPdf, TooMuch
from quillpost.rendering.images.models import PrintablePages, PrintablePicture, read_picture
from quillpost.rendering.images.tones import CELL_BYTES, GRID, Tones

PICTURE_SECONDS: Final = 20
PAGES_SECONDS: Final = 40
DRAW_SECONDS: Final = 10
"""Of computing, for a drawing; each of its pages has some more."""
DRAW_PAGE_SECONDS: Final = 1

_LONGEST_NOTE = 1_000
_MOST_NOTES = 100
_DAMAGED = "The PDF is damaged or too complex to be read."
_SIMPLER = "Make it simpler, or save it as a picture, and send that."


class LimitedSandbox:
    """Composition's sandbox."""

    def rasterize(self, pdf: bytes, *, dpi: float, crops: Sequence[Box | None] | None = None) -> list[bytes]:
        how = {
            "dpi": dpi,
            "pages": None,
            "crops": None if crops is None else [crop and _corners(crop) for crop in crops],
        }
        seconds = DRAW_SECONDS + DRAW_PAGE_SECONDS * len(crops or ())
        try:
            return unpacked(_made("draw", pdf, seconds, how)[1])
        except TookTooLong:
            raise TooMuch(f"It takes more than {seconds} seconds to be drawn. {_SIMPLER}") from None
        except (Died, Broken):
            raise TooMuch(
                f"It takes more than {MEMORY // 1_000_000:,} MB of memory to be drawn, or it is damaged."
                f" {_SIMPLER}"
            ) from None

    def copy_pages(self, pages: bytes, *, first: int, default_spaces: bytes) -> CopiedPages:
        how = {"first": first, "default_spaces": default_spaces.decode("latin-1")}
        # Twice: it could be done when the pages came, and whatever ended a child may have been ours.
        for is_last in (False, True):
            try:
                head, body = _made("copy", pages, PAGES_SECONDS, how)
                return CopiedPages.read(unpacked(body), head["forms"], first=first)
            except (TookTooLong, Died, Broken, KeyError, TypeError):
                if is_last:
                    raise BadPdf(_DAMAGED) from None
        raise AssertionError

    def printable_pages(self, pdf: bytes) -> PrintablePages:
        return limited_pages(pdf)


def limited_picture(data: bytes) -> PrintablePicture:
    """As `printable_picture`, at no risk."""
    head, body = _of_picture("picture", data)
    width, height = read_picture(body).upright_size
    kind = "image/jpeg" if body.startswith(JPEG) else "image/png"
    return PrintablePicture(body, kind, width, height, _notes(head))


def limited_tones(data: bytes, width: int, height: int) -> Tones:
    """The colors of a printable picture of that size, at no risk."""
    _, cells = _of_picture("tones", data)
    if len(cells) != GRID * GRID * CELL_BYTES:
        raise BadImage("The image is damaged or too complex to be read.")
    return Tones(width, height, cells)


def limited_pages(data: bytes) -> PrintablePages:
    """As `printable_pages`, at no risk. What one child made another one looks at."""
    try:
        head, body = _made("pages", data, PAGES_SECONDS)
        count = _made("count", body, PAGES_SECONDS)[0].get("count")
    except TookTooLong:
        raise BadPdf(_slow("PDF", PAGES_SECONDS)) from None
    except (Died, Broken):
        raise BadPdf(_heavy("PDF")) from None
    except BadArt as bad:
        raise BadPdf(bad.message) from None
    if not isinstance(count, int) or not 1 <= count <= MOST_PAGES:
        raise BadPdf(_DAMAGED)
    return PrintablePages(body, count, _notes(head))


def joined_pages(files: Sequence[bytes]) -> bytes:
    """PDF files of ours, which hold what strangers drew, as one: in all but its pages it is as the first."""
    try:
        return _made("join", packed(files), PAGES_SECONDS)[1]
    except (TookTooLong, Died, Broken):
        raise TooMuch("Its pages are too large to be put together in one file.") from None


def _of_picture(work: str, data: bytes) -> tuple[Head, bytes]:
    try:
        return _made(work, data, PICTURE_SECONDS)
    except TookTooLong:
        raise BadImage(_slow("image", PICTURE_SECONDS)) from None
    except (Died, Broken):
        raise BadImage(_heavy("image")) from None
    except BadArt as bad:
        raise BadImage(bad.message) from None


def _made(work: str, data: bytes, seconds: int, how: Head | None = None) -> tuple[Head, bytes]:
    """What a child made of the data; `BadArt` has the sentence of one that would not."""
    head, body = NURSERY.run(work, data, cpu_seconds=seconds, seconds=2 * seconds, how=how)
    if "refused" in head:
        raise BadArt(str(head["refused"])[:_LONGEST_NOTE])
    return head, body


def _slow(what: str, seconds: int) -> str:
    return f"The {what} took too long to read, more than {seconds} seconds: it is damaged or too complex."


def _heavy(what: str) -> str:
    return (
        f"The {what} is damaged or too complex to be read: it takes more than {MEMORY // 1_000_000:,} MB"
        " of memory."
    )


def _corners(box: Box) -> list[float]:
    return [box.left, box.bottom, box.width, box.height]


def _notes(head: Head) -> tuple[str, ...]:
    notes = head.get("notes")
    return tuple(str(note)[:_LONGEST_NOTE] for note in notes[:_MOST_NOTES]) if isinstance(notes, list) else ()
