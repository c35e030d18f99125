"""Subscriptions as the API description shows them."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from quillpost.api.v2.schemas.common import Links, Meta, Moment, linked_example

EXAMPLE: dict[str, Any] = {
    "id": 7,
    "user_id": 1,
    "sub_account_id": None,
    "mailing_list_id": None,
    "url": "https://example.com/hook",
    "type": "order_item.delivered",
    "verb": "post",
    "mode": "live",
    "description": "Tells the CRM who has mail",
    "status": "active",
    "failing_since": None,
    "last_error": None,
    "previous_secret_until": None,
    "invoke_count": 12,
    "created_at": "2026-05-01T09:30:00Z",
    "updated_at": "2026-05-01T09:30:00Z",
}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105
NEW_EXAMPLE = EXAMPLE | {"invoke_count": 0, "secret": SECRET}
ROTATED_EXAMPLE = EXAMPLE | {"secret": SECRET, "previous_secret_until": "2026-05-02T09:30:00Z"}


class WebhookShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: int
    user_id: int
    sub_account_id: int | None
    mailing_list_id: int | None
    url: str
    type: str
    verb: str
    mode: str
    description: str | None
    status: str = Field(description="active, failing, paused or disabled.")
    failing_since: Moment | None
    last_error: str | None = Field(description="Why the last delivery failed; null once one has arrived.")
    previous_secret_until: Moment | None = Field(
        description="Until when the secret before this one signs too; null where it was never changed."
    )
    invoke_count: int
    created_at: Moment
    updated_at: Moment


class WebhookCreated(WebhookShape):
    model_config = ConfigDict(json_schema_extra={"examples": [NEW_EXAMPLE]})

    secret: str = Field(description="Shown this once.")


class WebhookRotated(WebhookCreated):
    model_config = ConfigDict(json_schema_extra={"examples": [ROTATED_EXAMPLE]})


class WebhookPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [linked_example("/webhooks", EXAMPLE)]})

    data: list[WebhookShape]
    links: Links
    meta: Meta


class WebhookTried(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "message": "success",
                    "event_id": "0e4b6f0a-6c3f-4d4e-9a5e-2f1d7c1c9b7a",
                    "event_type": "order_item.delivered",
                }
            ]
        }
    )

    message: str
    event_id: str = Field(description="As the event carries it.")
    event_type: str
