"""Templates as they look on paper: a message in its hand, an image on its piece, small enough for a list."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from quillpost import __version__
from quillpost.accounts.service import Sender
from quillpost.composition import content
from quillpost.composition.content import Addressee, Copy, Design, parse_colour
from quillpost.composition.geometry import INCH
from quillpost.composition.pages.layout import DoesNotFit
from quillpost.composition.pages.sides import Piece
from quillpost.composition.studio import Studio
from quillpost.creative.images import heavy_work
from quillpost.creative.templates import MessageDraft
from quillpost.giftcards.choosing import Brand
from quillpost.kit.recent import Recent
from quillpost.kit.tokens import SPECIMEN_CODE
from quillpost.orders.look import SPECIMEN_TRACKING, giftcard, specimen_claim
from quillpost.orders.resolving import HOUSE_COLOUR, HOUSE_SIZE, HOUSE_STYLE
from quillpost.orders.wish import Gift

SMALL, LARGE = 480, 900
"""How many pixels wide a picture in a list is, and one to look at."""

MOST_BYTES_AT_HAND = 32_000_000
"""Of small pictures: some hundreds of them."""

DRAWN_AS: Final = {"postcard": "postcard-4x6", "postcard6x11": "postcard-6x11"}
"""What composition calls a template's type, where that is not the same word."""

# Whoever writes to nobody in particular sees how it would read to her.
JANE = Addressee(
    name="Jane Doe",
    company="Doe & Daughters",
    address="1200 Barton Springs Rd",
    city="Austin",
    province="TX",
    postal_code="78704",
    country="US",
    email="jane@example.com",
    phone="512-555-0100",
    dob="1984-05-04",
    anniversary="2010-06-12",
    custom=tuple(f"custom {n}" for n in range(1, 11)),
)

_small: Recent[str, bytes] = Recent(most_bytes=MOST_BYTES_AT_HAND, size=len)


@dataclass(frozen=True, slots=True)
class Words:
    """A message to be drawn, and who sends it. `brand` is that of the card that it brings."""

    draft: MessageDraft
    sender: Sender
    brand: Brand | None = None

    @property
    def name(self) -> str:
        """Of all that decides how it looks: another look has another name."""
        return _digest("message", self.draft, self.sender, self.brand)


def image_name(kind: str, file_id: object) -> str:
    """The same for an image, whose file never changes."""
    return _digest("image", kind, file_id)


def small_message(studio: Studio, words: Words, *, qr_base: str) -> bytes:
    """For a list. What is too long for its piece is drawn without its message: the form says why."""

    def draw() -> bytes:
        try:
            return draw_message(studio, words, qr_base=qr_base, width=SMALL)
        except DoesNotFit:
            bare = replace(words, draft=words.draft.changed({"content": " "}))
            return draw_message(studio, bare, qr_base=qr_base, width=SMALL)

    return _small.get(words.name, draw)


def small_image(studio: Studio, kind: str, file_id: object, read: Callable[[], bytes]) -> bytes:
    """The front of the piece with this image."""

    def draw() -> bytes:
        piece = studio.pieces[DRAWN_AS.get(kind, kind)]
        shown = next(name for name, side in piece.previews.items() if piece.side(side).art == "front")
        design = Design(piece=piece.name, message=" ", ink=parse_colour(HOUSE_COLOUR).ink, front=read())
        return _drawn(studio, design, Copy(0, 0, Addressee()), shown, SMALL)

    return _small.get(image_name(kind, file_id), draw)


def draw_message(studio: Studio, words: Words, *, qr_base: str, width: int) -> bytes:
    """The side that the message is on, from the page that would print; `DoesNotFit` says what is too long."""
    draft, sender = words.draft, words.sender
    piece = studio.pieces[DRAWN_AS.get(draft.type, draft.type)]
    gift = _gift(draft, words.brand)
    design = Design(
        piece=piece.name,
        message=draft.content,
        ink=parse_colour(draft.font_color or HOUSE_COLOUR).ink,
        hand=draft.handwriting_style_id or HOUSE_STYLE,
        font_size=draft.font_size or HOUSE_SIZE,
        realism=draft.handwriting_realism is not False,
        giftcard=giftcard(gift),
        sender=content.Sender(sender.name, sender.company),
        return_address=content.ReturnAddress(
            sender.return_name,
            sender.return_address,
            sender.return_address2,
            sender.return_city,
            sender.return_province,
            sender.return_postal_code,
        ),
    )
    copy = Copy(
        item_id=0,
        design=0,
        addressee=JANE,
        tracking=SPECIMEN_TRACKING,
        routing=JANE.postal_code or "",
        qr_url=f"{qr_base}/q/{SPECIMEN_CODE}" if draft.qrcode_url else None,
        claim=specimen_claim(gift, qr_base=qr_base),
    )
    return _drawn(studio, design, copy, message_side(piece), width)


def message_side(piece: Piece) -> str:
    """What previews call the side that the message is on."""
    return next(name for name, side in piece.previews.items() if side == piece.message_side.name)


def _gift(draft: MessageDraft, brand: Brand | None) -> Gift | None:
    """A gift card always shows one: while none is chosen, an empty one stands in its place."""
    if draft.type != "giftcard":
        return None
    if brand is None:
        return Gift("", "Gift card", "#213669", draft.giftcard_amount or 0)
    return Gift(brand.code, brand.title, brand.accent, draft.giftcard_amount or brand.amounts[0])


def _drawn(studio: Studio, design: Design, copy: Copy, shown: str, width: int) -> bytes:
    piece = studio.pieces[design.piece]
    inches = piece.side(piece.previews[shown]).shown.width / INCH
    with heavy_work():
        return studio.preview(design, copy, dpi=round(width / inches), only=shown).sides[shown]


def _digest(*told: object) -> str:
    return hashlib.sha256(repr((__version__, *told)).encode(errors="replace")).hexdigest()[:32]
