"""Strangers' files, read and drawn at no risk: each piece of work in a limited child of its own.

A child may have been taken over by what it read: what it answers is to be looked at, not believed.
"""

from collections.abc import Sequence
from typing import Final

from quillpost.rendering.decoder.messages import DecoderProtocolError, MessageHead, pack_parts, unpack_parts
from quillpost.rendering.decoder.pool import DECODER_POOL, MEMORY_LIMIT_BYTES, DecoderDied, DecoderTimeout
from quillpost.rendering.geometry import Box
from quillpost.rendering.images.copied_pages import CopiedPages
from quillpost.rendering.images.limits import (
    JPEG_SIGNATURE,
    MAX_PAGES,
    ArtTooComplex,
    UnprintableArt,
    UnprintableImage,
    UnprintablePdf,
)
from quillpost.rendering.images.models import PrintablePages, PrintablePicture, read_picture
from quillpost.rendering.images.tones import CELL_BYTES, GRID_CELLS, PictureTones

PICTURE_SECONDS: Final = 20
PAGES_SECONDS: Final = 40
DRAW_SECONDS: Final = 10
"""Of computing, for a drawing; each of its pages has some more."""
DRAW_PAGE_SECONDS: Final = 1

_MAX_NOTE_LENGTH = 1_000
_MAX_NOTES = 100
_DAMAGED_MESSAGE = "The PDF is damaged or too complex to be read."
_SIMPLIFY_ADVICE = "Make it simpler, or save it as a picture, and send that."


class DecoderSandbox:
    """Composition's sandbox."""

    def rasterize(self, pdf: bytes, *, dpi: float, crops: Sequence[Box | None] | None = None) -> list[bytes]:
        options = {
            "dpi": dpi,
            "pages": None,
            "crops": None if crops is None else [crop and _box_values(crop) for crop in crops],
        }
        seconds = DRAW_SECONDS + DRAW_PAGE_SECONDS * len(crops or ())
        try:
            return unpack_parts(_run_task("draw", pdf, seconds, options)[1])
        except DecoderTimeout:
            raise ArtTooComplex(f"It takes more than {seconds} seconds to be drawn. {_SIMPLIFY_ADVICE}") from None
        except (DecoderDied, DecoderProtocolError):
            raise ArtTooComplex(
                f"It takes more than {MEMORY_LIMIT_BYTES // 1_000_000:,} MB of memory to be drawn, or it is damaged."
                f" {_SIMPLIFY_ADVICE}"
            ) from None

    def copy_pages(self, pages: bytes, *, first: int, default_spaces: bytes) -> CopiedPages:
        options = {"first": first, "default_spaces": default_spaces.decode("latin-1")}
        # Twice: it could be done when the pages came, and whatever ended a child may have been ours.
        for is_last_attempt in (False, True):
            try:
                head, body = _run_task("copy", pages, PAGES_SECONDS, options)
                return CopiedPages.from_byte_strings(unpack_parts(body), head["forms"], first_number=first)
            except (DecoderTimeout, DecoderDied, DecoderProtocolError, KeyError, TypeError):
                if is_last_attempt:
                    raise UnprintablePdf(_DAMAGED_MESSAGE) from None
        raise AssertionError

    def printable_pages(self, pdf: bytes) -> PrintablePages:
        return make_printable_pages_in_sandbox(pdf)


def make_printable_picture_in_sandbox(data: bytes) -> PrintablePicture:
    """As `printable_picture`, at no risk."""
    head, body = _run_picture_task("picture", data)
    width, height = read_picture(body).upright_size
    content_type = "image/jpeg" if body.startswith(JPEG_SIGNATURE) else "image/png"
    return PrintablePicture(body, content_type, width, height, _read_notes(head))


def measure_tones_in_sandbox(data: bytes, width: int, height: int) -> PictureTones:
    """The colors of a printable picture of that size, at no risk."""
    _, cells = _run_picture_task("tones", data)
    if len(cells) != GRID_CELLS * GRID_CELLS * CELL_BYTES:
        raise UnprintableImage("The image is damaged or too complex to be read.")
    return PictureTones(width, height, cells)


def make_printable_pages_in_sandbox(data: bytes) -> PrintablePages:
    """As `printable_pages`, at no risk. What one child made another one looks at."""
    try:
        head, body = _run_task("pages", data, PAGES_SECONDS)
        count = _run_task("count", body, PAGES_SECONDS)[0].get("count")
    except DecoderTimeout:
        raise UnprintablePdf(_too_slow_message("PDF", PAGES_SECONDS)) from None
    except (DecoderDied, DecoderProtocolError):
        raise UnprintablePdf(_too_heavy_message("PDF")) from None
    except UnprintableArt as error:
        raise UnprintablePdf(error.message) from None
    if not isinstance(count, int) or not 1 <= count <= MAX_PAGES:
        raise UnprintablePdf(_DAMAGED_MESSAGE)
    return PrintablePages(body, count, _read_notes(head))


def join_pdfs_in_sandbox(files: Sequence[bytes]) -> bytes:
    """PDF files of ours, which hold what strangers drew, as one: in all but its pages it is as the first."""
    try:
        return _run_task("join", pack_parts(files), PAGES_SECONDS)[1]
    except (DecoderTimeout, DecoderDied, DecoderProtocolError):
        raise ArtTooComplex("Its pages are too large to be put together in one file.") from None


def _run_picture_task(task_name: str, data: bytes) -> tuple[MessageHead, bytes]:
    try:
        return _run_task(task_name, data, PICTURE_SECONDS)
    except DecoderTimeout:
        raise UnprintableImage(_too_slow_message("image", PICTURE_SECONDS)) from None
    except (DecoderDied, DecoderProtocolError):
        raise UnprintableImage(_too_heavy_message("image")) from None
    except UnprintableArt as error:
        raise UnprintableImage(error.message) from None


def _run_task(
    task_name: str, data: bytes, seconds: int, options: MessageHead | None = None
) -> tuple[MessageHead, bytes]:
    """What a child made of the data; `BadArt` has the sentence of one that would not."""
    head, body = DECODER_POOL.run(task_name, data, cpu_seconds=seconds, seconds=2 * seconds, options=options)
    if "refused" in head:
        raise UnprintableArt(str(head["refused"])[:_MAX_NOTE_LENGTH])
    return head, body


def _too_slow_message(file_kind: str, seconds: int) -> str:
    return f"The {file_kind} took too long to read, more than {seconds} seconds: it is damaged or too complex."


def _too_heavy_message(file_kind: str) -> str:
    return (
        f"The {file_kind} is damaged or too complex to be read: it takes more than "
        f"{MEMORY_LIMIT_BYTES // 1_000_000:,} MB"
        " of memory."
    )


def _box_values(box: Box) -> list[float]:
    return [box.left, box.bottom, box.width, box.height]


def _read_notes(head: MessageHead) -> tuple[str, ...]:
    notes = head.get("notes")
    return tuple(str(note)[:_MAX_NOTE_LENGTH] for note in notes[:_MAX_NOTES]) if isinstance(notes, list) else ()
