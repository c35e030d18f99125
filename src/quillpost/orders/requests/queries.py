"""Looks up what a request or a replay refers to, and applies the settings of templates and sub account."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from quillpost.accounts import service as account_service
from quillpost.accounts.billing.queries import read_tariff
from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts.queries import SubAccount, read_sub_account, require_sub_account
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import Message, Refused
from quillpost.core.files import StoredFile, find_files, find_order_files
from quillpost.orders import queries
from quillpost.orders.designs import longest_on_lists
from quillpost.orders.giftcards.queries import list_offered_brands
from quillpost.orders.handwriting.models import OwnHandwriting
from quillpost.orders.handwriting.queries import find_order_handwriting, find_usable_signature, find_usable_style
from quillpost.orders.items import queries as item_queries
from quillpost.orders.items.models import Item
from quillpost.orders.models import (
    API_METHOD,
    AUTOMATION_METHOD,
    ContentSource,
    FieldErrors,
    Handwriting,
    Order,
    OrderRequest,
    ReplayRequest,
    ResolvedRequest,
    name_part,
)
from quillpost.orders.products import GIFTCARD, FieldRequirement, find_product
from quillpost.orders.requests.files import build_branding, logo_source
from quillpost.orders.requests.rules import (
    LANDING_PAGE_FIELD,
    MESSAGE_TEMPLATE_FIELD,
    SuppliedFields,
    check_giftcard,
    check_required_fields,
    choose_giftcard,
)
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.templates.models import ImageTemplate, MessageTemplate, MessageTemplateValues
from quillpost.orders.templates.service import IMAGE_TEMPLATES, MESSAGE_TEMPLATES, Template, TemplateTable
from quillpost.recipients.lists.queries import UNKNOWN_LIST, read_lists
from quillpost.recipients.models import CUSTOM_FIELDS, TEXT_FIELDS, MailingList, Person
from quillpost.rendering.text.variables import compile_template, has_variables

MESSAGE_FIELD, IMAGE_TEMPLATE_FIELD, SUB_ACCOUNT_FIELD, LISTS_FIELD = (
    "message", "image_template", "sub_account_id", "mailing_list_ids",
)  # fmt: skip
FRONT_FIELD, BACKGROUND_FIELD, PAGES_FIELD, QR_FIELD = (
    "front_image_url", "custom_background_image", "additional_pages_url", "qrcode_url",
)  # fmt: skip

BACKGROUND_SETTINGS: Mapping[str, str] = {
    "postcard-4x6": "message_background_url",
    "postcard-6x9": "postcard6x9_background_url",
    "magnacard": "message_background_url",
    "notecard": "notecard_background_url",
    "letter": "windowedletter_background_url",
    "windowlessletter": "windowlessletter_background_url",
}
"""The sub account's background for each layout; under the cover of a letter."""

