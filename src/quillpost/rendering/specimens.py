"""One of every piece, full of all that it can carry and empty, for whoever wants to see them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.handwriting.catalog import DEFAULT_STYLE
from quillpost.rendering.layout.products import ProductLayout, Side
from quillpost.rendering.models import (
    PEN_COLORS,
    Addressee,
    Copy,
    Design,
    Giftcard,
    GiftcardClaim,
    ReturnAddress,
    SenderBranding,
    SenderName,
    parse_color,
)
from quillpost.rendering.pdf.png import Pixels, encode_png
from quillpost.rendering.renderer import Renderer
from quillpost.rendering.samples import SAMPLE_LETTER, SamplePage

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
_RETURN_ADDRESS = ReturnAddress("Quincy & Bex Ward", "PO Box 1180", None, "Austin", "TX", "78767")
_SENDER = SenderName("Quincy Ward", "Ward & Sons Gardens")
_COPY = Copy(1, 0, _RECIPIENT, tracking="00310999999000000017", routing="78704115504")
_QR_URL = "https://mail.example.com/q/7Hk2Wd"
_CLAIM = GiftcardClaim("SPEC-1MEN-00000-0000-0000-00000", "https://mail.example.com/gift/SPEC1MEN000000000000000000")
_CONTACT = "Quincy Ward · (512) 555-0100 · quincy@ward.example"
_DISCLAIMER = "Ward & Sons Gardens, licensed irrigators and arborists in Travis County, Texas."
_OPT_OUT = "Prefer no mail? mail.example.com/stop/7Hk2WdQx"


@dataclass(frozen=True, slots=True)
class Specimen:
    """A piece to be drawn; `caption` says what is special about it."""

    caption: str
    design: Design
    copy: Copy


def make_specimens(renderer: Renderer, name: str) -> Iterator[Specimen]:
    """A piece with everything, with nothing but its words, a card branded, and a letter as a PDF alone."""
    product = renderer.products[name]
    pages = renderer.sandbox.printable_pages(_make_enclosure_pdf(renderer)).data if product.extra else None
    has_giftcard = any(side.card for side in product.sides)
    copy = Copy(1, 0, _RECIPIENT, _COPY.tracking, _COPY.routing, _QR_URL, _CLAIM if has_giftcard else None, _OPT_OUT)
    # The code is on the card itself: no gift card goes without.
    plain_copy = Copy(1, 0, _RECIPIENT, _COPY.tracking, _COPY.routing, claim=copy.claim)
    giftcard = Giftcard("Barton Coffee", 2_500, parse_color("#1f6f54").ink) if has_giftcard else None
    yield Specimen(
        "with pictures, a QR code and an opt-out line",
        _make_design(
            name,
            front=_art_for(product, "front"),
            background=_art_for(product, "background"),
            pages=pages,
            giftcard=giftcard,
        ),
        copy,
    )
    yield Specimen("plain", _make_design(name, giftcard=giftcard), plain_copy)
    if any(side.is_cover for side in product.sides):
        for caption, branding in _sample_brandings():
            yield Specimen(caption, _make_design(name, giftcard=giftcard, branding=branding), plain_copy)
    if pages is not None:
        yield Specimen("the sender's PDF alone", _make_design(name, pages=pages, pdf_only=True), plain_copy)


def _make_design(
    product: str,
    *,
    front: bytes | None = None,
    background: bytes | None = None,
    pages: bytes | None = None,
    pdf_only: bool = False,
    giftcard: Giftcard | None = None,
    branding: SenderBranding | None = None,
) -> Design:
    return Design(
        product,
        SAMPLE_LETTER,
        PEN_COLORS["blue"].ink,
        front=front,
        background=background,
        pages=pages,
        pdf_only=pdf_only,
        giftcard=giftcard,
        branding=branding,
        sender=_SENDER,
        return_address=_RETURN_ADDRESS,
    )


def _sample_brandings() -> Iterator[tuple[str, SenderBranding]]:
    accent = parse_color("#3e5270").ink
    yield "branded by a logo", SenderBranding(accent, _SENDER.company, _CONTACT, _DISCLAIMER, _make_logo())
    yield "branded by a name", SenderBranding(accent, _SENDER.company, _CONTACT, _DISCLAIMER)


def _make_logo() -> bytes:
    """The hills in a round window."""
    picture = _draw_hills(_LOGO_PIXELS, _LOGO_PIXELS, 0.0)
    axis = np.linspace(-1, 1, _LOGO_PIXELS)
    picture[np.hypot(axis[None, :], axis[:, None]) > 1] = 255
    return encode_png(picture, dpi=_ART_DPI)


def _art_for(product: ProductLayout, art: str) -> bytes | None:
    """Hills that cover the side's art, pale where the message is written over them."""
    side = next((side for side in product.sides if side.art == art), None)
    if side is None:
        return None
    area = side.art_area or side.bleed_box
    width, height = (round(length / INCH * _ART_DPI) for length in (area.width, area.height))
    return encode_png(_draw_hills(width, height, _paleness(side)), dpi=_ART_DPI)


def _paleness(side: Side) -> float:
    return 0.82 if side.message else 0.0


def _draw_hills(width: int, height: int, paleness: float) -> Pixels:
    """An evening over four ranges of hills."""
    x = np.linspace(0, 1, width)[None, :]
    y = np.linspace(0, 1, height)[:, None]
    dusk, dawn = np.array([253, 196, 138.0]), np.array([126, 160, 205.0])
    glow = (1 - y)[..., None] ** 1.5
    picture = dawn * glow + dusk * (1 - glow) + np.zeros((height, width, 1))
    sun = np.hypot((x - 0.68) * width / height, y - 0.42)
    picture += (np.clip(1 - sun / 0.42, 0, 1) ** 2)[..., None] * np.array([60, 50, 30.0])
    picture[sun < 0.075] = (255, 246, 214)
    for number, color in enumerate(((150, 140, 176), (104, 108, 150), (62, 82, 112), (26, 48, 66))):
        ridge = 0.55 + 0.115 * number + 0.05 * np.sin((3 + number) * x * np.pi + 1.7 * number)
        ridge += 0.018 * np.sin((9 + 2 * number) * x * np.pi + number)
        picture[np.broadcast_to(y > ridge, (height, width))] = color
    pale = picture + (255 - picture) * paleness
    pixels: Pixels = np.clip(np.rint(pale), 0, 255).astype(np.uint8)
    return pixels


def _make_enclosure_pdf(renderer: Renderer) -> bytes:
    """A page such as a sender would bring."""
    page = SamplePage(renderer, DEFAULT_STYLE.number, 8.5 * INCH, 11 * INCH)
    page.draw_plain_text("Your garden in spring", INCH, 9.6 * INCH, 28)
    page.draw_plain_text("An additional page, from the sender's own PDF.", INCH, 9.2 * INCH, 12, b".45 g")
    entries = (("March", "Beds dug over, roses pruned"), ("April", "Lawn sown, fence mended"), ("May", "Harvest!"))
    for index, (month, activity) in enumerate(entries):
        bottom = (8.4 - 0.4 * index) * INCH
        page.draw_plain_text(month, INCH, bottom, 14)
        page.draw_plain_text(activity, 2.2 * INCH, bottom, 14)
    page.draw_frame(Box(0.75 * INCH, 0.75 * INCH, 7 * INCH, 9.5 * INCH))
    return page.to_pdf()
