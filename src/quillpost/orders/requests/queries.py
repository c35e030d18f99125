"""Looks up what a request or a replay refers to, and applies the settings of templates and sub account."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
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
from quillpost.core.files import StoredFile, find_order_files
from quillpost.orders import queries
from quillpost.orders.designs import longest_on_lists
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
from quillpost.orders.products import Product, SuppliedFields, check_required_fields, find_product
from quillpost.orders.requests import rules
from quillpost.orders.requests.files import (
    BACKGROUND_FIELD,
    FRONT_FIELD,
    IMAGE_TEMPLATE_FIELD,
    LISTS_FIELD,
    MESSAGE_FIELD,
    MESSAGE_TEMPLATE_FIELD,
    PAGES_FIELD,
    background_source,
    build_branding,
    front_source,
    logo_source,
    pages_source,
    pdf_only_source,
)
from quillpost.orders.requests.rules import choose_giftcard, landing_page_source
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.templates.models import ImageTemplate, MessageTemplate, MessageTemplateValues
from quillpost.orders.templates.service import (
    IMAGE_TEMPLATES,
    MESSAGE_TEMPLATES,
    UNKNOWN_IMAGE_TEMPLATE,
    UNKNOWN_MESSAGE_TEMPLATE,
)
from quillpost.recipients.lists.queries import UNKNOWN_LIST, read_lists
from quillpost.recipients.models import CUSTOM_FIELDS, TEXT_FIELDS, MailingList, Person
from quillpost.rendering.text.variables import compile_template, has_variables

EMPTY_TEMPLATE = MessageTemplateValues(type="", name="")
NO_QR_SOURCE = ContentSource("qrcode_url")


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
    pdf_source = pdf_only_source(request, message_template)
    request, unused_fields = request.without(request.unused_beside_pdf if pdf_source else ())
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
    background = background_source(request, sub_account, message_template)
    _check_required(request, message_template, image_template, pdf_source, background, errors)
    front = None if pdf_source else front_source(tx, request, sub_account, image_template)
    qr_source = NO_QR_SOURCE if pdf_source else _qr_source(request, template_values, lists)
    shows_branding = front is None and not request.product.is_letter and sub_account is not None
    return ResolvedRequest.of(
        request,
        message="" if pdf_source else message or template_values.content,
        message_field=MESSAGE_FIELD if message is not None or message_template is None else MESSAGE_TEMPLATE_FIELD,
        **Handwriting(**template_values.stated_handwriting | request.stated_handwriting).column_values(),
        mailing_list_ids=[mailing_list.id for mailing_list in lists],
        sub_account_id=sub_account.id if sub_account else None,
        front=front,
        background=background,
        pages=pdf_source or pages_source(request, message_template),
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
        raise Refused(UNKNOWN_LIST)
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
        return ContentSource(MESSAGE_TEMPLATE_FIELD, template_values.qrcode_url, part=name_part("qrcode_url"))
    list_with_qr = next((mailing_list for mailing_list in lists if mailing_list.qrcode_url), None)
    if not request.qrcode_url and list_with_qr is not None:
        part = Message("list_qr_code", f"the qrcode_url of list {list_with_qr.id}", list_id=list_with_qr.id)
        return ContentSource(LISTS_FIELD, list_with_qr.qrcode_url, part=part)
    return replace(NO_QR_SOURCE, url=request.qrcode_url or None)


def _find_message_template(
    tx: Tx, request: OrderRequest, sub_account_id: int | None, errors: FieldErrors
) -> MessageTemplate | None:
    if request.message_template_id is None:
        return None
    template = MESSAGE_TEMPLATES.find(tx, request.message_template_id)
    if not _is_usable(template.sub_account_id, sub_account_id):
        raise Refused(UNKNOWN_MESSAGE_TEMPLATE)
    _check_template_type(MESSAGE_TEMPLATE_FIELD, template.type, {request.product.order_type(request.size)}, errors)
    return template


def _find_image_template(
    tx: Tx, request: OrderRequest, sub_account_id: int | None, errors: FieldErrors
) -> ImageTemplate | None:
    if request.image_template_id is None:
        return None
    template = IMAGE_TEMPLATES.find(tx, request.image_template_id)
    if not _is_usable(template.sub_account_id, sub_account_id):
        raise Refused(UNKNOWN_IMAGE_TEMPLATE)
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


RecipientRow = Mapping[str, str | None]

UNMAILED_STATUSES = (ItemStatus.PROCESSING, ItemStatus.FAILED)


def resolve_replay(tx: Tx, caller: Caller, replay: ReplayRequest, *, price_date: date) -> ResolvedOrder:
    """The request of an order that was mailed."""
    order = queries.read_order(tx, replay.order_id)
    _require_mailed(order)
    _require_pictures(tx, order)
    _require_gift(tx, order)
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
        logo=_build_source("sub_account_id", None, order.logo_file_id, files),
        qr_source=ContentSource("qrcode_url", order.qrcode_url),
        **replay.options_for(order),
    )
    return ResolvedOrder(
        request,
        account_service.read_sender(tx, caller, order.sub_account_id),
        read_tariff(tx, type=order.type, size=order.size, mail_class=order.mail_class, on=price_date),
        longest_on_lists(tx, list_ids, variables) if list_ids else [],
    )


def _require_mailed(order: Order) -> None:
    if order.status is OrderStatus.CANCELLED:
        raise Refused("This order was cancelled: there is nothing to replay.")
    if _has_mailed_nothing(order):
        raise Refused(f"This order has mailed nothing that could be replayed: it is {order.status.display}.")


def is_unmailed(order: Order) -> bool:
    """Whether nothing of it was mailed so far, and something will be."""
    return order.status_counts[ItemStatus.PROCESSING] > 0 and _has_mailed_nothing(order)


def _has_mailed_nothing(order: Order) -> bool:
    return all(n == 0 for status, n in order.status_counts.items() if status not in UNMAILED_STATUSES)


def _require_pictures(tx: Tx, order: Order) -> None:
    deleted_at = tx.execute(sa.select(orders.c.pictures_gone_at).where(orders.c.id == order.id)).scalar()
    if deleted_at is not None:
        raise Refused("The pictures of this order are no longer kept: send it anew instead.")


def _require_gift(tx: Tx, order: Order) -> None:
    """Each piece gets a new card, as the catalog has it today."""
    if order.gift is not None and (errors := rules.check_giftcard(tx, order.gift)):
        [message] = next(iter(errors.values()))
        raise Refused(f"The gift card of this order is offered no more: send it anew with another. {message}")


def _read_inline_recipients(tx: Tx, order: Order) -> list[RecipientRow]:
    """Those whom the call itself named; the lists are read again. Of an automation's those whom it mailed: a
    caller would have been refused the others. Whoever was erased is nobody any more."""
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
