"""From a call to a wish: templates, lists and the sub account are looked up and their settings applied.

What the call says wins, then what its message template says, then the sub account, then the house.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TypeVar

from quillpost.accounts import service as accounts
from quillpost.accounts.billing.prices import tariff_on
from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import SubAccount, read_sub_account, require_sub_account
from quillpost.core.database import Tx
from quillpost.core.errors import Refused
from quillpost.core.stored_files import find_files
from quillpost.orders.images import BACKGROUND, FRONT, PAGES, PDF_ONLY
from quillpost.orders.materialization import longest_people
from quillpost.orders.models import Brand, Source, Wish
from quillpost.orders.products import Cell, Piece, Supplied, missing
from quillpost.orders.requests import Call, Faults
from quillpost.orders.templates.service import (
    ImageTemplate,
    MessageDraft,
    MessageTemplate,
    find_image_template,
    find_message_template,
)
from quillpost.orders.validation import gift_of, landing_of
from quillpost.recipients.lists.queries import MailingList, read_lists
from quillpost.recipients.rules import Person
from quillpost.rendering.text.variables import compile_text

T = TypeVar("T")

HOUSE_STYLE, HOUSE_COLOUR, HOUSE_SIZE, HOUSE_REALISM = 1, "blue", "auto", True
NOTHING_SAVED = MessageDraft(type="", name="")
NO_CODE = Source("qrcode_url")

MESSAGE, MESSAGE_TEMPLATE, IMAGE_TEMPLATE, SUB_ACCOUNT, LISTS = (
    "message", "message_template", "image_template", "sub_account_id", "mailing_list_ids",
)  # fmt: skip

BACKGROUNDS: Mapping[str, str] = {
    "postcard-4x6": "message_background_url",
    "postcard-6x9": "postcard6x9_background_url",
    "magnacard": "message_background_url",
    "notecard": "notecard_background_url",
    "letter": "windowedletter_background_url",
    "windowlessletter": "windowlessletter_background_url",
}
"""Which of a sub account's backgrounds a piece falls back to; a letter's lies under its cover."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A wish with all that the database knows about it. `longest` are made-up people who between them have
    the longest values that the lists hold for the message's variables."""

    wish: Wish
    sender: accounts.Sender
    tariff: Tariff
    longest: list[Person]


def resolve(tx: Tx, who: Caller, call: Call, faults: Faults, *, on: date, measured: bool = True) -> Resolved:
    """Look everything up: what is not the caller's is `Refused`, what does not suit is one more fault.

    Not `measured`, nobody asks for the longest values of its lists, which takes reading them through.
    """
    home = call.sub_account_id if call.sub_account_id is not None else who.sub_account_id
    sub_account = _sub_account(tx, home)
    lists = lists_at_hand(tx, call.mailing_list_ids, home, faults)
    words = _message_template(tx, call, home, faults)
    pdf_only = _pdf_only(call, words)
    call, unused = call.without(call.piece.unused_beside_pdf if pdf_only else ())
    image = _image_template(tx, call, home, faults)
    if image is not None and call.front_image_url:
        unused.append(IMAGE_TEMPLATE)
    wish = _wish(tx, call, sub_account, lists, words, image, pdf_only, unused, faults)
    used = {slot.name for slot in compile_text(wish.message).slots} if lists else set()
    return Resolved(
        wish,
        accounts.sender_of(tx, who, home),
        tariff_on(tx, type=wish.type, size=wish.size, mail_class=wish.mail_class, on=on),
        longest_people(tx, wish.mailing_list_ids, used) if lists and measured else [],
    )


