"""Looks up what a request refers to: templates, lists and the sub account, and applies their settings.

What the request says wins, then its message template, then the sub account, then the default.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

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
from quillpost.orders.models import (
    HANDWRITING_DEFAULTS,
    ContentSource,
    FieldErrors,
    OrderBranding,
    OrderRequest,
    ResolvedRequest,
)
from quillpost.orders.products import FieldRequirement, Product, SuppliedFields, check_required_fields
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
class ResolvedOrder:
    """A request with all that the database knows about it. `longest_people` are made-up people who between them have
    the longest values that the lists hold for the message's variables."""

    request: ResolvedRequest
    sender: account_service.SenderProfile
    tariff: Tariff
    longest_people: list[Person]


def resolve_request(
    tx: Tx,
    caller: Caller,
    request: OrderRequest,
    errors: FieldErrors,
    *,
    price_date: date,
    measures_longest: bool = True,
) -> ResolvedOrder:
    """Look everything up: what is not the caller's is `Refused`, what does not suit is one more error.

    Not `measures_longest`, nobody asks for the longest values of its lists, which takes reading them through.
    """
    sub_account_id = request.sub_account_id if request.sub_account_id is not None else caller.sub_account_id
    sub_account = _read_sub_account(tx, sub_account_id)
    lists = read_usable_lists(tx, request.mailing_list_ids, sub_account_id, errors)
    message_template = _find_message_template(tx, request, sub_account_id, errors)
    pdf_source = _pdf_only_source(request, message_template)
    request, unused_fields = request.without(request.product.unused_beside_pdf if pdf_source else ())
    image_template = _find_image_template(tx, request, sub_account_id, errors)
    if image_template is not None and request.front_image_url:
        unused_fields.append(IMAGE_TEMPLATE_FIELD)
    resolved = _resolve(tx, request, sub_account, lists, message_template, image_template, pdf_source, errors)
    variables = {slot.name for slot in compile_template(resolved.message).slots} if lists else set()
    return ResolvedOrder(
        replace(resolved, unused_fields=unused_fields),
        account_service.read_sender(tx, caller, sub_account_id),
        read_tariff(tx, type=resolved.type, size=resolved.size, mail_class=resolved.mail_class, on=price_date),
        longest_on_lists(tx, resolved.mailing_list_ids, variables) if lists and measures_longest else [],
    )


def _resolve(
    tx: Tx,
    request: OrderRequest,
    sub_account: SubAccount | None,
    lists: Sequence[MailingList],
    message_template: MessageTemplate | None,
    image_template: ImageTemplate | None,
    pdf_source: ContentSource | None,
    errors: FieldErrors,
) -> ResolvedRequest:
    template_values, message = message_template or EMPTY_TEMPLATE, request.own_message
    background = _background_source(request, sub_account, message_template)
    _check_required(request, message_template, image_template, pdf_source, background, errors)
    front = None if pdf_source else _front_source(tx, request, sub_account, image_template)
    qr_source = NO_QR_SOURCE if pdf_source else _qr_source(request, template_values, lists)
    shows_branding = front is None and not request.product.is_letter and sub_account is not None
    return ResolvedRequest.of(
        request,
        message="" if pdf_source else message or template_values.content,
        message_field=MESSAGE_FIELD if message is not None or message_template is None else MESSAGE_TEMPLATE_FIELD,
        **HANDWRITING_DEFAULTS | template_values.handwriting() | request.handwriting(),
        mailing_list_ids=[mailing_list.id for mailing_list in lists],
        sub_account_id=sub_account.id if sub_account else None,
        front=front,
        background=background,
        pages=pdf_source or _pages_source(request, message_template),
        pdf_only=pdf_source is not None,
        template_pdf_ignored=pdf_source is None and bool(message_template and message_template.pdf_only_url),
        brand=build_branding(sub_account.branding) if shows_branding and sub_account else None,
        logo=logo_source(sub_account.branding) if shows_branding and sub_account else None,
        qrcode_url=qr_source.url,
        qr_source=qr_source,
        notification_emails=list(dict.fromkeys([*request.notification_emails, *template_values.cc_emails])),
        gift=choose_giftcard(tx, request, message_template, errors),
        landing_source=landing_page_source(request, message_template),
    )


