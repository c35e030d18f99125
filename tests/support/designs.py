"""Sample designs, copies, pictures and hands for the tests of finished pieces, and the renderer that makes them."""

import io
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
from PIL import Image

from quillpost.app import bootstrap
from quillpost.core.settings import Settings
from quillpost.integrations.storage.objects import FaceFolder
from quillpost.rendering.decoder.service import DecoderSandbox
from quillpost.rendering.files import PrintFiles
from quillpost.rendering.handwriting.models import FALLBACK_FACES, HELPER_FACE, PLAIN_FACE, STYLES, FaceRecipe
from quillpost.rendering.handwriting.service import FontSources, Hands, recipe_key
from quillpost.rendering.layout.models import Side
from quillpost.rendering.layout.templates import load_shipped_products
from quillpost.rendering.models import (
    INCH,
    Addressee,
    Box,
    Copy,
    Design,
    Giftcard,
    GiftcardClaim,
    ReturnAddress,
    SenderName,
    parse_color,
)
from quillpost.rendering.service import Renderer
from support.images import page_picture, saved

PIECES = load_shipped_products()
POSTCARDS = ("postcard-4x6", "postcard-6x9", "postcard-6x11", "magnacard")

# Natural hands that join some letters, few and nearly all; and lettering, once with accents that stand by themselves.
HALF_JOINED, UNJOINED, JOINED, LETTERING, INTERNATIONAL = 1, 2, 6, 13, 19
NATURAL_HANDS = (HALF_JOINED, UNJOINED, JOINED)
HANDS = (*NATURAL_HANDS, LETTERING, INTERNATIONAL)

MESSAGE = (
    "Hi %FIRST_NAME|there%,\nI was walking past your place last week and just had to write."
    " Two of your neighbors sold in under ten days, and I still have a family hoping for a"
    " home like yours. Call or text me any time!\nWarmly, %YOUR_NAME%"
)
SHORT_MESSAGE = "Hi %FIRST_NAME|there%,\nTwo of your neighbors sold in under ten days!\nWarmly, %YOUR_NAME%"
STREET, TOWN = "8380 Harmon Underpass", "Port Stevenbury"
JENNY = Addressee("JENNY SKINNER", "Skinner & Söhne", STREET, None, TOWN, "SD", "98227-5874")
TRACKING = "00270123456000000017"
ROUTING = "98227587412"
QR_URL = "https://q.example.com/s/AbC123"
OPT_OUT = "No more mail? quillpost.example/stop ABC123"
CLAIM = GiftcardClaim("7ABC-DEFG-HJKMN-PQRS-TVWX-YZ012", "https://q.example.com/gift/7ABCDEFGHJKMNPQRSTVWXYZ012")
# A tenth of a millimetre in points: places are rounded to tenths of a point, and leanings a little as well.
HAIR = 0.3
MADE_AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@cache
def make_renderer() -> Renderer:
    return Renderer(make_hands(), PIECES, sandbox=DecoderSandbox())


def make_hands() -> Hands:
    """Those that every installation has, kept where all tests find them."""
    return Hands(FontSources(None), FaceFolder(Path(os.environ["QUILLPOST_FACES_FOLDER"])))


def design(piece: str = "postcard-4x6", message: str = MESSAGE, **changes: Any) -> Design:
    own: dict[str, Any] = {
        "product": piece, "message": message, "ink": parse_color("blue").ink,
        "sender": SenderName("Dana", "Maple & Main Realty"),
        "return_address": ReturnAddress("Dana Whitfield", "PO Box 1180", None, "Austin", "TX", "78701"),
        "giftcard": Giftcard("Acorn Coffee", 2500) if piece == "giftcard" else None,
    }  # fmt: skip
    return Design(**own | changes)


def copy(
    item_id: int = 7,
    addressee: Addressee = JENNY,
    *,
    design: int = 0,
    tracking: str | None = TRACKING,
    qr_url: str | None = None,
    claim: GiftcardClaim | None = None,
    opt_out: str | None = None,
) -> Copy:
    return Copy(item_id, design, addressee, tracking, ROUTING if tracking else "", qr_url, claim, opt_out)


