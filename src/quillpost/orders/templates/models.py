"""Types of templates."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self
from uuid import UUID

import sqlalchemy as sa

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
