"""Saved creative: images for fronts, and messages with how they are written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self
from uuid import UUID

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.queries import refuse_if_used_by_automation
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core.database import Tx
from quillpost.core.database.search import matches_words
from quillpost.core.database.tables.base import CHANGEABLE_ORDER_STATUSES, image_templates, message_templates, orders
from quillpost.core.database.tables.notifications import automations
from quillpost.core.errors import Message, NotFound, Refused
from quillpost.core.paging import Conditions, Page, PageRequest
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
        """The PDF is the whole mailer: nothing is written."""
        return self.pdf_only_url is not None

    @property
    def stated_handwriting(self) -> dict[str, Any]:
        return self._state_handwriting(self.handwriting_style_id, self.font_color)

    def with_values(self, values: Mapping[str, Any]) -> "MessageTemplateValues":
        """The draft with other values in these fields."""
        current_values = {f.name: getattr(self, f.name) for f in fields(MessageTemplateValues)}
        return MessageTemplateValues(**current_values | dict(values))

    def column_values(self) -> dict[str, Any]:
        """The draft as the table keeps it: what is not set takes no room."""
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


def find_image_template(tx: Tx, template_id: int, *, share_locked: bool = False) -> ImageTemplate:
    """The template that a body names: unknown and another's answer alike; `share_locked`, it stays until this
    transaction ends."""
    row = _find_row(tx, image_templates, template_id, share_locked=share_locked)
    if row is None:
        raise Refused(UNKNOWN_IMAGE_TEMPLATE)
    return ImageTemplate.of(row)


def find_message_template(tx: Tx, template_id: int, *, share_locked: bool = False) -> MessageTemplate:
    """The template that a body names: unknown and another's answer alike; `share_locked`, it stays until this
    transaction ends."""
    row = _find_row(tx, message_templates, template_id, share_locked=share_locked)
    if row is None:
        raise Refused(UNKNOWN_MESSAGE_TEMPLATE)
    return MessageTemplate.of(row)


def read_image_template(tx: Tx, template_id: int, *, locked: bool = False) -> ImageTemplate:
    """The template; `locked`, nobody else changes it before this transaction ends."""
    return ImageTemplate.of(_require_row(_find_row(tx, image_templates, template_id, locked=locked)))


def read_message_template(tx: Tx, template_id: int, *, locked: bool = False) -> MessageTemplate:
    """The template; `locked`, nobody else changes it before this transaction ends."""
    return MessageTemplate.of(_require_row(_find_row(tx, message_templates, template_id, locked=locked)))


def list_image_templates(
    tx: Tx,
    page_request: PageRequest,
    *,
    sub_account_id: int | None,
    types: Sequence[str] | None = None,
    name_contains: str = "",
    search: str | None = None,
) -> Page[ImageTemplate]:
    """Newest first; of these `types`, and with `name_contains` in their name; `search`, with these words in it."""
    conditions = _build_conditions(image_templates, name_contains, sub_account_id=sub_account_id, types=types)
    if search:
        conditions.append(matches_words(search, image_templates.c.name))
    rows, total = _read_page(tx, image_templates, page_request, conditions)
    return Page([ImageTemplate.of(row) for row in rows], total, page_request)


def list_message_templates(
    tx: Tx,
    page_request: PageRequest,
    *,
    sub_account_id: int | None,
    types: Sequence[str] | None = None,
    name_contains: str = "",
    search: str | None = None,
) -> Page[MessageTemplate]:
    """The same of messages; `search` looks at their content, too."""
    conditions = _build_conditions(message_templates, name_contains, sub_account_id=sub_account_id, types=types)
    if search:
        conditions.append(matches_words(search, message_templates.c.name, message_templates.c.content))
    rows, total = _read_page(tx, message_templates, page_request, conditions)
    return Page([MessageTemplate.of(row) for row in rows], total, page_request)


def list_newest_image_templates(tx: Tx, *, limit: int) -> list[ImageTemplate]:
    """To choose from; nobody counts the others."""
    return [ImageTemplate.of(row) for row in _read_newest(tx, image_templates, limit)]


def list_newest_message_templates(tx: Tx, *, limit: int) -> list[MessageTemplate]:
    """The same of messages."""
    return [MessageTemplate.of(row) for row in _read_newest(tx, message_templates, limit)]


def insert_image_template(tx: Tx, values: Mapping[str, Any], *, now: datetime) -> ImageTemplate:
    return ImageTemplate.of(_insert(tx, image_templates, values, now=now))


def insert_message_template(tx: Tx, values: Mapping[str, Any], *, now: datetime) -> MessageTemplate:
    return MessageTemplate.of(_insert(tx, message_templates, values, now=now))


def update_image_template(tx: Tx, template_id: int, values: Mapping[str, Any], *, now: datetime) -> ImageTemplate:
    return ImageTemplate.of(_update(tx, image_templates, template_id, values, now=now))


def update_message_template(tx: Tx, template_id: int, values: Mapping[str, Any], *, now: datetime) -> MessageTemplate:
    return MessageTemplate.of(_update(tx, message_templates, template_id, values, now=now))


def delete_image_template(tx: Tx, template_id: int) -> None:
    """Its image stays: orders may print it. Refused while an order that waits, or an automation that is
    switched on, names the template."""
    _delete(tx, image_templates, template_id, "image_template_id")


def delete_message_template(tx: Tx, template_id: int) -> None:
    """Refused while an order that waits, or an automation that is switched on, names it."""
    _delete(tx, message_templates, template_id, "message_template_id")


def require_unused_image(tx: Tx, template_id: int) -> None:
    """`Refused`, in words that name what needs it, as deleting it would be."""
    _require_unused(tx, template_id, "image_template_id")


def require_unused_message(tx: Tx, template_id: int) -> None:
    """The same for a message."""
    _require_unused(tx, template_id, "message_template_id")


def _read_newest(tx: Tx, table: sa.Table, limit: int) -> list[sa.Row[Any]]:
    return list(tx.execute(sa.select(table).order_by(table.c.id.desc()).limit(limit)))


def _find_row(
    tx: Tx, table: sa.Table, template_id: int, *, locked: bool = False, share_locked: bool = False
) -> sa.Row[Any] | None:
    query = sa.select(table).where(table.c.id == template_id)
    if locked or share_locked:
        query = query.with_for_update(read=share_locked, key_share=share_locked)
    return tx.execute(query).first()


def _require_row(row: sa.Row[Any] | None) -> sa.Row[Any]:
    if row is None:
        raise NotFound
    return row


def _build_conditions(
    table: sa.Table, name_contains: str, *, sub_account_id: int | None, types: Sequence[str] | None
) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    if sub_account_id is not None:
        conditions.append(table.c.sub_account_id == sub_account_id)
    if types is not None:
        conditions.append(table.c.type.in_(types))
    if name_contains:
        conditions.append(table.c.name.icontains(name_contains, autoescape=True))
    return conditions


def _read_page(
    tx: Tx, table: sa.Table, page_request: PageRequest, conditions: Conditions
) -> tuple[list[sa.Row[Any]], int]:
    rows = tx.execute(
        sa.select(table)
        .where(*conditions)
        .order_by(table.c.id.desc())
        .limit(page_request.per_page)
        .offset(page_request.offset)
    )
    total = tx.execute(sa.select(sa.func.count()).select_from(table).where(*conditions)).scalar_one()
    return list(rows), total


def _insert(tx: Tx, table: sa.Table, values: Mapping[str, Any], *, now: datetime) -> sa.Row[Any]:
    statement = sa.insert(table).values(**values, created_at=now, updated_at=now).returning(table)
    return tx.execute(statement).one()


def _update(tx: Tx, table: sa.Table, template_id: int, values: Mapping[str, Any], *, now: datetime) -> sa.Row[Any]:
    statement = sa.update(table).where(table.c.id == template_id).values(**values, updated_at=now).returning(table)
    return _require_row(tx.execute(statement).first())


def _delete(tx: Tx, table: sa.Table, template_id: int, reference_column: str) -> None:
    _require_row(_find_row(tx, table, template_id, locked=True))
    _require_unused(tx, template_id, reference_column)
    tx.execute(sa.delete(table).where(table.c.id == template_id))


def _require_unused(tx: Tx, template_id: int, reference_column: str) -> None:
    waiting_order_id = tx.execute(
        sa.select(orders.c.id)
        .where(orders.c[reference_column] == template_id, orders.c.status.in_(CHANGEABLE_ORDER_STATUSES))
        .limit(1)
    ).scalar()
    if waiting_order_id is not None:
        raise Refused(f"Order {waiting_order_id} still waits and uses this template: cancel it first, or wait.")
    refuse_if_used_by_automation(tx, automations.c[reference_column] == template_id, kind="template")
