"""From an order or a request to what composition draws."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from quillpost.orders.giftcards.rules import SPECIMEN_CLAIM, format_claim
from quillpost.orders.models import GiftcardChoice, Item, Order, OrderBranding, ResolvedRequest
from quillpost.recipients.addresses.service import HOME_COUNTRY
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
    def for_item(cls, item: Item, order: Order) -> "DesignKey":
        return cls(
            order.id,
            item.front_file_id or order.front_file_id,
            item.background_file_id or order.background_file_id,
            order.pages_file_id,
            order.logo_file_id,
        )


def build_design(
    source: ResolvedRequest | Order,
    *,
    sender: rendering_models.SenderName,
    return_address: rendering_models.ReturnAddress,
    front: bytes | None = None,
    background: bytes | None = None,
    pages: bytes | None = None,
    logo: bytes | None = None,
    indicia: Sequence[str],
) -> rendering_models.Design:
    return rendering_models.Design(
        product=source.piece,
        message=source.message,
        ink=rendering_models.parse_color(source.handwriting_color).ink,
        hand=source.style,
        font_size=source.font_size,
        realism=source.handwriting_realism,
        front=front,
        background=background,
        pages=pages,
        pdf_only=source.pdf_only,
        giftcard=build_giftcard(source.gift),
        branding=build_branding(source.brand, logo),
        sender=sender,
        return_address=return_address,
        indicia=tuple(indicia),
    )


def build_branding(brand: OrderBranding | None, logo: bytes | None) -> rendering_models.SenderBranding | None:
    """A sub account's branding as a front without art shows it."""
    if brand is None:
        return None
    accent = rendering_models.parse_color(brand.accent).ink if brand.accent else None
    return rendering_models.SenderBranding(accent, brand.company, brand.contact, brand.disclaimer, logo)


def build_giftcard(gift: GiftcardChoice | None) -> rendering_models.Giftcard | None:
    """The card as it is drawn inside."""
    if gift is None:
        return None
    return rendering_models.Giftcard(gift.title, gift.cents, rendering_models.parse_color(gift.accent).ink)


def build_claim(code: str, *, qr_base: str) -> rendering_models.GiftcardClaim:
    """The way to one card, as its piece shows it: to be typed, and to be scanned."""
    return rendering_models.GiftcardClaim(format_claim(code), f"{qr_base}/gift/{code}")


def build_specimen_claim(gift: GiftcardChoice | None, *, qr_base: str) -> rendering_models.GiftcardClaim | None:
    """What stands in a claim's place wherever a piece is shown and not printed: it opens nothing."""
    return build_claim(SPECIMEN_CLAIM, qr_base=qr_base) if gift else None


def build_designs(
    keys: Iterable[DesignKey],
    orders: Mapping[int, Order],
    read_file: Callable[[UUID | None], bytes | None],
    *,
    indicia: Sequence[str],
) -> dict[DesignKey, rendering_models.Design]:
    """Each of the designs once, with its files."""
    return {
        key: build_design(
            orders[key.order_id],
            sender=orders[key.order_id].sender,
            return_address=orders[key.order_id].return_address,
            front=read_file(key.front),
            background=read_file(key.background),
            pages=read_file(key.pages),
            logo=read_file(key.logo),
            indicia=indicia,
        )
        for key in dict.fromkeys(keys)
    }


def build_addressee(
    recipient: Person | Item, source: ResolvedRequest | Order | None = None
) -> rendering_models.Addressee:
    """The recipient as their piece has them; of an order that says so, "or current resident"."""
    return rendering_models.Addressee(
        name=recipient.name,
        company=recipient.company,
        address=recipient.address,
        address2=recipient.address2,
        city=recipient.city,
        province=recipient.province,
        postal_code=recipient.postal_code,
        country=recipient.country,
        email=recipient.email,
        phone=recipient.phone,
        dob=recipient.dob.isoformat() if recipient.dob else None,
        anniversary=recipient.anniversary.isoformat() if recipient.anniversary else None,
        custom=recipient.custom,
        or_current_resident=source is not None and source.append_or_current_resident,
        standard=recipient.standard,
    )


def build_copy(
    item: Item, order: Order, *, qr_base: str, opt_out: str | None, claim: rendering_models.GiftcardClaim | None = None
) -> rendering_models.Copy:
    """The item as one piece of paper; `opt_out` stands before its code on the line about no more mail. A
    `claim` is the way to the card that it brings."""
    recipient = build_addressee(item, order)
    return rendering_models.Copy(
        item_id=item.id,
        design=DesignKey.for_item(item, order),
        addressee=recipient,
        tracking=item.tracking,
        routing=routing_digits(recipient),
        qr_url=f"{qr_base}/q/{item.code}" if item.code and order.qrcode_url else None,
        claim=claim,
        opt_out=f"{opt_out}{item.code}" if item.code and opt_out else None,
    )


def opt_out_text(qr_base: str) -> str:
    """What stands before a piece's code on the line that says how to get no more mail."""
    return f"Prefer no mail? {qr_base.partition('://')[2]}/stop/"


def routing_digits(recipient: rendering_models.Addressee) -> str:
    """The digits of the printed ZIP or ZIP+4 as the barcode carries them; abroad there are none."""
    *_, postal_code = recipient.address_block
    return (postal_code or "").replace("-", "") if recipient.country == HOME_COUNTRY else ""


def fill_qr_url(url: str, recipient: rendering_models.Addressee, sender: rendering_models.SenderName) -> str:
    """Where a scan leads, variables filled; a value can never become a part of the address itself."""
    return fill_url(url, recipient, sender)


SPECIMEN_TRACKING = "00310999999000000000"
"""A preview has no serial of its own: these digits are never mailed."""


def build_specimen(
    person: Person,
    source: ResolvedRequest | None = None,
    *,
    qr_url: str | None,
    opt_out: str | None,
    claim: rendering_models.GiftcardClaim | None = None,
) -> rendering_models.Copy:
    """The piece for one person as a preview shows it."""
    recipient = build_addressee(person, source)
    return rendering_models.Copy(
        item_id=0,
        design=0,
        addressee=recipient,
        tracking=SPECIMEN_TRACKING if person.country == HOME_COUNTRY else None,
        routing=routing_digits(recipient),
        qr_url=qr_url,
        claim=claim,
        opt_out=opt_out,
    )