EMPTY_TEMPLATE = MessageTemplateValues(type="", name="")


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

    Without `measures_longest`, the longest values of its lists are not read, which takes a scan of the lists.
    """
    sub_account_id = request.sub_account_id if request.sub_account_id is not None else caller.sub_account_id
    sub_account, lists, template, image_template, gift = None, list[MailingList](), None, None, None
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
        sub_account = read_sub_account(tx, sub_account_id)
    if request.mailing_list_ids:
        lists = read_usable_lists(tx, request.mailing_list_ids, sub_account_id, errors)
    if request.message_template_id is not None:
        template = _find_template(tx, MESSAGE_TEMPLATES, request.message_template_id, sub_account_id)
        _check_template_type(MESSAGE_TEMPLATE_FIELD, template.type, request.type, errors)
    values, own_message = template or EMPTY_TEMPLATE, request.own_message
    # A message of the call's own replaces the PDF of its template.
    pdf = _choose_source(
        ("pdf_only_url", request.pdf_only_url, ""),
        (MESSAGE_TEMPLATE_FIELD, values.pdf_only_url if own_message is None else None, "pdf_only_url"),
    )
    unused_fields: list[str] = []
    if pdf is not None:
        request, unused_fields = request.without(request.unused_beside_pdf)
        own_message = request.own_message
    if request.image_template_id is not None:
        # Images know postcards of all sizes as one type, and a magnacard has a postcard's front.
        image_type = "postcard" if request.product.name == "magnacard" else request.product.name
        image_template = _find_template(tx, IMAGE_TEMPLATES, request.image_template_id, sub_account_id)
        _check_template_type(IMAGE_TEMPLATE_FIELD, image_template.type, image_type, errors)
        if request.front_image_url:
            unused_fields.append(IMAGE_TEMPLATE_FIELD)
    sources = _choose_sources(tx, request, sub_account, lists, values, image_template, pdf)
    _check_required(request, template, image_template, pdf, sources["background"], errors)
    if request.product == GIFTCARD:
        gift = choose_giftcard(request, template, list_offered_brands(tx), sources["landing_source"], errors)
    shows_branding = sub_account is not None and sources["front"] is None and not request.product.is_letter
    handwriting = Handwriting(**(template.stated_handwriting if template else {}) | request.stated_handwriting)
    signature_id = request.signature_id if request.signature_id is not None else values.signature_id
    if pdf is not None:
        signature_id = None
    own_handwriting = OwnHandwriting(
        find_usable_style(tx, handwriting.style, sub_account_id),
        None if signature_id is None else find_usable_signature(tx, signature_id, sub_account_id),
    )
    resolved = ResolvedRequest.of(
        request,
        **sources,
        message="" if pdf else own_message or values.content,
        message_field=MESSAGE_FIELD if own_message is not None or template is None else MESSAGE_TEMPLATE_FIELD,
        **handwriting.column_values(),
        signature_id=signature_id,
        own_handwriting=own_handwriting,
        mailing_list_ids=[mailing_list.id for mailing_list in lists],
        sub_account_id=sub_account.id if sub_account else None,
        pdf_only=pdf is not None,
        template_pdf_ignored=pdf is None and bool(values.pdf_only_url),
        unused_fields=unused_fields,
        brand=build_branding(sub_account.branding) if shows_branding and sub_account else None,
        logo=logo_source(sub_account.branding) if shows_branding and sub_account else None,
        qrcode_url=sources["qr_source"].url,
        notification_emails=list(dict.fromkeys([*request.notification_emails, *values.cc_emails])),
        gift=gift,
    )
    longest_people: list[Person] = []
    if lists and measures_longest:
        variables = {slot.name for slot in compile_template(resolved.message).slots}
        longest_people = longest_on_lists(tx, resolved.mailing_list_ids, variables)
    return ResolvedOrder(
        resolved,
        account_service.read_sender(tx, caller, sub_account_id),
        read_tariff(tx, type=resolved.type, size=resolved.size, mail_class=resolved.mail_class, on=price_date),
        longest_people,
    )


def _choose_sources(
    tx: Tx,
    request: OrderRequest,
    sub_account: SubAccount | None,
    lists: Sequence[MailingList],
    template: MessageTemplateValues,
    image_template: ImageTemplate | None,
    pdf: ContentSource | None,
) -> dict[str, Any]:
    """Where each picture, PDF and QR code comes from: the call, else its templates, else its sub account or lists."""
    product, front, background = request.product, None, None
    pages, qr_source, landing_source = pdf, ContentSource(QR_FIELD), None
    setting_name = BACKGROUND_SETTINGS.get(request.piece, "")
    setting_url = sub_account.backgrounds.get(setting_name) if sub_account and request.use_custom_background else None
    setting = SUB_ACCOUNT_FIELD, setting_url, setting_name
    if pdf is None:
        if image_template is not None and not request.front_image_url:
            file_id = image_template.image_file_id
            front = ContentSource(IMAGE_TEMPLATE_FIELD, file=find_files(tx, [file_id])[file_id])
        else:
            front = _choose_source(
                (FRONT_FIELD, request.front_image_url, ""), *([setting] if product.is_letter else [])
            )
        list_with_qr = next((mailing_list for mailing_list in lists if mailing_list.qrcode_url), None)
        if chosen := _choose_source(
            (QR_FIELD, request.qrcode_url, ""), (MESSAGE_TEMPLATE_FIELD, template.qrcode_url, "qrcode_url")
        ):
            qr_source = chosen
        elif list_with_qr is not None:
            part = Message("list_qr_code", f"the qrcode_url of list {list_with_qr.id}", list_id=list_with_qr.id)
            qr_source = ContentSource(LISTS_FIELD, list_with_qr.qrcode_url, part=part)
    if product.is_letter:
        pages = pages or _choose_source(
            (PAGES_FIELD, request.additional_pages_url, ""),
            (MESSAGE_TEMPLATE_FIELD, template.additional_pages, "additional_pages"),
        )
    else:
        # A template's background is also printed where the product ignores the call's field.
        is_background_used = product.background is not FieldRequirement.NOT_USED
        background = _choose_source(
            (BACKGROUND_FIELD, request.background_url if is_background_used else None, ""),
            (
                MESSAGE_TEMPLATE_FIELD,
                template.custom_background_url if request.use_custom_background else None,
                "custom_background_url",
            ),
            setting,
        )
    if product == GIFTCARD:
        landing_source = _choose_source(
            (LANDING_PAGE_FIELD, request.landing_page_url, ""),
            (MESSAGE_TEMPLATE_FIELD, template.landing_page_url, LANDING_PAGE_FIELD),
        )
    return {
        "front": front,
        "background": background,
        "pages": pages,
        "qr_source": qr_source,
        "landing_source": landing_source,
    }


def _choose_source(*choices: tuple[str, str | None, str]) -> ContentSource | None:
    """The first choice that has a URL: its field, the URL, and which part of the field's reference that is."""
    for field, url, part in choices:
        if url:
            return ContentSource(field, url, part=name_part(part) if part else "")
    return None


