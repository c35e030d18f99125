"""From an order or a wish to what composition draws."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from quillpost.orders.giftcards.rules import SPECIMEN, spelled
from quillpost.orders.models import Brand, Gift, Item, Order, Wish
from quillpost.recipients.addresses.service import HOME
from quillpost.recipients.rules import Person
from quillpost.rendering import models as rendering_models
from quillpost.rendering.text.variables import fill_url


class DesignKey(NamedTuple):
    """Which design a piece is drawn from: its order's, with these files."""

    order_id: int
    front: UUID | None
    background: UUID | None
    pages: UUID | None = None
    logo: UUID | None = None

    @classmethod
    def of(cls, item: Item, order: Order) -> "DesignKey":
        return cls(
            order.id,
            item.front_file_id or order.front_file_id,
            item.background_file_id or order.background_file_id,
            order.pages_file_id,
            order.logo_file_id,
        )


def design(
    look: Wish | Order,
    *,
    sender: rendering_models.Sender,
    return_address: rendering_models.ReturnAddress,
    front: bytes | None = None,
    background: bytes | None = None,
    pages: bytes | None = None,
    logo: bytes | None = None,
    indicia: Sequence[str],
) -> rendering_models.Design:
    return rendering_models.Design(
        piece=look.piece,
        message=look.message,
        ink=rendering_models.parse_colour(look.handwriting_color).ink,
        hand=look.style,
        font_size=look.font_size,
        realism=look.handwriting_realism,
        front=front,
        background=background,
        pages=pages,
        pdf_only=look.pdf_only,
        giftcard=giftcard(look.gift),
        branding=branding(look.brand, logo),
        sender=sender,
        return_address=return_address,
        indicia=tuple(indicia),
    )


def branding(brand: Brand | None, logo: bytes | None) -> rendering_models.Branding | None:
    """A sub account's branding as a front without art shows it."""
    if brand is None:
        return None
    accent = rendering_models.parse_colour(brand.accent).ink if brand.accent else None
    return rendering_models.Branding(accent, brand.company, brand.contact, brand.disclaimer, logo)


def giftcard(gift: Gift | None) -> rendering_models.Giftcard | None:
    """The card as it is drawn inside."""
    if gift is None:
        return None
    return rendering_models.Giftcard(gift.title, gift.cents, rendering_models.parse_colour(gift.accent).ink)


def printed_claim(code: str, *, qr_base: str) -> rendering_models.Claim:
    """The way to one card, as its piece shows it: to be typed, and to be scanned."""
    return rendering_models.Claim(spelled(code), f"{qr_base}/gift/{code}")


def specimen_claim(gift: Gift | None, *, qr_base: str) -> rendering_models.Claim | None:
    """What stands in a claim's place wherever a piece is shown and not printed: it opens nothing."""
    return printed_claim(SPECIMEN, qr_base=qr_base) if gift else None


def designs(
    keys: Iterable[DesignKey],
    orders: Mapping[int, Order],
    file: Callable[[UUID | None], bytes | None],
    *,
    indicia: Sequence[str],
) -> dict[DesignKey, rendering_models.Design]:
    """Each of the designs once, with its files."""
    return {
        key: design(
            orders[key.order_id],
            sender=orders[key.order_id].sender,
            return_address=orders[key.order_id].return_address,
            front=file(key.front),
            background=file(key.background),
            pages=file(key.pages),
            logo=file(key.logo),
            indicia=indicia,
        )
        for key in dict.fromkeys(keys)
    }


def addressee(whom: Person | Item, *, or_current_resident: bool = False) -> rendering_models.Addressee:
    return rendering_models.Addressee(
        name=whom.name,
        company=whom.company,
        address=whom.address,
        address2=whom.address2,
        city=whom.city,
        province=whom.province,
        postal_code=whom.postal_code,
        country=whom.country,
        email=whom.email,
        phone=whom.phone,
        dob=whom.dob.isoformat() if whom.dob else None,
        anniversary=whom.anniversary.isoformat() if whom.anniversary else None,
        custom=whom.custom,
        or_current_resident=or_current_resident,
        standard=whom.standard,
    )


def copy(
    item: Item,
    order: Order,
    *,
    qr_base: str,
    opt_out: str | None,
    claim: rendering_models.Claim | None = None,
) -> rendering_models.Copy:
    """The item as one piece of paper; `opt_out` stands before its code on the line about no more mail. A
    `claim` is the way to the card that it brings."""
    whom = addressee(item, or_current_resident=order.append_or_current_resident)
    return rendering_models.Copy(
        item_id=item.id,
        design=DesignKey.of(item, order),
        addressee=whom,
        tracking=item.tracking,
        routing=routing(whom),
        qr_url=f"{qr_base}/q/{item.code}" if item.code and order.qrcode_url else None,
        claim=claim,
        opt_out=f"{opt_out}{item.code}" if item.code and opt_out else None,
    )


def opt_out_words(qr_base: str) -> str:
    """What stands before a piece's code on the line that says how to get no more mail."""
    return f"Prefer no mail? {qr_base.partition('://')[2]}/stop/"


def routing(whom: rendering_models.Addressee) -> str:
    """The digits of the printed ZIP or ZIP+4 as the barcode carries them; abroad there are none."""
    *_, postal_code = whom.block
    return (postal_code or "").replace("-", "") if whom.country == HOME else ""


def qr_destination(url: str, whom: rendering_models.Addressee, sender: rendering_models.Sender) -> str:
    """Where a scan leads, variables filled; a value can never become a part of the address itself."""
    return fill_url(url, whom, sender)


SPECIMEN_TRACKING = "00310999999000000000"
"""A preview has no serial of its own: these digits are never mailed."""


def specimen(
    whom: Person,
    *,
    or_current_resident: bool,
    qr_url: str | None,
    opt_out: str | None,
    claim: rendering_models.Claim | None = None,
) -> rendering_models.Copy:
    """The piece for one person as a preview shows it."""
    reader = addressee(whom, or_current_resident=or_current_resident)
    return rendering_models.Copy(
        item_id=0,
        design=0,
        addressee=reader,
        tracking=SPECIMEN_TRACKING if whom.country == HOME else None,
        routing=routing(reader),
        qr_url=qr_url,
        claim=claim,
        opt_out=opt_out,
    )
