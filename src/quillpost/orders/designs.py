"""What is printed: an order's design, each item's copy, and the longest values that must fit."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items, recipients
from quillpost.orders.giftcards.rules import SPECIMEN_CLAIM, format_claim
from quillpost.orders.handwriting.models import OwnHandwriting
from quillpost.orders.items.models import Item
from quillpost.orders.models import GiftcardChoice, Order, OrderBranding, ResolvedRequest
from quillpost.orders.rules import ItemStatus
from quillpost.recipients.addresses.rules import HOME_COUNTRY
from quillpost.recipients.models import CUSTOM_FIELDS, Person
from quillpost.recipients.queries import lacks_address_parts_sql
from quillpost.rendering import models as rendering_models


class DesignKey(NamedTuple):
    """Identifies the design of an item: its order's, with these files."""

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
    own_handwriting: OwnHandwriting,
    sender: rendering_models.SenderName,
    return_address: rendering_models.ReturnAddress,
    front: bytes | None = None,
    background: bytes | None = None,
    pages: bytes | None = None,
    logo: bytes | None = None,
    indicia: Sequence[str],
) -> rendering_models.Design:
    handwriting = source.handwriting
    return rendering_models.Design(
        product=source.piece,
        message=source.message,
        ink=rendering_models.parse_color(handwriting.color).ink,
        hand=handwriting.style,
        own_hand=own_handwriting.hand,
        signature=own_handwriting.signature,
        font_size=handwriting.size,
        manner=handwriting.manner,
        front=front,
        background=background,
        pages=pages,
        pdf_only=source.pdf_only,
        giftcard=build_giftcard(source.gift) if source.gift else None,
        branding=build_branding(source.brand, logo) if source.brand else None,
        sender=sender,
        return_address=return_address,
        indicia=tuple(indicia),
    )


def build_branding(brand: OrderBranding, logo: bytes | None) -> rendering_models.SenderBranding:
    accent = rendering_models.parse_color(brand.accent).ink if brand.accent else None
    return rendering_models.SenderBranding(accent, brand.company, brand.contact, brand.disclaimer, logo)


def build_giftcard(gift: GiftcardChoice) -> rendering_models.Giftcard:
    return rendering_models.Giftcard(gift.title, gift.cents, rendering_models.parse_color(gift.accent).ink)


def build_claim(code: str, *, qr_base: str) -> rendering_models.GiftcardClaim:
    """How to claim one card: typed and scanned."""
    return rendering_models.GiftcardClaim(format_claim(code), f"{qr_base}/gift/{code}")


def build_specimen_claim(gift: GiftcardChoice | None, *, qr_base: str) -> rendering_models.GiftcardClaim | None:
    """The claim that previews and proofs show; it opens nothing."""
    return build_claim(SPECIMEN_CLAIM, qr_base=qr_base) if gift else None


