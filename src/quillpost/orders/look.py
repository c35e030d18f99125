"""From an order or a wish to what composition draws."""

from collections.abc import Sequence
from urllib.parse import quote

from quillpost.audience.rules import Person
from quillpost.composition import content
from quillpost.composition.words.variables import fill, values_of
from quillpost.orders.records import Item, Order
from quillpost.orders.rules import Wish


def design(
    look: Wish | Order,
    *,
    sender: content.Sender,
    return_address: content.ReturnAddress,
    front: bytes | None,
    background: bytes | None,
    indicia: Sequence[str],
) -> content.Design:
    return content.Design(
        piece=look.piece,
        message=look.message,
        ink=content.parse_colour(look.handwriting_color).ink,
        font_size=look.font_size,
        realism=look.handwriting_realism,
        front=front,
        background=background,
        sender=sender,
        return_address=return_address,
        indicia=tuple(indicia),
    )


def addressee(whom: Person | Item, *, or_current_resident: bool = False) -> content.Addressee:
    return content.Addressee(
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
    )


def copy(item: Item, order: Order, *, qr_base: str) -> content.Copy:
    """The item as one piece of paper."""
    return content.Copy(
        item_id=item.id,
        design=order.id,
        addressee=addressee(item, or_current_resident=order.append_or_current_resident),
        tracking=item.tracking,
        routing=routing(item.postal_code) if item.country == "US" else "",
        qr_url=f"{qr_base}/q/{item.code}" if item.code else None,
    )


def routing(postal_code: str | None) -> str:
    """The digits of a ZIP or ZIP+4 as the barcode carries them."""
    return (postal_code or "").replace("-", "")


def qr_destination(url: str, whom: content.Addressee, sender: content.Sender) -> str:
    """Where a scan leads, variables filled; a value can never become a part of the address itself."""
    words = values_of(whom, sender)
    return fill(url, {name: quote(word, safe="") for name, word in words.items()})


SPECIMEN_TRACKING = "00310999999000000000"
"""A preview has no serial of its own: these digits are never mailed."""


def specimen(whom: Person, *, or_current_resident: bool, qr_url: str | None) -> content.Copy:
    """The piece for one person as a preview shows it."""
    at_home = whom.country == "US"
    return content.Copy(
        item_id=0,
        design=0,
        addressee=addressee(whom, or_current_resident=or_current_resident),
        tracking=SPECIMEN_TRACKING if at_home else None,
        routing=routing(whom.postal_code) if at_home else "",
        qr_url=qr_url,
    )
