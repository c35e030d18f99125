"""Saved creative: images for fronts, and messages with how they are written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self
from uuid import UUID

import sqlalchemy as sa

from quillpost.accounts.automation_locks import refuse_while_automated
from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core.database import Tx
from quillpost.core.database.search import has_words
from quillpost.core.database.tables.base import HELD_BACK, image_templates, message_templates, orders
from quillpost.core.database.tables.notifications import automations
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import Conditions, Page, PageRequest


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
class MessageDraft:
    """What a message template says. None: not set, so that whoever sends decides."""

    type: str
    name: str
    content: str = ""
    handwriting_style_id: int | None = None
    font_size: str | None = None
    font_color: str | None = None
    handwriting_realism: bool | None = None
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

    def changed(self, values: Mapping[str, Any]) -> "MessageDraft":
        """The draft with other values in these fields."""
        kept = {f.name: getattr(self, f.name) for f in fields(MessageDraft)}
        return MessageDraft(**kept | dict(values))

    def columns(self) -> dict[str, Any]:
        """The draft as the table keeps it: what is not set takes no room."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        return {
            "type": self.type,
            "name": self.name,
            "content": self.content,
            "settings": {name: value for name, value in settings.items() if value not in (None, ())},
        }


SETTINGS = tuple(f.name for f in fields(MessageDraft) if f.name not in ("type", "name", "content"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTemplate(MessageDraft):
    id: int
    account_id: int
    sub_account_id: int | None
    share_uuid: UUID
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        known = dict(row._mapping)
        settings = known.pop("settings")
        return cls(**known, **settings | {"cc_emails": tuple(settings.get("cc_emails", ()))})


def home_of(tx: Tx, who: Caller, sub_account_id: int | None) -> int | None:
    """The sub account that a template belongs to: the one named, else the one the caller is limited to."""
    home = sub_account_id if sub_account_id is not None else who.sub_account_id
    if home is not None:
        require_sub_account(tx, home)
    return home


def find_image_template(tx: Tx, template_id: int, *, held: bool = False) -> ImageTemplate:
    """The template that a body names: unknown and another's answer alike; `held`, it stays until this
    transaction ends."""
    found = _first(tx, image_templates, template_id, held=held)
    if found is None:
        raise Refused("Image Template does not exist")
    return ImageTemplate.of(found)


def find_message_template(tx: Tx, template_id: int, *, held: bool = False) -> MessageTemplate:
    """The template that a body names: unknown and another's answer alike; `held`, it stays until this
    transaction ends."""
    found = _first(tx, message_templates, template_id, held=held)
    if found is None:
        raise Refused("Message Template does not exist")
    return MessageTemplate.of(found)


def read_image_template(tx: Tx, template_id: int, *, locked: bool = False) -> ImageTemplate:
    """The template; `locked`, nobody else changes it before this transaction ends."""
    return ImageTemplate.of(_required(_first(tx, image_templates, template_id, locked=locked)))


def read_message_template(tx: Tx, template_id: int, *, locked: bool = False) -> MessageTemplate:
    """The template; `locked`, nobody else changes it before this transaction ends."""
    return MessageTemplate.of(_required(_first(tx, message_templates, template_id, locked=locked)))


def list_image_templates(
    tx: Tx,
    asked: PageRequest,
    *,
    sub_account_id: int | None,
    types: Sequence[str] | None = None,
    named: str = "",
    search: str | None = None,
) -> Page[ImageTemplate]:
    """Newest first; of these `types`, and with `named` in their name; `search`, with these words in it."""
    wanted = _wanted(image_templates, named, sub_account_id=sub_account_id, types=types)
    if search:
        wanted.append(has_words(search, image_templates.c.name))
    rows, total = _page(tx, image_templates, asked, wanted)
    return Page([ImageTemplate.of(row) for row in rows], total, asked)


def list_message_templates(
    tx: Tx,
    asked: PageRequest,
    *,
    sub_account_id: int | None,
    types: Sequence[str] | None = None,
    named: str = "",
    search: str | None = None,
) -> Page[MessageTemplate]:
    """The same of messages; `search` looks at their content, too."""
    wanted = _wanted(message_templates, named, sub_account_id=sub_account_id, types=types)
    if search:
        wanted.append(has_words(search, message_templates.c.name, message_templates.c.content))
    rows, total = _page(tx, message_templates, asked, wanted)
    return Page([MessageTemplate.of(row) for row in rows], total, asked)


def newest_image_templates(tx: Tx, *, most: int) -> list[ImageTemplate]:
    """To choose from; nobody counts the others."""
    return [ImageTemplate.of(row) for row in _newest(tx, image_templates, most)]


def newest_message_templates(tx: Tx, *, most: int) -> list[MessageTemplate]:
    """The same of messages."""
    return [MessageTemplate.of(row) for row in _newest(tx, message_templates, most)]


def insert_image_template(tx: Tx, values: Mapping[str, Any], *, now: datetime) -> ImageTemplate:
    return ImageTemplate.of(_insert(tx, image_templates, values, now=now))


def insert_message_template(tx: Tx, values: Mapping[str, Any], *, now: datetime) -> MessageTemplate:
    return MessageTemplate.of(_insert(tx, message_templates, values, now=now))


def update_image_template(
    tx: Tx, template_id: int, values: Mapping[str, Any], *, now: datetime
) -> ImageTemplate:
    return ImageTemplate.of(_update(tx, image_templates, template_id, values, now=now))


def update_message_template(
    tx: Tx, template_id: int, values: Mapping[str, Any], *, now: datetime
) -> MessageTemplate:
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


def _newest(tx: Tx, table: sa.Table, most: int) -> list[sa.Row[Any]]:
    return list(tx.execute(sa.select(table).order_by(table.c.id.desc()).limit(most)))


def _first(
    tx: Tx, table: sa.Table, template_id: int, *, locked: bool = False, held: bool = False
) -> sa.Row[Any] | None:
    query = sa.select(table).where(table.c.id == template_id)
    if locked or held:
        query = query.with_for_update(read=held, key_share=held)
    return tx.execute(query).first()


def _required(row: sa.Row[Any] | None) -> sa.Row[Any]:
    if row is None:
        raise NotFound
    return row


def _wanted(
    table: sa.Table, named: str, *, sub_account_id: int | None, types: Sequence[str] | None
) -> list[sa.ColumnElement[bool]]:
    wanted: list[sa.ColumnElement[bool]] = []
    if sub_account_id is not None:
        wanted.append(table.c.sub_account_id == sub_account_id)
    if types is not None:
        wanted.append(table.c.type.in_(types))
    if named:
        wanted.append(table.c.name.icontains(named, autoescape=True))
    return wanted


def _page(tx: Tx, table: sa.Table, asked: PageRequest, wanted: Conditions) -> tuple[list[sa.Row[Any]], int]:
    rows = tx.execute(
        sa.select(table).where(*wanted).order_by(table.c.id.desc()).limit(asked.per_page).offset(asked.offset)
    )
    total = tx.execute(sa.select(sa.func.count()).select_from(table).where(*wanted)).scalar_one()
    return list(rows), total


def _insert(tx: Tx, table: sa.Table, values: Mapping[str, Any], *, now: datetime) -> sa.Row[Any]:
    made = sa.insert(table).values(**values, created_at=now, updated_at=now).returning(table)
    return tx.execute(made).one()


def _update(
    tx: Tx, table: sa.Table, template_id: int, values: Mapping[str, Any], *, now: datetime
) -> sa.Row[Any]:
    changed = (
        sa.update(table).where(table.c.id == template_id).values(**values, updated_at=now).returning(table)
    )
    return _required(tx.execute(changed).first())


def _delete(tx: Tx, table: sa.Table, template_id: int, known_as: str) -> None:
    _required(_first(tx, table, template_id, locked=True))
    _require_unused(tx, template_id, known_as)
    tx.execute(sa.delete(table).where(table.c.id == template_id))


def _require_unused(tx: Tx, template_id: int, known_as: str) -> None:
    waiting = tx.execute(
        sa.select(orders.c.id)
        .where(orders.c[known_as] == template_id, orders.c.status.in_(HELD_BACK))
        .limit(1)
    ).scalar()
    if waiting is not None:
        raise Refused(f"Order {waiting} still waits and uses this template: cancel it first, or wait.")
    refuse_while_automated(tx, automations.c[known_as] == template_id, what="template")