def _wish(
    tx: Tx,
    call: Call,
    sub_account: SubAccount | None,
    lists: Sequence[MailingList],
    words: MessageTemplate | None,
    image: ImageTemplate | None,
    pdf_only: Source | None,
    unused: Sequence[str],
    faults: Faults,
) -> Wish:
    saved, message = words or NOTHING_SAVED, call.own_message
    background = _background(call, sub_account, words)
    # Beside a background of the sender's own, a blank message is a choice: the side is theirs alone.
    is_left_blank = call.message is not None and words is None and background is not None
    supplied = Supplied(
        audience=bool(call.recipients or call.mailing_list_ids or call.radius or "radius_search" in faults),
        front=bool(call.front_image_url or image),
        message=message is not None or is_left_blank,
        message_template=words is not None,
        pdf_only=pdf_only is not None,
    )
    for name, what_to_do in missing(call.piece, supplied).items():
        faults.setdefault(name, []).append(what_to_do)
    front = None if pdf_only else _front(tx, call, sub_account, image)
    code = NO_CODE if pdf_only else _code(call, saved, lists)
    is_bare = front is None and not call.piece.is_letter and sub_account is not None
    return Wish(
        type=call.piece.type(call.size),
        size=call.size,
        piece=call.piece.drawn_as(call.size),
        message="" if pdf_only else message or saved.content,
        message_field=MESSAGE if message is not None or words is None else MESSAGE_TEMPLATE,
        style=_first(call.style, saved.handwriting_style_id, HOUSE_STYLE),
        handwriting_color=_first(call.handwriting_color, saved.font_color, HOUSE_COLOUR),
        handwriting_realism=_first(call.handwriting_realism, saved.handwriting_realism, HOUSE_REALISM),
        font_size=_first(call.font_size, saved.font_size, HOUSE_SIZE),
        recipients=call.recipients,
        mailing_list_ids=[one.id for one in lists],
        radius=call.radius,
        sub_account_id=sub_account.id if sub_account else None,
        message_template_id=call.message_template_id,
        image_template_id=call.image_template_id,
        front=front,
        background=background,
        pages=pdf_only or _pages(call, words),
        pdf_only=pdf_only is not None,
        pdf_left_out=pdf_only is None and bool(words and words.pdf_only_url),
        unused=unused,
        brand=brand_of(sub_account.branding) if is_bare and sub_account else None,
        logo=logo_of(sub_account.branding) if is_bare and sub_account else None,
        qrcode_url=code.url,
        qrcode_field=code.field,
        qrcode_part=code.part,
        return_address=call.return_address,
        mail_class=call.mail_class,
        append_or_current_resident=call.append_or_current_resident,
        allow_duplicates=call.allow_duplicates,
        notification_emails=list(dict.fromkeys([*call.notification_emails, *saved.cc_emails])),
        metadata=call.metadata,
        schedule_for=call.schedule_for,
        preview_recipient=call.preview_recipient,
        gift=gift_of(tx, call, words, faults),
        landing=landing_of(call, words),
    )


def _first(*choices: T | None) -> T:
    """The first that was given; the last is the house's own."""
    return next(choice for choice in choices if choice is not None)


def _sub_account(tx: Tx, home: int | None) -> SubAccount | None:
    if home is None:
        return None
    require_sub_account(tx, home)
    return read_sub_account(tx, home)


def _is_at_hand(owner: int | None, home: int | None) -> bool:
    """A send uses what belongs to its own sub account, or to none."""
    return owner is None or owner == home


def lists_at_hand(
    tx: Tx, list_ids: Sequence[int], home: int | None, faults: Faults, *, held: bool = False
) -> list[MailingList]:
    """The lists that a send of this sub account mails to; `held`, they stay so until the transaction ends."""
    if not list_ids:
        return []
    found = read_lists(tx, list_ids, held=held)
    if not all(_is_at_hand(one.sub_account_id, home) for one in found):
        raise Refused("Mailing List Does Not Exist")
    for one in found:
        if not one.processed:
            told = f"List {one.id} is being filled: send when its processed is true, or cancel the import."
            faults.setdefault(LISTS, []).append(told)
        if one.is_suppression_list:
            told = f"List {one.id} is a suppression list: nobody on it is mailed to."
            faults.setdefault(LISTS, []).append(told)
    return found


def _code(call: Call, saved: MessageDraft, lists: Sequence[MailingList]) -> Source:
    """The call's QR code, else its template's, else that of the first list which has one."""
    if not call.qrcode_url and saved.qrcode_url:
        return Source(MESSAGE_TEMPLATE, saved.qrcode_url, part="its qrcode_url")
    of_list = next((one for one in lists if one.qrcode_url), None)
    if not call.qrcode_url and of_list is not None:
        return Source(LISTS, of_list.qrcode_url, part=f"the qrcode_url of list {of_list.id}")
    return replace(NO_CODE, url=call.qrcode_url or None)


