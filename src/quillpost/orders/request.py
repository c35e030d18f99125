"""From a call to a wish: templates, lists and the sub account are looked up and their settings applied.

What the call says wins, then what its message template says, then the sub account, then the house.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TypeVar

from quillpost.accounts import service as account_service
from quillpost.accounts.billing.prices import read_tariff
from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import SubAccount, read_sub_account, require_sub_account
from quillpost.core.database import Tx
from quillpost.core.errors import Refused
from quillpost.core.stored_files import find_files
from quillpost.orders.images import BACKGROUND_FIELD, FRONT_FIELD, PAGES_FIELD, PDF_ONLY_FIELD
from quillpost.orders.materialization import longest_on_lists
from quillpost.orders.models import ContentSource, OrderBranding, OrderRequest
from quillpost.orders.products import FieldRequirement, Product, SuppliedFields, check_required_fields
from quillpost.orders.requests import FieldErrors, SendRequest
from quillpost.orders.templates.service import (
    ImageTemplate,
    MessageTemplate,
    MessageTemplateValues,
    find_image_template,
    find_message_template,
)
from quillpost.orders.validation import choose_giftcard, landing_page_source
from quillpost.recipients.lists.queries import MailingList, read_lists
from quillpost.recipients.rules import Person
from quillpost.rendering.text.variables import compile_template

T = TypeVar("T")

DEFAULT_STYLE, DEFAULT_COLOR, DEFAULT_FONT_SIZE, DEFAULT_REALISM = 1, "blue", "auto", True
EMPTY_TEMPLATE = MessageTemplateValues(type="", name="")
NO_QR_SOURCE = ContentSource("qrcode_url")

MESSAGE_FIELD, MESSAGE_TEMPLATE_FIELD, IMAGE_TEMPLATE_FIELD, SUB_ACCOUNT_FIELD, LISTS_FIELD = (
    "message", "message_template", "image_template", "sub_account_id", "mailing_list_ids",
)  # fmt: skip

BACKGROUND_SETTINGS: Mapping[str, str] = {
    "postcard-4x6": "message_background_url",
    "postcard-6x9": "postcard6x9_background_url",
    "magnacard": "message_background_url",
    "notecard": "notecard_background_url",
    "letter": "windowedletter_background_url",
    "windowlessletter": "windowlessletter_background_url",
}
"""Which of a sub account's backgrounds a piece falls back to; a letter's lies under its cover."""


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A wish with all that the database knows about it. `longest_people` are made-up people who between them have
    the longest values that the lists hold for the message's variables."""

    request: OrderRequest
    sender: account_service.SenderProfile
    tariff: Tariff
    longest_people: list[Person]


def resolve_request(
    tx: Tx,
    caller: Caller,
    send_request: SendRequest,
    errors: FieldErrors,
    *,
    price_date: date,
    measures_longest: bool = True,
) -> ResolvedRequest:
    """Look everything up: what is not the caller's is `Refused`, what does not suit is one more fault.

    Not `measures_longest`, nobody asks for the longest values of its lists, which takes reading them through.
    """
    sub_account_id = send_request.sub_account_id if send_request.sub_account_id is not None else caller.sub_account_id
    sub_account = _read_sub_account(tx, sub_account_id)
    lists = read_usable_lists(tx, send_request.mailing_list_ids, sub_account_id, errors)
    message_template = _find_message_template(tx, send_request, sub_account_id, errors)
    pdf_source = _pdf_only_source(send_request, message_template)
    send_request, unused_fields = send_request.without(send_request.product.unused_beside_pdf if pdf_source else ())
    image_template = _find_image_template(tx, send_request, sub_account_id, errors)
    if image_template is not None and send_request.front_image_url:
        unused_fields.append(IMAGE_TEMPLATE_FIELD)
    request = _build_request(
        tx, send_request, sub_account, lists, message_template, image_template, pdf_source, unused_fields, errors
    )
    variables = {slot.name for slot in compile_template(request.message).slots} if lists else set()
    return ResolvedRequest(
        request,
        account_service.read_sender(tx, caller, sub_account_id),
        read_tariff(tx, type=request.type, size=request.size, mail_class=request.mail_class, on=price_date),
        longest_on_lists(tx, request.mailing_list_ids, variables) if lists and measures_longest else [],
    )


