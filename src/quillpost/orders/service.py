"""Turns a draft into an order: its files, its row, its items and its hold on the account's credit."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import sqlalchemy as sa

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.core import jobs
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.engine import insert_rows
from quillpost.core.database.tables.base import items, orders
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Invalid, NoMatch
from quillpost.core.files import PendingFile
from quillpost.core.ports import FetchedDocument
from quillpost.core.tokens import SHORT_CODE_LENGTH, UNAMBIGUOUS_CHARS
from quillpost.orders.audience import queries as audience_queries
from quillpost.orders.audience.queries import AudienceCriteria
from quillpost.orders.audience.service import RECENTLY_MAILED_ALL, Audience, find_audience, find_repeats
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.drafts.service import find_due_at
from quillpost.orders.giftcards.queries import list_offered_brands
from quillpost.orders.items import queries as item_queries
from quillpost.orders.models import GIFT_COLUMNS, RETURN_COLUMNS, FieldErrors, Order, ResolvedRequest
from quillpost.orders.ports import OrderContext
from quillpost.orders.requests.files import Artwork
from quillpost.orders.requests.queries import read_usable_lists
from quillpost.orders.requests.rules import check_giftcard
from quillpost.orders.rules import MATERIALIZE_TASK, SWEEP_TASK, ItemStatus, OrderStatus
from quillpost.recipients.leads import service as lead_service
from quillpost.recipients.models import CUSTOM_FIELDS, DERIVED_COLUMNS, MailingList, Person

ITEM_COLUMNS = (
    "account_id", "sub_account_id", "mode", "order_id", "status", "failure", "scans", "price_cents",
    "name", "company", "address", "address2", "city", "province", "postal_code", "country",
    "email", "phone", "dob", "anniversary", *CUSTOM_FIELDS, *DERIVED_COLUMNS, "absentee_address", "creative_key",
    "code", "front_file_id", "background_file_id", "mailing_list_id", "gift_cents", "created_at", "updated_at",
)  # fmt: skip


class NewItem(NamedTuple):
    person: Person
    cents: int
    code: str | None = None
    front_file_id: UUID | None = None
    background_file_id: UUID | None = None
    mailing_list_id: int | None = None


def insert_items(tx: Tx, order: Order, new_items: Sequence[NewItem], *, now: datetime) -> None:
    rows: list[tuple[Any, ...]] = [
        (
            order.account_id, order.sub_account_id, order.mode, order.id,
            ItemStatus.FAILED.value if person.refusal else ItemStatus.PROCESSING.value, person.refusal, 0, item.cents,
            person.name, person.company, person.address, person.address2, person.city,
            person.province, person.postal_code, person.country, person.email, person.phone,
            person.dob, person.anniversary, *person.custom, person.surname, person.address_key,
            person.standard and list(person.standard), person.deliverability, list(person.reasons),
            person.absentee_address,
            order.creative_key, item.code, item.front_file_id, item.background_file_id,
            item.mailing_list_id, 0 if person.refusal or order.gift is None else order.gift.cents, now, now,
        )
        for item in new_items
        for person in (item.person,)
    ]  # fmt: skip
    if not rows:
        return
    try:
        with tx.begin_nested():
            insert_rows(tx, items, ITEM_COLUMNS, rows)
    except (sa.exc.IntegrityError, psycopg.errors.UniqueViolation):
        # Two items have drawn the same code: all draw again.
        index = ITEM_COLUMNS.index("code")
        recoded_rows = [(*row[:index], new_short_code() if row[index] else None, *row[index + 1 :]) for row in rows]
        insert_rows(tx, items, ITEM_COLUMNS, recoded_rows)


def new_short_code() -> str:
    """Letters and digits that a person can copy from paper, each code equally likely (uneven by less than 2 ** -80)."""
    number, code = int.from_bytes(secrets.token_bytes(16)), ""  # SystemRandom.choices takes three times as long
    for _ in range(SHORT_CODE_LENGTH):
        number, index = divmod(number, len(UNAMBIGUOUS_CHARS))
        code += UNAMBIGUOUS_CHARS[index]
    return code


INSERT_ORDER = sa.insert(orders).returning(*orders.c)
"""Built once: building it for each send would cost as much as the insert."""

REQUEST_COLUMNS = [f.name for f in fields(ResolvedRequest) if f.name in orders.c]


@dataclass(frozen=True, slots=True)
class OrderFiles:
    """The stored files of an order; those in `new_files` have no rows yet."""

    front: UUID | None = None
    background: UUID | None = None
    logo: UUID | None = None
    pages: UUID | None = None
    new_files: tuple[PendingFile, ...] = ()
    personal_files: Mapping[int, tuple[UUID | None, UUID | None]] = field(default_factory=dict)
    """Front and background of those who have pictures of their own, by their index."""


def store_files(context: OrderContext, caller: Caller, draft: OrderDraft) -> OrderFiles:
    """Store the draft's files before anything is locked, as storage may be slow; a file that the sender has is not
    stored again."""
    artwork = draft.artwork
    if artwork == Artwork():
        return OrderFiles()
    distinct: dict[bytes, FetchedDocument] = {
        picture.body: picture
        for pictures in (artwork.front, artwork.background, artwork.logo)
        for picture in pictures.by_recipient.values()
        if pictures.file is None
    }
    if artwork.pages is not None and artwork.pages_file is None:
        distinct[artwork.pages.body] = artwork.pages
    file_ids, new_files = dict[bytes, UUID](), dict[bytes, PendingFile]()
    if distinct:
        # A file of another sub account is not used: a caller limited to this one could not see it.
        with context.db.transaction(Tenant(caller.account_id, draft.request.sub_account_id)) as tx:
            file_ids = context.storage.find_by_content(tx, distinct, purpose="creative")
        now = context.clock()
        new_files = {
            body: context.storage.put(body, purpose="creative", content_type=fetched.content_type, now=now)
            for body, fetched in distinct.items()
            if body not in file_ids
        }
        file_ids |= {body: new_file.id for body, new_file in new_files.items()}
    fronts, backgrounds, logos = (
        {
            index: pictures.file.id if pictures.file else file_ids[one.body]
            for index, one in pictures.by_recipient.items()
        }
        for pictures in (artwork.front, artwork.background, artwork.logo)
    )
    pages = artwork.pages_file.id if artwork.pages_file else file_ids[artwork.pages.body] if artwork.pages else None
    return OrderFiles(
        fronts.get(None),
        backgrounds.get(None),
        logos.get(None),
        pages,
        tuple(new_files.values()),
        {
            index: (fronts.get(index), backgrounds.get(index))
            for index in fronts.keys() | backgrounds.keys()
            if index is not None
        },
    )


def create_order(
    context: OrderContext, tx: Tx, caller: Caller, draft: OrderDraft, files: OrderFiles
) -> tuple[Order, Audience]:
    """Store the order, the rows of its files, its leads and their fee, and the job that materializes its lists.

    Its work starts when the transaction commits. Where credit is needed and does not cover it, it is `Unpaid`.
    """
    now, due_at = context.clock(), find_due_at(context, caller, draft.request)
    _lock_references(tx, draft)
    lead_list = None
    if draft.lead_search_result is not None:
        draft, lead_list = _buy_leads(tx, caller, context.encryptor, draft, mails_at=due_at, now=now)
    audience = find_audience(tx, caller, draft, mails_at=due_at, lock=True)
    for file in files.new_files:
        context.storage.record_file(
            tx, file, account_id=caller.account_id, sub_account_id=draft.request.sub_account_id, now=now
        )
    # The refused are free, and have no paper to put a code on.
    new_items = [
        NewItem(
            person,
            0 if person.refusal else draft.tariff.unit_cents(person.country) or 0,
            None if person.refusal else new_short_code(),
            *files.personal_files.get(index, (None, None)),
            draft.request.mailing_list_id,
        )
        for index, person in enumerate(audience.people)
    ]
    needs_credit = context.environments[caller.mode].needs_credit
    order = store_order(
        tx, caller, draft, audience, new_items, files, due_at=due_at, needs_credit=needs_credit, now=now
    )
    if lead_list is not None and draft.lead_search_result is not None:
        lead_service.record_purchase(tx, caller, draft.lead_search_result, lead_list, order_id=order.id, now=now)
    if draft.request.mailing_list_ids:
        jobs.enqueue(tx, MATERIALIZE_TASK, order_id=order.id)
    return order, audience


def store_order(
    tx: Tx,
    caller: Caller,
    draft: OrderDraft,
    audience: Audience,
    new_items: Sequence[NewItem],
    files: OrderFiles,
    *,
    due_at: datetime,
    needs_credit: bool,
    now: datetime,
) -> Order:
    """The order with its items, its hold, its first facts, and the job that ends its review."""
    leads_fee = draft.lead_search_result.cents if draft.lead_search_result else 0
    total_cents = audience.total_cents + leads_fee + audience.gift_total
    failed_items = sum(bool(item.person.refusal) for item in new_items)
    values = {
        **_draft_columns(draft),
        "account_id": caller.account_id,
        "mode": caller.mode,
        "status": OrderStatus.REVIEWING.value,
        "front_file_id": files.front,
        "background_file_id": files.background,
        "pages_file_id": files.pages,
        "logo_file_id": files.logo,
        "audience_pending": bool(draft.request.mailing_list_ids),
        "total_estimated_recipients": audience.mailed_items,
        "recipient_count": audience.recipient_count,
        "n_processing": len(new_items) - failed_items,
        "n_failed": failed_items,
        "authorization_total": total_cents,
        "order_total": audience.total_cents,
        "leads_fee": leads_fee,
        "gift_total": audience.gift_total,
        "warnings": [*draft.warnings, *audience.warnings],
        "due_at": due_at,
        "created_at": now,
        "updated_at": now,
    }
    order = Order.of(tx.execute(INSERT_ORDER, values).one())
    insert_items(tx, order, new_items, now=now)
    if needs_credit:
        billing_service.require_credit(tx, caller.account_id, caller.mode, cents=total_cents)
    billing_service.authorize_order(
        tx,
        account_id=caller.account_id,
        sub_account_id=draft.request.sub_account_id,
        mode=caller.mode,
        order_id=order.id,
        cents=total_cents,
        now=now,
    )
    tx.execute(item_queries.INSERT_ORDER_STATUS_EVENTS, {"orders": [order.id], "previous": None, "now": now})
    tx.execute(item_queries.INSERT_FIRST_ITEM_FACTS, {"order_id": order.id, "listed": False, "now": now})
    jobs.enqueue_unique(tx, SWEEP_TASK, at=due_at)
    return order


def _draft_columns(draft: OrderDraft) -> dict[str, Any]:
    request = draft.request
    return {
        **{name: getattr(request, name) for name in REQUEST_COLUMNS},
        "type": request.type,
        "piece": request.piece,
        "mailing_list_ids": list(request.mailing_list_ids),
        "notification_emails": list(request.notification_emails),
        "front_image_url": request.front.url if request.front else None,
        "background_url": request.background.url if request.background else None,
        "pages_url": request.pages.url if request.pages else None,
        "branding": asdict(request.brand) if request.brand else None,
        **{column: getattr(request.gift, name) if request.gift else None for name, column in GIFT_COLUMNS.items()},
        **{column: getattr(draft.return_address, name) for name, column in RETURN_COLUMNS.items()},
        "sender_name": draft.design.sender.name,
        "sender_company": draft.design.sender.company,
        "creative_key": draft.creative_key,
        "lowest_dpi": draft.lowest_dpi,
        "lowest_contrast": draft.lowest_contrast,
    }


def _buy_leads(
    tx: Tx, caller: Caller, encryptor: Encryptor, draft: OrderDraft, *, mails_at: datetime, now: datetime
) -> tuple[OrderDraft, MailingList | None]:
    """Put the leads of its search on a list that the draft goes to. Those who were sent the same while it was
    prepared are not bought."""
    request, found = draft.request, draft.lead_search_result
    if found is None or request.radius_search is None:
        return draft, None
    audience_queries.lock_creative(tx, AudienceCriteria.for_draft(caller, draft, mails_at=mails_at))
    repeated_positions = find_repeats(draft, caller, mails_at=mails_at)(tx, found.people)
    new_leads = found.without({found.people[position - 1].address_key for position in repeated_positions})
    if not new_leads.people:
        raise NoMatch(RECENTLY_MAILED_ALL)
    mailing_list = lead_service.create_lead_list(
        tx, caller, encryptor, request.radius_search, sub_account_id=request.sub_account_id, now=now
    )
    lead_service.add_to_list(tx, mailing_list, new_leads, now=now)
    return replace(
        draft, lead_search_result=new_leads, request=replace(request, mailing_list_ids=[mailing_list.id])
    ), mailing_list


def _lock_references(tx: Tx, draft: OrderDraft) -> None:
    """What was looked up may have changed meanwhile; from here on it stays."""
    sub_account_id, errors = draft.request.sub_account_id, FieldErrors()
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    if draft.request.mailing_list_ids:
        read_usable_lists(tx, draft.request.mailing_list_ids, sub_account_id, errors, locked=True)
    if draft.request.gift is not None:
        errors |= check_giftcard(draft.request.gift, list_offered_brands(tx))
    if errors:
        raise Invalid(errors)
