"""Saved creative: images for fronts, and messages with how they are written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Generic, Self, TypeVar
from uuid import UUID

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.queries import refuse_if_used_by_automation
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.core.database import Tx
from quillpost.core.database.search import matches_words
from quillpost.core.database.tables.base import CHANGEABLE_ORDER_STATUSES, image_templates, message_templates, orders
from quillpost.core.database.tables.notifications import automations
from quillpost.core.errors import Message, NotFound, Refused
from quillpost.core.paging import Page, PageRequest
from quillpost.orders.models import HandwritingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTemplate:
    id: int
    account_id: int
    sub_account_id: int | None
    type: str
    name: str
    image_file_id: UUID
    design_tool_id: str | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        return cls(**row._mapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTemplateValues(HandwritingOptions):
    """What a message template says. None: not set, so the send decides."""

    type: str
    name: str
    content: str = ""
    handwriting_style_id: int | None = None
    font_color: str | None = None
    additional_pages: str | None = None
    pdf_only_url: str | None = None
    custom_background_url: str | None = None
    qrcode_url: str | None = None
    cc_emails: tuple[str, ...] = ()
    giftcard_brand_code: str | None = None
    giftcard_amount: int | None = None
    landing_page_url: str | None = None

    @property
    def skip_creative_generation(self) -> bool:
        return self.pdf_only_url is not None

    @property
    def stated_handwriting(self) -> dict[str, Any]:
        return self._state_handwriting(self.handwriting_style_id, self.font_color)

    def with_values(self, values: Mapping[str, Any]) -> "MessageTemplateValues":
        current_values = {f.name: getattr(self, f.name) for f in fields(MessageTemplateValues)}
        return MessageTemplateValues(**current_values | dict(values))

    def column_values(self) -> dict[str, Any]:
        """Values that are not set are not stored."""
        settings = {name: getattr(self, name) for name in SETTING_FIELDS}
        return {
            "type": self.type,
            "name": self.name,
            "content": self.content,
            "settings": {name: value for name, value in settings.items() if value not in (None, ())},
        }


SETTING_FIELDS = tuple(f.name for f in fields(MessageTemplateValues) if f.name not in ("type", "name", "content"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTemplate(MessageTemplateValues):
    id: int
    account_id: int
    sub_account_id: int | None
    share_uuid: UUID
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        column_values = dict(row._mapping)
        settings = column_values.pop("settings")
        return cls(**column_values, **settings | {"cc_emails": tuple(settings.get("cc_emails", ()))})


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
        row = self._find_row(tx, template_id, share_locked=share_locked)
        if row is None:
            raise Refused(self.unknown_message)
        return self.kind.of(row)

    def read(self, tx: Tx, template_id: int, *, locked: bool = False) -> Template:
        """The template; `locked`, nobody else changes it before this transaction ends."""
        row = self._find_row(tx, template_id, locked=locked)
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
        query = sa.select(table).where(*conditions).order_by(table.c.id.desc())
        rows = tx.execute(query.limit(page_request.per_page).offset(page_request.offset))
        total = tx.execute(sa.select(sa.func.count()).select_from(table).where(*conditions)).scalar_one()
        return Page([self.kind.of(row) for row in rows], total, page_request)

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

    def _find_row(
        self, tx: Tx, template_id: int, *, locked: bool = False, share_locked: bool = False
    ) -> sa.Row[Any] | None:
        query = sa.select(self.table).where(self.table.c.id == template_id)
        if locked or share_locked:
            query = query.with_for_update(read=share_locked, key_share=share_locked)
        return tx.execute(query).first()


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