def _build_request(
    tx: Tx,
    send_request: SendRequest,
    sub_account: SubAccount | None,
    lists: Sequence[MailingList],
    message_template: MessageTemplate | None,
    image_template: ImageTemplate | None,
    pdf_source: ContentSource | None,
    unused_fields: Sequence[str],
    errors: FieldErrors,
) -> OrderRequest:
    template_values, message = message_template or EMPTY_TEMPLATE, send_request.own_message
    background = _background_source(send_request, sub_account, message_template)
    # Beside a background of the sender's own, a blank message is a choice: the side is theirs alone.
    is_left_blank = send_request.message is not None and message_template is None and background is not None
    supplied = SuppliedFields(
        audience=bool(
            send_request.recipients
            or send_request.mailing_list_ids
            or send_request.radius_search
            or "radius_search" in errors
        ),
        front=bool(send_request.front_image_url or image_template),
        message=message is not None or is_left_blank,
        message_template=message_template is not None,
        pdf_only=pdf_source is not None,
    )
    for name, advice in check_required_fields(send_request.product, supplied).items():
        errors.setdefault(name, []).append(advice)
    front = None if pdf_source else _front_source(tx, send_request, sub_account, image_template)
    qr_source = NO_QR_SOURCE if pdf_source else _qr_source(send_request, template_values, lists)
    shows_branding = front is None and not send_request.product.is_letter and sub_account is not None
    return OrderRequest(
        type=send_request.product.order_type(send_request.size),
        size=send_request.size,
        piece=send_request.product.layout_name(send_request.size),
        message="" if pdf_source else message or template_values.content,
        message_field=MESSAGE_FIELD if message is not None or message_template is None else MESSAGE_TEMPLATE_FIELD,
        style=_first_set(send_request.style, template_values.handwriting_style_id, DEFAULT_STYLE),
        handwriting_color=_first_set(send_request.handwriting_color, template_values.font_color, DEFAULT_COLOR),
        handwriting_realism=_first_set(
            send_request.handwriting_realism, template_values.handwriting_realism, DEFAULT_REALISM
        ),
        font_size=_first_set(send_request.font_size, template_values.font_size, DEFAULT_FONT_SIZE),
        recipients=send_request.recipients,
        mailing_list_ids=[mailing_list.id for mailing_list in lists],
        radius_search=send_request.radius_search,
        sub_account_id=sub_account.id if sub_account else None,
        message_template_id=send_request.message_template_id,
        image_template_id=send_request.image_template_id,
        front=front,
        background=background,
        pages=pdf_source or _pages_source(send_request, message_template),
        pdf_only=pdf_source is not None,
        template_pdf_ignored=pdf_source is None and bool(message_template and message_template.pdf_only_url),
        unused_fields=unused_fields,
        brand=build_branding(sub_account.branding) if shows_branding and sub_account else None,
        logo=logo_source(sub_account.branding) if shows_branding and sub_account else None,
        qrcode_url=qr_source.url,
        qrcode_field=qr_source.field,
        qrcode_part=qr_source.part,
        return_address=send_request.return_address,
        mail_class=send_request.mail_class,
        append_or_current_resident=send_request.append_or_current_resident,
        allow_duplicates=send_request.allow_duplicates,
        notification_emails=list(dict.fromkeys([*send_request.notification_emails, *template_values.cc_emails])),
        metadata=send_request.metadata,
        schedule_for=send_request.schedule_for,
        preview_recipient=send_request.preview_recipient,
        gift=choose_giftcard(tx, send_request, message_template, errors),
        landing_source=landing_page_source(send_request, message_template),
    )


def _first_set(*choices: T | None) -> T:
    """The first that was given; the last is the house's own."""
    return next(choice for choice in choices if choice is not None)


def _read_sub_account(tx: Tx, sub_account_id: int | None) -> SubAccount | None:
    if sub_account_id is None:
        return None
    require_sub_account(tx, sub_account_id)
    return read_sub_account(tx, sub_account_id)


def _is_usable(owner_id: int | None, sub_account_id: int | None) -> bool:
    """A send uses what belongs to its own sub account, or to none."""
    return owner_id is None or owner_id == sub_account_id


def read_usable_lists(
    tx: Tx, list_ids: Sequence[int], sub_account_id: int | None, errors: FieldErrors, *, locked: bool = False
) -> list[MailingList]:
    """The lists that a send of this sub account mails to; `locked`, they stay so until the transaction ends."""
    if not list_ids:
        return []
    mailing_lists = read_lists(tx, list_ids, lock=locked)
    if not all(_is_usable(mailing_list.sub_account_id, sub_account_id) for mailing_list in mailing_lists):
        raise Refused("Mailing List Does Not Exist")
    for mailing_list in mailing_lists:
        if not mailing_list.processed:
            message = f"List {mailing_list.id} is being filled: send when its processed is true, or cancel the import."
            errors.setdefault(LISTS_FIELD, []).append(message)
        if mailing_list.is_suppression_list:
            message = f"List {mailing_list.id} is a suppression list: nobody on it is mailed to."
            errors.setdefault(LISTS_FIELD, []).append(message)
    return mailing_lists


def _qr_source(
    send_request: SendRequest, template_values: MessageTemplateValues, lists: Sequence[MailingList]
) -> ContentSource:
    """The call's QR code, else its template's, else that of the first list which has one."""
    if not send_request.qrcode_url and template_values.qrcode_url:
        return ContentSource(MESSAGE_TEMPLATE_FIELD, template_values.qrcode_url, part="its qrcode_url")
    list_with_qr = next((mailing_list for mailing_list in lists if mailing_list.qrcode_url), None)
    if not send_request.qrcode_url and list_with_qr is not None:
        return ContentSource(LISTS_FIELD, list_with_qr.qrcode_url, part=f"the qrcode_url of list {list_with_qr.id}")
    return replace(NO_QR_SOURCE, url=send_request.qrcode_url or None)