FULL = copy(qr_url=QR_URL, claim=CLAIM, opt_out=OPT_OUT)
"""With all that a copy can have."""


def compose_item(
    looks: Design | Mapping[Any, Design], copies: Sequence[Copy] | None = None, made_at: datetime = MADE_AT
) -> PrintFiles:
    designs = {0: looks} if isinstance(looks, Design) else looks
    return make_renderer().compose(designs, copies or [copy()], title="A batch", made_at=made_at)


def picture(
    file_format: str = "JPEG", mode: str = "RGB", size: tuple[int, int] = (60, 40), colour: object = "black"
) -> bytes:
    return saved(Image.new(mode, size, colour), file_format)  # type: ignore[arg-type]


def page_text(pdf: bytes, page: int) -> str:
    with pdfium.PdfDocument(pdf) as document:
        return str(document[page].get_textpage().get_text_bounded()).replace("\r\n", "\n")


def image_of(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def full_sheet(pdf: bytes, page: int, dpi: int) -> Image.Image:
    """A page as it comes from the press, bleed and all."""
    return page_picture(pdf, page, dpi / INCH)


def cropped(picture: Image.Image, box: Box, dpi: int) -> Image.Image:
    """The part of a page's picture inside the box, which is in points from the lower left."""
    left, right = (round(edge * dpi / INCH) for edge in (box.left, box.right))
    top, bottom = (round(picture.height - edge * dpi / INCH) for edge in (box.top, box.bottom))
    return picture.crop((left, top, right, bottom))


def ring(box: Box, width: float) -> list[Box]:
    """What lies around a box, that far, in four strips."""
    outer = box.expand(width)
    return [
        Box(outer.left, outer.bottom, outer.width, width),
        Box(outer.left, box.top, outer.width, width),
        Box(outer.left, outer.bottom, width, outer.height),
        Box(box.right, outer.bottom, width, outer.height),
    ]


def around(boxes: Iterable[Box | None]) -> Box:
    """The one box around them."""
    known = [box for box in boxes if box]
    left, bottom = min(box.left for box in known), min(box.bottom for box in known)
    return Box(left, bottom, max(box.right for box in known) - left, max(box.top for box in known) - bottom)


def inches(box: Box | None) -> tuple[float, ...]:
    """Left, bottom, width and height, to a thousandth."""
    assert box is not None
    return tuple(round(length / INCH, 3) for length in (box.left, box.bottom, box.width, box.height))


def count_colors(picture: Image.Image) -> set[object]:
    return set(picture.get_flattened_data())


def message_box(side: Side, *, qr: bool) -> Box | None:
    """Where the message of an item with or without a QR code goes."""
    return side.message_above_qr if qr and side.qr else side.message


NO_PACKAGES = Path("/nonexistent")
PYTHONS_OWN = FontSources(NO_PACKAGES)


def hands_in(folder: Path) -> Hands:
    """Those whose fonts come from Python packages, kept in this folder."""
    chosen = {"faces_folder": folder, "font_packages": NO_PACKAGES}
    return bootstrap.build_hands(Settings.model_validate(chosen))


def file_of(face: FaceRecipe, folder: Path) -> Path:
    raw = PYTHONS_OWN.read_font(face)
    assert raw is not None
    return folder / recipe_key(face, raw)


def stock(folder: Path, *, without: Collection[FaceRecipe]) -> None:
    """Every face but some. The plain one is real; the others are stand-ins."""
    folder.mkdir(parents=True)
    kept = bootstrap.build_hands(Settings())
    lettering = [style.lettering for style in STYLES if style.lettering]
    for face in (PLAIN_FACE, *lettering, HELPER_FACE, *FALLBACK_FACES):
        if face in without or PYTHONS_OWN.read_font(face) is None:
            continue
        file = kept.prepare_face(face).to_bytes() if face == PLAIN_FACE else b"a stand-in"
        file_of(face, folder).write_bytes(file)