def _check_required(
    request: OrderRequest,
    message_template: MessageTemplate | None,
    image_template: ImageTemplate | None,
    pdf_source: ContentSource | None,
    background: ContentSource | None,
    errors: FieldErrors,
) -> None:
    # Beside a background of the sender's own, a blank message is a choice: the side is theirs alone.
    is_left_blank = request.message is not None and message_template is None and background is not None
    supplied = SuppliedFields(
        audience=bool(
            request.recipients or request.mailing_list_ids or request.radius_search or "radius_search" in errors
        ),
        front=bool(request.front_image_url or image_template),
        message=request.own_message is not None or is_left_blank,
        message_template=message_template is not None,
        pdf_only=pdf_source is not None,
    )
    for name, advice in check_required_fields(request.product, supplied).items():
        errors.setdefault(name, []).append(advice)


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
    request: OrderRequest, template_values: MessageTemplateValues, lists: Sequence[MailingList]
) -> ContentSource:
    """The call's QR code, else its template's, else that of the first list which has one."""
    if not request.qrcode_url and template_values.qrcode_url:
        return ContentSource(MESSAGE_TEMPLATE_FIELD, template_values.qrcode_url, part="its qrcode_url")
    list_with_qr = next((mailing_list for mailing_list in lists if mailing_list.qrcode_url), None)
    if not request.qrcode_url and list_with_qr is not None:
        return ContentSource(LISTS_FIELD, list_with_qr.qrcode_url, part=f"the qrcode_url of list {list_with_qr.id}")
    return replace(NO_QR_SOURCE, url=request.qrcode_url or None)


def _find_message_template(
    tx: Tx, request: OrderRequest, sub_account_id: int | None, errors: FieldErrors
) -> MessageTemplate | None:
    if request.message_template_id is None:
        return None
    template = find_message_template(tx, request.message_template_id)
    if not _is_usable(template.sub_account_id, sub_account_id):
        raise Refused("Message Template does not exist")
    _check_template_type(MESSAGE_TEMPLATE_FIELD, template.type, {request.product.order_type(request.size)}, errors)
    return template


def _find_image_template(
    tx: Tx, request: OrderRequest, sub_account_id: int | None, errors: FieldErrors
) -> ImageTemplate | None:
    if request.image_template_id is None:
        return None
    template = find_image_template(tx, request.image_template_id)
    if not _is_usable(template.sub_account_id, sub_account_id):
        raise Refused("Image Template does not exist")
    _check_template_type(IMAGE_TEMPLATE_FIELD, template.type, {_image_template_type(request.product)}, errors)
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


def _pdf_only_source(request: OrderRequest, message_template: MessageTemplate | None) -> ContentSource | None:
    """The PDF that is the whole letter. A message of the call's own makes it a letter with a cover again."""
    if request.pdf_only_url:
        return ContentSource(PDF_ONLY_FIELD, request.pdf_only_url)
    if request.own_message is None and message_template is not None and message_template.pdf_only_url:
        return ContentSource(MESSAGE_TEMPLATE_FIELD, message_template.pdf_only_url, part="its pdf_only_url")
    return None


def _pages_source(request: OrderRequest, message_template: MessageTemplate | None) -> ContentSource | None:
    if not request.product.is_letter:
        return None
    if request.additional_pages_url:
        return ContentSource(PAGES_FIELD, request.additional_pages_url)
    if message_template is not None and message_template.additional_pages:
        return ContentSource(MESSAGE_TEMPLATE_FIELD, message_template.additional_pages, part="its additional_pages")
    return None


def _front_source(
    tx: Tx, request: OrderRequest, sub_account: SubAccount | None, image_template: ImageTemplate | None
) -> ContentSource | None:
    if request.front_image_url:
        return ContentSource(FRONT_FIELD, request.front_image_url)
    if image_template is not None:
        return ContentSource(
            IMAGE_TEMPLATE_FIELD, file=find_files(tx, [image_template.image_file_id])[image_template.image_file_id]
        )
    return _sub_account_background(request, sub_account) if request.product.is_letter else None


def _background_source(
    request: OrderRequest, sub_account: SubAccount | None, message_template: MessageTemplate | None
) -> ContentSource | None:
    """The matrix speaks of the call's own field; a template's background is printed where a piece has one."""
    if request.product.is_letter:
        return None
    if request.background_url and request.product.background is not FieldRequirement.NOT_USED:
        return ContentSource(BACKGROUND_FIELD, request.background_url)
    if not request.use_custom_background:
        return None
    if message_template is not None and message_template.custom_background_url:
        return ContentSource(
            MESSAGE_TEMPLATE_FIELD, message_template.custom_background_url, part="its custom_background_url"
        )
    return _sub_account_background(request, sub_account)


def _sub_account_background(request: OrderRequest, sub_account: SubAccount | None) -> ContentSource | None:
    setting_name = BACKGROUND_SETTINGS.get(request.product.layout_name(request.size))
    url = sub_account.backgrounds.get(setting_name) if sub_account and setting_name else None
    if not url or not request.use_custom_background:
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