def _check_required(
    request: OrderRequest,
    template: MessageTemplate | None,
    image_template: ImageTemplate | None,
    pdf: ContentSource | None,
    background: ContentSource | None,
    errors: FieldErrors,
) -> None:
    # Beside a background of the sender's own, a blank message is a choice: the side is theirs.
    is_left_blank = request.message is not None and template is None and background is not None
    supplied = SuppliedFields(
        audience=bool(
            request.recipients or request.mailing_list_ids or request.radius_search or "radius_search" in errors
        ),
        front=bool(request.front_image_url or image_template),
        message=request.own_message is not None or is_left_blank,
        message_template=template is not None,
        pdf_only=pdf is not None,
    )
    for name, advice in check_required_fields(request.product, supplied).items():
        errors.setdefault(name, []).append(advice)


def read_usable_lists(
    tx: Tx, list_ids: Sequence[int], sub_account_id: int | None, errors: FieldErrors, *, locked: bool = False
) -> list[MailingList]:
    """The lists that a send of this sub account mails to; `locked`, they stay so until the transaction ends."""
    mailing_lists = read_lists(tx, list_ids, lock=locked)
    # A send uses what belongs to its own sub account, or to none.
    if any(mailing_list.sub_account_id not in (None, sub_account_id) for mailing_list in mailing_lists):
        raise Refused(UNKNOWN_LIST)
    for mailing_list in mailing_lists:
        if not mailing_list.processed:
            message = f"List {mailing_list.id} is being filled: send when its processed is true, or cancel the import."
            errors.setdefault(LISTS_FIELD, []).append(message)
        if mailing_list.is_suppression_list:
            message = f"List {mailing_list.id} is a suppression list: nobody on it is mailed to."
            errors.setdefault(LISTS_FIELD, []).append(message)
    return mailing_lists


def _find_template(tx: Tx, table: TemplateTable[Template], template_id: int, sub_account_id: int | None) -> Template:
    template = table.find(tx, template_id)
    if template.sub_account_id not in (None, sub_account_id):
        raise Refused(table.unknown_message)
    return template


def _check_template_type(field: str, template_type: str, needed_type: str, errors: FieldErrors) -> None:
    if template_type != needed_type:
        message = f"This template is of type {template_type}; this piece needs one of type {needed_type}."
        errors.setdefault(field, []).append(message)


RecipientRow = Mapping[str, str | None]

UNMAILED_STATUSES = (ItemStatus.PROCESSING, ItemStatus.FAILED)


