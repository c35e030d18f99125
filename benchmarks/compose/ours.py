"""Every call that the benchmark makes of our own core, and of nothing else."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pikepdf
import segno

from benchmarks.compose import sheet
from benchmarks.compose.recipients import MESSAGE, Recipient, recipient
from quillpost.integrations.storage.objects import FaceFolder
from quillpost.rendering.codes import barcode
from quillpost.rendering.decoder.service import DecoderSandbox
from quillpost.rendering.handwriting.service import FontSources, Hands
from quillpost.rendering.layout.templates import load_shipped_products
from quillpost.rendering.models import BAR_PITCH, BAR_WIDTH, Addressee, Box, Copy, Design, ReturnAddress, SenderName
from quillpost.rendering.pdf.files import deflate
from quillpost.rendering.pdf.png import Pixels, drop_color_if_gray, encode_png
from quillpost.rendering.service import Renderer

PIECE = "postcard-4x6"
PIECES_A_FILE = 5_000
HAND_FACE, PLAIN_FACE = "Zeyada", "SourceSans3"

_FACES = Path(__file__).resolve().parents[2] / ".tools" / "faces"
_MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)

__all__ = [
    "BAR_PITCH",
    "BAR_WIDTH",
    "HAND_FACE",
    "PIECES_A_FILE",
    "PLAIN_FACE",
    "Box",
    "Core",
    "Places",
    "bars_of",
    "deflate",
    "page_streams",
    "places_of_marks",
    "png_of",
    "qr_rows",
]


@dataclass(frozen=True, slots=True)
class Places:
    """Where a back's marks stand, from the lower left corner of the trim."""

    qr: Box
    barcode: Box
    frame: Box
    divider: Box


def places_of_marks() -> Places:
    back = load_shipped_products()[PIECE].find_side("back")
    return Places(*filter(None, (back.qr, back.barcode, back.indicia, back.divider)))


class Core:
    """Our composition with one design, ready to compose; faces are made once for all runs."""

    def __init__(self, folder: Path) -> None:
        self._renderer = Renderer(
            Hands(FontSources(None), FaceFolder(_FACES)), load_shipped_products(), sandbox=DecoderSandbox()
        )
        red, green, blue = sheet.INK
        self._design = Design(
            product=PIECE,
            message=MESSAGE,
            ink=(red / 255, green / 255, blue / 255),
            hand=1,
            front=sheet.photo_in(folder).read_bytes(),
            sender=SenderName("Dana Whitfield", "Maple & Main Realty"),
            return_address=ReturnAddress(
                name="Dana Whitfield", address="PO Box 1180", city="Austin", province="TX", postal_code="78701"
            ),
        )

    def copies(self, first: int, count: int) -> list[Copy]:
        return [_copy(recipient(number)) for number in range(first, first + count)]

    def batch(self, copies: list[Copy]) -> bytes:
        return self._renderer.compose({0: self._design}, copies, title="Benchmark", made_at=_MADE_AT).sheets

    def preview_of_back(self, copy: Copy, dpi: int) -> bytes:
        return self._renderer.preview(self._design, copy, dpi=dpi, only_preview="back").sides["back"]


def _copy(person: Recipient) -> Copy:
    addressee = Addressee(
        name=person.name,
        address=person.address,
        city=person.city,
        province=person.state,
        postal_code=person.postal_code,
    )
    return Copy(person.number, 0, addressee, person.tracking, person.routing, person.url)


def png_of(pixels: Pixels, dpi: int) -> bytes:
    """As a preview is encoded when pdfium has drawn it."""
    return encode_png(drop_color_if_gray(pixels), dpi=dpi)


def page_streams(pdf: bytes) -> Iterator[bytes]:
    """What each back alone says, as it was before it was deflated."""
    with pikepdf.open(io.BytesIO(pdf)) as document:
        for back in list(document.pages)[1::2]:
            contents = back.obj.Contents
            own = contents[-1] if isinstance(contents, pikepdf.Array) else contents
            yield own.read_bytes()


def bars_of(person: Recipient) -> str:
    """The barcode's 65 letters of TDAF."""
    return barcode.encode_barcode(person.tracking, person.routing)


def qr_rows(person: Recipient) -> list[bytearray]:
    """The QR code's modules by rows, 1 for dark."""
    return list(segno.make(person.url, error="m", micro=False, boost_error=False).matrix)
