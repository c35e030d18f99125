"""One of every piece, full of all that it can carry and empty, for whoever wants to see them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.handwriting.catalog import DEFAULT
from quillpost.rendering.layout.products import Piece, Side
from quillpost.rendering.models import (
    BALLPOINTS,
    Addressee,
    Branding,
    Claim,
    Copy,
    Design,
    Giftcard,
    ReturnAddress,
    Sender,
    parse_colour,
)
from quillpost.rendering.pdf.png import Pixels, encode_png
from quillpost.rendering.renderer import Studio
from quillpost.rendering.samples import LETTER, Paper

_ART_DPI = 150
_LOGO_PIXELS = 480

_RECIPIENT = Addressee(
    name="Jane Doe",
    company="Doe & Daughters",
    address="1200 Barton Springs Rd",
    address2="Apt 4",
    city="Austin",
    province="TX",
    postal_code="78704-1155",
)
_HOME = ReturnAddress("Quincy & Bex Ward", "PO Box 1180", None, "Austin", "TX", "78767")
_SENDER = Sender("Quincy Ward", "Ward & Sons Gardens")
_COPY = Copy(1, 0, _RECIPIENT, tracking="00310999999000000017", routing="78704115504")
_QR = "https://mail.example.com/q/7Hk2Wd"
_CLAIM = Claim("SPEC-1MEN-00000-0000-0000-00000", "https://mail.example.com/gift/SPEC1MEN000000000000000000")
_CONTACT = "Quincy Ward · (512) 555-0100 · quincy@ward.example"
_DISCLAIMER = "Ward & Sons Gardens, licensed irrigators and arborists in Travis County, Texas."
_OPT_OUT = "Prefer no mail? mail.example.com/stop/7Hk2WdQx"


@dataclass(frozen=True, slots=True)
class Specimen:
    """A piece to be drawn; `caption` says what is special about it."""

    caption: str
    design: Design
    copy: Copy


def specimens(studio: Studio, name: str) -> Iterator[Specimen]:
    """A piece with everything, with nothing but its words, a card branded, and a letter as a PDF alone."""
    piece = studio.pieces[name]
    pages = studio.sandbox.printable_pages(_enclosure(studio)).data if piece.extra else None
    is_gift = any(side.card for side in piece.sides)
    copy = Copy(1, 0, _RECIPIENT, _COPY.tracking, _COPY.routing, _QR, _CLAIM if is_gift else None, _OPT_OUT)
    # The code is on the card itself: no gift card goes without.
    plain = Copy(1, 0, _RECIPIENT, _COPY.tracking, _COPY.routing, claim=copy.claim)
    giftcard = Giftcard("Barton Coffee", 2_500, parse_colour("#1f6f54").ink) if is_gift else None
    yield Specimen(
        "with pictures, a QR code and an opt-out line",
        _design(
            name,
            front=_picture_for(piece, "front"),
            background=_picture_for(piece, "background"),
            pages=pages,
            giftcard=giftcard,
        ),
        copy,
    )
    yield Specimen("plain", _design(name, giftcard=giftcard), plain)
    if any(side.is_cover for side in piece.sides):
        for what, branding in _brandings():
            yield Specimen(what, _design(name, giftcard=giftcard, branding=branding), plain)
    if pages is not None:
        yield Specimen("the sender's PDF alone", _design(name, pages=pages, pdf_only=True), plain)


def _design(
    piece: str,
    *,
    front: bytes | None = None,
    background: bytes | None = None,
    pages: bytes | None = None,
    pdf_only: bool = False,
    giftcard: Giftcard | None = None,
    branding: Branding | None = None,
) -> Design:
    return Design(
        piece,
        LETTER,
        BALLPOINTS["blue"].ink,
        front=front,
        background=background,
        pages=pages,
        pdf_only=pdf_only,
        giftcard=giftcard,
        branding=branding,
        sender=_SENDER,
        return_address=_HOME,
    )


def _brandings() -> Iterator[tuple[str, Branding]]:
    accent = parse_colour("#3e5270").ink
    yield "branded by a logo", Branding(accent, _SENDER.company, _CONTACT, _DISCLAIMER, _logo())
    yield "branded by a name", Branding(accent, _SENDER.company, _CONTACT, _DISCLAIMER)


def _logo() -> bytes:
    """The hills in a round window."""
    picture = _hills(_LOGO_PIXELS, _LOGO_PIXELS, 0.0)
    across = np.linspace(-1, 1, _LOGO_PIXELS)
    picture[np.hypot(across[None, :], across[:, None]) > 1] = 255
    return encode_png(picture, dpi=_ART_DPI)


def _picture_for(piece: Piece, art: str) -> bytes | None:
    """Hills that cover the side's art, pale where the message is written over them."""
    side = next((side for side in piece.sides if side.art == art), None)
    if side is None:
        return None
    area = side.art_area or side.bleed_box
    width, height = (round(length / INCH * _ART_DPI) for length in (area.width, area.height))
    return encode_png(_hills(width, height, _paleness(side)), dpi=_ART_DPI)


def _paleness(side: Side) -> float:
    return 0.82 if side.message else 0.0


def _hills(width: int, height: int, paleness: float) -> Pixels:
    """An evening over four ranges of hills."""
    x = np.linspace(0, 1, width)[None, :]
    y = np.linspace(0, 1, height)[:, None]
    dusk, dawn = np.array([253, 196, 138.0]), np.array([126, 160, 205.0])
    glow = (1 - y)[..., None] ** 1.5
    picture = dawn * glow + dusk * (1 - glow) + np.zeros((height, width, 1))
    sun = np.hypot((x - 0.68) * width / height, y - 0.42)
    picture += (np.clip(1 - sun / 0.42, 0, 1) ** 2)[..., None] * np.array([60, 50, 30.0])
    picture[sun < 0.075] = (255, 246, 214)
    for number, colour in enumerate(((150, 140, 176), (104, 108, 150), (62, 82, 112), (26, 48, 66))):
        ridge = 0.55 + 0.115 * number + 0.05 * np.sin((3 + number) * x * np.pi + 1.7 * number)
        ridge += 0.018 * np.sin((9 + 2 * number) * x * np.pi + number)
        picture[np.broadcast_to(y > ridge, (height, width))] = colour
    pale = picture + (255 - picture) * paleness
    found: Pixels = np.clip(np.rint(pale), 0, 255).astype(np.uint8)
    return found


def _enclosure(studio: Studio) -> bytes:
    """A page such as a sender would bring."""
    paper = Paper(studio, DEFAULT.number, 8.5 * INCH, 11 * INCH)
    paper.print_plainly("Your garden in spring", INCH, 9.6 * INCH, 28)
    paper.print_plainly("An additional page, from the sender's own PDF.", INCH, 9.2 * INCH, 12, b".45 g")
    rows = ("March", "Beds dug over, roses pruned"), ("April", "Lawn sown, fence mended"), ("May", "Harvest!")
    for number, (month, work) in enumerate(rows):
        bottom = (8.4 - 0.4 * number) * INCH
        paper.print_plainly(month, INCH, bottom, 14)
        paper.print_plainly(work, 2.2 * INCH, bottom, 14)
    paper.frame(Box(0.75 * INCH, 0.75 * INCH, 7 * INCH, 9.5 * INCH))
    return paper.pdf()