def resolve_replay(tx: Tx, caller: Caller, replay: ReplayRequest, *, price_date: date) -> ResolvedOrder:
    """The request of an order that was mailed."""
    order = queries.read_order(tx, replay.order_id)
    if order.status is OrderStatus.CANCELLED:
        raise Refused("This order was cancelled: there is nothing to replay.")
    if _has_mailed_nothing(order):
        raise Refused(f"This order has mailed nothing that could be replayed: it is {order.status.capitalize()}.")
    if tx.execute(sa.select(orders.c.pictures_gone_at).where(orders.c.id == order.id)).scalar() is not None:
        raise Refused("The pictures of this order are no longer kept: send it anew instead.")
    # Each piece gets a new card, as the catalog has it today.
    if order.gift is not None and (errors := check_giftcard(order.gift, list_offered_brands(tx))):
        [message] = next(iter(errors.values()))
        raise Refused(f"The gift card of this order is offered no more: send it anew with another. {message}")
    if order.sub_account_id is not None:
        require_sub_account(tx, order.sub_account_id)
    lists = [] if replay.recipients is not None else read_lists(tx, order.mailing_list_ids)
    list_ids = [mailing_list.id for mailing_list in lists]
    files = find_order_files(tx, order.id)
    variables = {slot.name for slot in compile_template(order.message).slots}
    request = ResolvedRequest.of(
        order,
        product=find_product(order.type),
        method=API_METHOD,
        recipients=_read_inline_recipients(tx, order) if replay.recipients is None else replay.recipients,
        mailing_list_ids=list_ids,
        front=_build_source(FRONT_FIELD, order.front_image_url, order.front_file_id, files),
        background=_build_source(BACKGROUND_FIELD, order.background_url, order.background_file_id, files),
        pages=_build_source(PAGES_FIELD, order.pages_url, order.pages_file_id, files),
        logo=_build_source(SUB_ACCOUNT_FIELD, None, order.logo_file_id, files),
        qr_source=ContentSource(QR_FIELD, order.qrcode_url),
        own_handwriting=_find_own_handwriting(tx, order),
        **replay.options_for(order),
    )
    return ResolvedOrder(
        request,
        account_service.read_sender(tx, caller, order.sub_account_id),
        read_tariff(tx, type=order.type, size=order.size, mail_class=order.mail_class, on=price_date),
        longest_on_lists(tx, list_ids, variables) if list_ids else [],
    )


def _find_own_handwriting(tx: Tx, order: Order) -> OwnHandwriting:
    """What is still there of it: a style that is gone is an error of its field."""
    own_handwriting = find_order_handwriting(tx, order.id)
    if order.signature_id is not None and own_handwriting.signature is None:
        raise Refused("The signature of this order was deleted. Send a new order instead.")
    return own_handwriting


def is_unmailed(order: Order) -> bool:
    """Whether nothing of it was mailed so far, and something will be."""
    return order.status_counts[ItemStatus.PROCESSING] > 0 and _has_mailed_nothing(order)


def _has_mailed_nothing(order: Order) -> bool:
    return all(n == 0 for status, n in order.status_counts.items() if status not in UNMAILED_STATUSES)


def _read_inline_recipients(tx: Tx, order: Order) -> list[RecipientRow]:
    """Those whom the call itself named; the lists are read again. Of an automation's those whom it mailed: a
    caller would have been refused the others. Erased recipients are left out."""
    conditions = [*item_queries.inline_item_conditions(order), items.c.person_gone_at.is_(None)]
    if order.method == AUTOMATION_METHOD:
        conditions.append((items.c.price_cents > 0) | (items.c.status != ItemStatus.FAILED.value))
    rows = tx.execute(sa.select(items).where(*conditions).order_by(items.c.id)).all()
    if not rows and not order.mailing_list_ids:
        raise Refused("Nobody whom this order went to is known any more: name `recipients` to send it to others.")
    return [recipient_row(Item.of(row)) for row in rows]


def recipient_row(item: Item) -> RecipientRow:
    """The recipient of a piece, as a call would name them."""
    dates = {"dob": item.dob, "anniversary": item.anniversary}
    return {
        **{name: getattr(item, name) for name in TEXT_FIELDS if name not in CUSTOM_FIELDS},
        **dict(zip(CUSTOM_FIELDS, item.custom, strict=True)),
        **{name: day.isoformat() if day else None for name, day in dates.items()},
    }


def _build_source(
    field: str, url: str | None, file_id: UUID | None, files: Mapping[UUID, StoredFile]
) -> ContentSource | None:
    """What was printed, from storage; only pictures that differ from one to the next are fetched again."""
    if url is not None and has_variables(url):
        return ContentSource(field, url)
    return None if file_id is None else ContentSource(field, url, files[file_id])
