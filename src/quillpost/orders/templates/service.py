"""Saved creative: images for fronts, and messages with how they are written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.queries import refuse_if_used_by_automation
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.search import matches_words
from quillpost.core.database.tables.base import CHANGEABLE_ORDER_STATUSES, image_templates, message_templates, orders
from quillpost.core.database.tables.notifications import automations
from quillpost.core.errors import Conflict, Invalid, Message, NotFound, Refused
from quillpost.core.paging import Page, PageRequest, read_newest_page
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards.rules import amount_error, find_offered_brand, unknown_brand_error
from quillpost.orders.handwriting.queries import UNKNOWN_SIGNATURE, list_hands, list_signatures
from quillpost.orders.ports import OrderContext
from quillpost.orders.templates import images
from quillpost.orders.templates.images import FetchedPicture
from quillpost.orders.templates.models import ImageTemplate, MessageTemplate, MessageTemplateValues
from quillpost.orders.templates.rules import GIFTCARD_TYPES, clear_unused_fields, validate_template


def choose_sub_account(tx: Tx, caller: Caller, sub_account_id: int | None) -> int | None:
    """The sub account that a template belongs to: the one named, else the one the caller is limited to."""
    chosen_id = sub_account_id if sub_account_id is not None else caller.sub_account_id
    if chosen_id is not None:
        require_sub_account(tx, chosen_id)
    return chosen_id


UNKNOWN_IMAGE_TEMPLATE = Message("image_template_unknown", "Image Template does not exist")
UNKNOWN_MESSAGE_TEMPLATE = Message("message_template_unknown", "Message Template does not exist")

Template = TypeVar("Template", ImageTemplate, MessageTemplate)


@dataclass(frozen=True, slots=True)
class TemplateTable(Generic[Template]):
    """The saved templates of one kind; orders and automations name them by `reference`."""

    table: sa.Table
    kind: type[Template]
    reference: str
    searched_columns: Sequence[sa.ColumnElement[str]]
    unknown_message: Message

    def find(self, tx: Tx, template_id: int, *, share_locked: bool = False) -> Template:
        """The template that a body names: unknown and another's are refused alike; `share_locked`, it stays until
        this transaction ends."""
        try:
            return self.read(tx, template_id, share_locked=share_locked)
        except NotFound:
            raise Refused(self.unknown_message) from None

    def read(self, tx: Tx, template_id: int, *, locked: bool = False, share_locked: bool = False) -> Template:
        """The template; `locked`, no other transaction changes it before this one ends; `share_locked`, it stays."""
        query = sa.select(self.table).where(self.table.c.id == template_id)
        if locked or share_locked:
            query = query.with_for_update(read=share_locked, key_share=share_locked)
        row = tx.execute(query).first()
        if row is None:
            raise NotFound
        return self.kind.of(row)

    def list(
        self,
        tx: Tx,
        page_request: PageRequest,
        *,
        sub_account_id: int | None,
        types: Sequence[str] | None = None,
        name_contains: str = "",
        search: str | None = None,
    ) -> Page[Template]:
        """Newest first; `search` are words in its name or content."""
        table = self.table
        conditions: list[sa.ColumnElement[bool]] = []
        if sub_account_id is not None:
            conditions.append(table.c.sub_account_id == sub_account_id)
        if types is not None:
            conditions.append(table.c.type.in_(types))
        if name_contains:
            conditions.append(table.c.name.icontains(name_contains, autoescape=True))
        if search:
            conditions.append(matches_words(search, *self.searched_columns))
        return read_newest_page(tx, sa.select(table).where(*conditions), page_request, self.kind.of)

    def list_newest(self, tx: Tx, *, limit: int) -> Sequence[Template]:
        rows = tx.execute(sa.select(self.table).order_by(self.table.c.id.desc()).limit(limit))
        return [self.kind.of(row) for row in rows]

    def insert(self, tx: Tx, values: Mapping[str, Any], *, now: datetime) -> Template:
        statement = sa.insert(self.table).values(**values, created_at=now, updated_at=now).returning(self.table)
        return self.kind.of(tx.execute(statement).one())

    def update(self, tx: Tx, template_id: int, values: Mapping[str, Any], *, now: datetime) -> Template:
        statement = sa.update(self.table).where(self.table.c.id == template_id).values(**values, updated_at=now)
        row = tx.execute(statement.returning(self.table)).first()
        if row is None:
            raise NotFound
        return self.kind.of(row)

    def delete(self, tx: Tx, template_id: int) -> None:
        """Refused while an order that waits, or an automation that is switched on, names it. An image stays: orders
        may print it."""
        self.read(tx, template_id, locked=True)
        self.require_unused(tx, template_id)
        tx.execute(sa.delete(self.table).where(self.table.c.id == template_id))

    def require_unused(self, tx: Tx, template_id: int) -> None:
        waiting_orders = sa.select(orders.c.id).where(
            orders.c[self.reference] == template_id, orders.c.status.in_(CHANGEABLE_ORDER_STATUSES)
        )
        waiting_order_id = tx.execute(waiting_orders.limit(1)).scalar()
        if waiting_order_id is not None:
            raise Refused(f"Order {waiting_order_id} still waits and uses this template: cancel it first, or wait.")
        refuse_if_used_by_automation(tx, automations.c[self.reference] == template_id, kind="template")


IMAGE_TEMPLATES = TemplateTable(
    image_templates, ImageTemplate, "image_template_id", [image_templates.c.name], UNKNOWN_IMAGE_TEMPLATE
)
MESSAGE_TEMPLATES = TemplateTable(
    message_templates,
    MessageTemplate,
    "message_template_id",
    [message_templates.c.name, message_templates.c.content],
    UNKNOWN_MESSAGE_TEMPLATE,
)


def check_message_template(
    context: OrderContext, tx: Tx, requested: MessageTemplateValues, errors: Mapping[str, str], *, max_characters: int
) -> MessageTemplateValues:
    """What is kept of it; `Invalid` with these errors and everything else that is wrong."""
    values = clear_unused_fields(requested)
    own_errors: dict[str, str] = {}
    if values.signature_id is not None and values.signature_id not in {each.id for each in list_signatures(tx)}:
        own_errors["signature_id"] = UNKNOWN_SIGNATURE
    if values.type in GIFTCARD_TYPES and values.giftcard_brand_code is not None:
        offered = giftcard_queries.list_offered_brands(tx)
        brand = find_offered_brand(values.giftcard_brand_code, offered)
        if brand is None:
            own_errors["giftcard_brand_code"] = unknown_brand_error(values.giftcard_brand_code, offered)
        elif values.giftcard_amount is not None and (error := amount_error(values.giftcard_amount, brand)):
            own_errors["giftcard_amount"] = error
    validate_template(
        values,
        styles=context.renderer.hands.styles,
        own_styles=[hand.id for hand in list_hands(tx, only_ready=True)],
        check_url=context.check_url,
        max_characters=max_characters,
        known_errors={**errors, **own_errors},
    )
    return values


def create_message_template(
    context: OrderContext,
    tx: Tx,
    caller: Caller,
    requested: MessageTemplateValues,
    errors: Mapping[str, str],
    *,
    sub_account_id: int | None,
    max_characters: int,
) -> MessageTemplate:
    values = check_message_template(context, tx, requested, errors, max_characters=max_characters)
    chosen_id = choose_sub_account(tx, caller, sub_account_id)
    columns = {**values.column_values(), "account_id": caller.account_id, "sub_account_id": chosen_id}
    return MESSAGE_TEMPLATES.insert(tx, columns, now=context.clock())


def change_message_template(
    context: OrderContext,
    tx: Tx,
    caller: Caller,
    before: MessageTemplate,
    requested: MessageTemplateValues,
    errors: Mapping[str, str],
    *,
    sub_account_id: int | None,
    moves: bool,
    max_characters: int,
) -> MessageTemplate:
    """`before` was read with a lock; unless it `moves`, it stays in its sub account."""
    columns = check_message_template(context, tx, requested, errors, max_characters=max_characters).column_values()
    if moves:
        columns["sub_account_id"] = choose_sub_account(tx, caller, sub_account_id)
    return MESSAGE_TEMPLATES.update(tx, before.id, columns, now=context.clock())


def create_image_template(
    context: OrderContext, get_tx: Callable[[], Tx], caller: Caller, values: Mapping[str, Any], source: str | bytes
) -> tuple[ImageTemplate, FetchedPicture]:
    """The template, and its picture as it came, by URL or as a file. `get_tx` is called when that is stored: nothing is
    fetched while a transaction is open."""
    now = context.clock()
    with context.db.transaction(build_tenant(caller)) as tx:
        sub_account_id = choose_sub_account(tx, caller, values["sub_account_id"])
    picture = _fetch_image(context, source)
    tenant = Tenant(caller.account_id, sub_account_id)
    image = images.store_image(context.db, context.storage, tenant, picture, now=now)
    tx = get_tx()
    # The sub account may have gone meanwhile; from here on it stays.
    choose_sub_account(tx, caller, sub_account_id)
    images.record_image(tx, context.storage, image, now=now)
    columns = {"account_id": caller.account_id, "sub_account_id": sub_account_id, "image_file_id": image.id}
    return IMAGE_TEMPLATES.insert(tx, {**values, **columns}, now=now), picture


def change_image_template(
    context: OrderContext,
    get_tx: Callable[[], Tx],
    caller: Caller,
    template_id: int,
    changes: Mapping[str, Any],
    source: str | bytes | None,
) -> tuple[ImageTemplate, FetchedPicture | None]:
    """The same of a template that exists; without a source its picture stays."""
    now, columns = context.clock(), dict(changes)
    with context.db.transaction(build_tenant(caller)) as tx:
        before = IMAGE_TEMPLATES.read(tx, template_id)
        sub_account_id = before.sub_account_id
        if "sub_account_id" in columns:
            sub_account_id = columns["sub_account_id"] = choose_sub_account(tx, caller, columns["sub_account_id"])
    picture = None if source is None else _fetch_image(context, source)
    image = None
    if picture is not None or sub_account_id != before.sub_account_id:
        image = images.store_image(
            context.db,
            context.storage,
            Tenant(caller.account_id, sub_account_id),
            picture or images.read_image(context.db, context.storage, build_tenant(caller), before.image_file_id),
            now=now,
        )
    tx = get_tx()
    # What was looked up may be otherwise by now; from here on it stays.
    if "sub_account_id" in columns:
        choose_sub_account(tx, caller, sub_account_id)
    current = IMAGE_TEMPLATES.read(tx, template_id, locked=True)
    if image is not None:
        # It was stored for the sub account that the template had, and may be a copy of its image.
        has_moved = current.sub_account_id != before.sub_account_id
        if has_moved or (picture is None and current.image_file_id != before.image_file_id):
            raise Conflict("Another call changed this template meanwhile: try again.", retry_after=1)
        images.record_image(tx, context.storage, image, now=now)
        columns["image_file_id"] = image.id
    return IMAGE_TEMPLATES.update(tx, template_id, columns, now=now), picture


def _fetch_image(context: OrderContext, source: str | bytes) -> FetchedPicture:
    if isinstance(source, bytes):
        return images.read_uploaded_image(source, field="image")
    error = context.check_url(source)
    if error is not None:
        raise Invalid({"image": [error]})
    return images.fetch_images(context.fetcher, [images.FileToFetch(source, "image")])[0]
