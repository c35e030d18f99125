"""Subscriptions as the API description shows them."""

from pydantic import BaseModel, Field

from quillpost.api.v2.schemas.common import Links, Meta, Moment


class WebhookShape(BaseModel):
    id: int
    user_id: int
    sub_account_id: int | None
    mailing_list_id: int | None
    url: str
    type: str
    verb: str
    mode: str
    description: str | None
    status: str
    invoke_count: int
    created_at: Moment
    updated_at: Moment


class WebhookCreated(WebhookShape):
    secret: str = Field(description="Shown this once.")


class WebhookPage(BaseModel):
    data: list[WebhookShape]
    links: Links
    meta: Meta