def build_designs(
    keys: Iterable[DesignKey],
    orders: Mapping[int, Order],
    own_handwriting: Mapping[int, OwnHandwriting],
    read_file: Callable[[UUID | None], bytes | None],
    *,
    indicia: Sequence[str],
) -> dict[DesignKey, rendering_models.Design]:
    return {
        key: build_design(
            orders[key.order_id],
            own_handwriting=own_handwriting[key.order_id],
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
    """The recipient as printed; with "or current resident" where the order says so."""
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
    """The item as one piece of paper. `opt_out` precedes its code on the opt-out line; `claim` is for its card."""
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
    """The text before an item's code on the opt-out line."""
    return f"Prefer no mail? {qr_base.partition('://')[2]}/stop/"


def routing_digits(recipient: rendering_models.Addressee) -> str:
    """The digits of the printed ZIP or ZIP+4 in the barcode; empty abroad."""
    *_, postal_code = recipient.address_block
    return (postal_code or "").replace("-", "") if recipient.country == HOME_COUNTRY else ""


SPECIMEN_TRACKING = "00310999999000000000"
"""For previews; never mailed."""


def build_specimen(
    person: Person,
    source: ResolvedRequest | None = None,
    *,
    qr_url: str | None,
    opt_out: str | None,
    claim: rendering_models.GiftcardClaim | None = None,
) -> rendering_models.Copy:
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


VARIABLE_FIELDS = {
    "COMPANY": "company",
    "ADDRESS": "address",
    "ADDRESS2": "address2",
    "CITY": "city",
    "STATE": "province",
    "PROVINCE": "province",
    "ZIP": "postal_code",
    "POSTAL_CODE": "postal_code",
    "EMAIL": "email",
    "PHONE": "phone",
    **{name.upper(): name for name in CUSTOM_FIELDS},
}


DATE_VARIABLE_FIELDS = {"DOB": "dob", "ANNIVERSARY": "anniversary"}
"""The field of a person that a variable shows; names are split."""


ADDRESS_FIELDS = ("company", "address", "address2", "city", "province", "postal_code")


NAME_PARTS: Mapping[str, Callable[[list[str]], str]] = {
    "FIRST_NAME": lambda words: words[0],
    "LAST_NAME": lambda words: words[-1],
    "FULL_NAME": " ".join,
    "NAME": " ".join,
}


def longest_on_lists(tx: Tx, list_ids: Sequence[int], variables: Collection[str]) -> list[Person]:
    """Made-up people who between them have the longest value of each variable on the lists; at least one."""
    has_full_address = sa.text(f"not {lacks_address_parts_sql('recipients')}")
    is_mailed = sa.and_(recipients.c.mailing_list_id.in_(list_ids), recipients.c.address.is_not(None), has_full_address)
    return _select_longest(tx, recipients, is_mailed, variables)


def longest_of_people(people: Sequence[Person], variables: Collection[str]) -> list[Person]:
    """The same of these people, of whom only names and addresses are known."""
    fields = {VARIABLE_FIELDS[name] for name in variables if name in VARIABLE_FIELDS} & set(ADDRESS_FIELDS)
    longest_values: dict[str, Any] = {
        field: max((getattr(person, field) or "" for person in people), key=len, default=None) for field in fields
    }
    parts = [extract for name, extract in NAME_PARTS.items() if name in variables]
    names = dict.fromkeys(_longest_name(people, extract) for extract in parts) or {None: None}
    return [Person(name=name, **longest_values) for name in names]


def _longest_name(people: Sequence[Person], extract: Callable[[list[str]], str]) -> str | None:
    names = [person.name for person in people if person.name]
    return max(names, key=lambda name: len(extract(name.split() or [""])), default=None)


def longest_in_order(tx: Tx, order_id: int, variables: Collection[str]) -> list[Person]:
    """The same of the items that came from an order's lists."""
    is_processing = (items.c.order_id == order_id) & (items.c.status == ItemStatus.PROCESSING.value)
    return _select_longest(tx, items, is_processing & items.c.mailing_list_id.is_not(None), variables)


def _select_longest(
    tx: Tx, people_table: sa.Table, condition: sa.ColumnElement[bool], variables: Collection[str]
) -> list[Person]:
    fields = {VARIABLE_FIELDS[name] for name in variables if name in VARIABLE_FIELDS}
    days = {DATE_VARIABLE_FIELDS[name] for name in variables if name in DATE_VARIABLE_FIELDS}
    name_columns = {
        name: name_part for name, name_part in _name_part_columns(people_table).items() if name in variables
    }
    columns = [
        *(_longest_value(people_table.c[field], people_table.c[field]).label(field) for field in fields),
        *(sa.func.max(people_table.c[day]).label(day) for day in days),
        *(_longest_value(people_table.c.name, name_part).label(name) for name, name_part in name_columns.items()),
    ]
    if not columns:
        return [Person()]
    longest_row = tx.execute(sa.select(*columns).where(condition)).one()._mapping
    shared_values = {name: longest_row[name] for name in fields | days if name not in CUSTOM_FIELDS}
    custom = tuple(longest_row[name] if name in fields else None for name in CUSTOM_FIELDS)
    full_names = dict.fromkeys(longest_row[name] for name in name_columns) or {None: None}
    return [Person(name=name, **shared_values, custom=custom) for name in full_names]


def _name_part_columns(people_table: sa.Table) -> dict[str, sa.ColumnElement[str]]:
    """About the part of a name that a variable shows; titles are left to rendering."""
    full_name = sa.func.btrim(people_table.c.name)
    return {
        "FIRST_NAME": sa.func.split_part(full_name, " ", 1),
        "LAST_NAME": sa.func.split_part(full_name, " ", -1),
        "FULL_NAME": full_name,
        "NAME": full_name,
    }


def _longest_value(value: sa.ColumnElement[Any], measured_text: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The value of the row with the longest measured text, in one pass: padded lengths sort as text."""
    length = sa.func.lpad(sa.cast(sa.func.length(measured_text), sa.Text), 6, "0")
    return sa.func.substr(sa.func.max((length + value).collate("C")), 7)