def _find_message_template(
    tx: Tx, send_request: SendRequest, sub_account_id: int | None, errors: FieldErrors
) -> MessageTemplate | None:
    if send_request.message_template_id is None:
        return None
    template = find_message_template(tx, send_request.message_template_id)
    if not _is_usable(template.sub_account_id, sub_account_id):
        raise Refused("Message Template does not exist")
    _check_template_type(
        MESSAGE_TEMPLATE_FIELD, template.type, {send_request.product.order_type(send_request.size)}, errors
    )
    return template


def _find_image_template(
    tx: Tx, send_request: SendRequest, sub_account_id: int | None, errors: FieldErrors
) -> ImageTemplate | None:
    if send_request.image_template_id is None:
        return None
    template = find_image_template(tx, send_request.image_template_id)
    if not _is_usable(template.sub_account_id, sub_account_id):
        raise Refused("Image Template does not exist")
    _check_template_type(IMAGE_TEMPLATE_FIELD, template.type, {_image_template_type(send_request.product)}, errors)
    return template


def _image_template_type(product: Product) -> str:
    """Images know postcards of all sizes as one type, and a magnacard has a postcard's front."""
    return "postcard" if product.name == "magnacard" else product.name


def _check_template_type(field: str, template_type: str, allowed_types: Collection[str], errors: FieldErrors) -> None:
    if template_type not in allowed_types:
        message = (
            f"This template is of type {template_type}; this piece needs one of type {' or '.join(allowed_types)}."
        )
        errors.setdefault(field, []).append(message)


def _pdf_only_source(send_request: SendRequest, message_template: MessageTemplate | None) -> ContentSource | None:
    """The PDF that is the whole letter. A message of the call's own makes it a letter with a cover again."""
    if send_request.pdf_only_url:
        return ContentSource(PDF_ONLY_FIELD, send_request.pdf_only_url)
    if send_request.own_message is None and message_template is not None and message_template.pdf_only_url:
        return ContentSource(MESSAGE_TEMPLATE_FIELD, message_template.pdf_only_url, part="its pdf_only_url")
    return None


def _pages_source(send_request: SendRequest, message_template: MessageTemplate | None) -> ContentSource | None:
    if not send_request.product.is_letter:
        return None
    if send_request.additional_pages_url:
        return ContentSource(PAGES_FIELD, send_request.additional_pages_url)
    if message_template is not None and message_template.additional_pages:
        return ContentSource(MESSAGE_TEMPLATE_FIELD, message_template.additional_pages, part="its additional_pages")
    return None


def _front_source(
    tx: Tx, send_request: SendRequest, sub_account: SubAccount | None, image_template: ImageTemplate | None
) -> ContentSource | None:
    if send_request.front_image_url:
        return ContentSource(FRONT_FIELD, send_request.front_image_url)
    if image_template is not None:
        return ContentSource(
            IMAGE_TEMPLATE_FIELD, file=find_files(tx, [image_template.image_file_id])[image_template.image_file_id]
        )
    return _sub_account_background(send_request, sub_account) if send_request.product.is_letter else None


def _background_source(
    send_request: SendRequest, sub_account: SubAccount | None, message_template: MessageTemplate | None
) -> ContentSource | None:
    """The matrix speaks of the call's own field; a template's background is printed where a piece has one."""
    if send_request.product.is_letter:
        return None
    if send_request.background_url and send_request.product.background is not FieldRequirement.NOT_USED:
        return ContentSource(BACKGROUND_FIELD, send_request.background_url)
    if not send_request.use_custom_background:
        return None
    if message_template is not None and message_template.custom_background_url:
        return ContentSource(
            MESSAGE_TEMPLATE_FIELD, message_template.custom_background_url, part="its custom_background_url"
        )
    return _sub_account_background(send_request, sub_account)


def _sub_account_background(send_request: SendRequest, sub_account: SubAccount | None) -> ContentSource | None:
    setting_name = BACKGROUND_SETTINGS.get(send_request.product.layout_name(send_request.size))
    url = sub_account.backgrounds.get(setting_name) if sub_account and setting_name else None
    if not url or not send_request.use_custom_background:
        return None
    return ContentSource(SUB_ACCOUNT_FIELD, url, part=f"its {setting_name}")


def build_branding(branding: Mapping[str, str | None]) -> OrderBranding | None:
    """What of a sub account's branding a front without art shows."""
    contacts = (branding.get("phone"), branding.get("domain") or branding.get("email"))
    brand = OrderBranding(
        accent=branding.get("accentColor"),
        company=branding.get("company") or branding.get("name"),
        contact=" · ".join(part for part in contacts if part) or None,
        disclaimer=branding.get("disclaimer"),
    )
    return brand if brand != OrderBranding() or logo_source(branding) else None


def logo_source(branding: Mapping[str, str | None]) -> ContentSource | None:
    """A logo may also be kept as a word, which is not printed."""
    url = branding.get("logo") or ""
    return ContentSource(SUB_ACCOUNT_FIELD, url, part="its logo") if "://" in url else None