def _message_template(tx: Tx, call: Call, home: int | None, faults: Faults) -> MessageTemplate | None:
    if call.message_template_id is None:
        return None
    found = find_message_template(tx, call.message_template_id)
    if not _is_at_hand(found.sub_account_id, home):
        raise Refused("Message Template does not exist")
    _check_type(MESSAGE_TEMPLATE, found.type, {call.piece.type(call.size)}, faults)
    return found


def _image_template(tx: Tx, call: Call, home: int | None, faults: Faults) -> ImageTemplate | None:
    if call.image_template_id is None:
        return None
    found = find_image_template(tx, call.image_template_id)
    if not _is_at_hand(found.sub_account_id, home):
        raise Refused("Image Template does not exist")
    _check_type(IMAGE_TEMPLATE, found.type, {_image_type(call.piece)}, faults)
    return found


def _image_type(piece: Piece) -> str:
    """Images know postcards of all sizes as one type, and a magnacard has a postcard's front."""
    return "postcard" if piece.name == "magnacard" else piece.name


def _check_type(field: str, has: str, wanted: Collection[str], faults: Faults) -> None:
    if has not in wanted:
        told = f"This template is of type {has}; this piece needs one of type {' or '.join(wanted)}."
        faults.setdefault(field, []).append(told)


def _pdf_only(call: Call, words: MessageTemplate | None) -> Source | None:
    """The PDF that is the whole letter. A message of the call's own makes it a letter with a cover again."""
    if call.pdf_only_url:
        return Source(PDF_ONLY, call.pdf_only_url)
    if call.own_message is None and words is not None and words.pdf_only_url:
        return Source(MESSAGE_TEMPLATE, words.pdf_only_url, part="its pdf_only_url")
    return None


def _pages(call: Call, words: MessageTemplate | None) -> Source | None:
    if not call.piece.is_letter:
        return None
    if call.additional_pages_url:
        return Source(PAGES, call.additional_pages_url)
    if words is not None and words.additional_pages:
        return Source(MESSAGE_TEMPLATE, words.additional_pages, part="its additional_pages")
    return None


def _front(tx: Tx, call: Call, sub_account: SubAccount | None, image: ImageTemplate | None) -> Source | None:
    if call.front_image_url:
        return Source(FRONT, call.front_image_url)
    if image is not None:
        return Source(IMAGE_TEMPLATE, file=find_files(tx, [image.image_file_id])[image.image_file_id])
    return _fallback(call, sub_account) if call.piece.is_letter else None


def _background(call: Call, sub_account: SubAccount | None, words: MessageTemplate | None) -> Source | None:
    """The matrix speaks of the call's own field; a template's background is printed where a piece has one."""
    if call.piece.is_letter:
        return None
    if call.background_url and call.piece.background is not Cell.NOT_USED:
        return Source(BACKGROUND, call.background_url)
    if not call.use_custom_background:
        return None
    if words is not None and words.custom_background_url:
        return Source(MESSAGE_TEMPLATE, words.custom_background_url, part="its custom_background_url")
    return _fallback(call, sub_account)


def _fallback(call: Call, sub_account: SubAccount | None) -> Source | None:
    name = BACKGROUNDS.get(call.piece.drawn_as(call.size))
    url = sub_account.backgrounds.get(name) if sub_account and name else None
    if not url or not call.use_custom_background:
        return None
    return Source(SUB_ACCOUNT, url, part=f"its {name}")


def brand_of(branding: Mapping[str, str | None]) -> Brand | None:
    """What of a sub account's branding a front without art shows."""
    told = (branding.get("phone"), branding.get("domain") or branding.get("email"))
    brand = Brand(
        accent=branding.get("accentColor"),
        company=branding.get("company") or branding.get("name"),
        contact=" · ".join(part for part in told if part) or None,
        disclaimer=branding.get("disclaimer"),
    )
    return brand if brand != Brand() or logo_of(branding) else None


def logo_of(branding: Mapping[str, str | None]) -> Source | None:
    """A logo may also be kept as a word, which is not printed."""
    url = branding.get("logo") or ""
    return Source(SUB_ACCOUNT, url, part="its logo") if "://" in url else None
