"""Responses of webhooks and their deliveries."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from quillpost.web.api.orders.schemas import Links, Meta, Timestamp, page_example

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
SECRET_EXAMPLE = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEW_EXAMPLE = EXAMPLE | {"invoke_count": 0, "secret": SECRET_EXAMPLE}
ROTATED_EXAMPLE = EXAMPLE | {"secret": SECRET_EXAMPLE, "previous_secret_until": "2026-05-02T09:30:00Z"}


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
    failing_since: Timestamp | None
    last_error: str | None = Field(description="Why the last delivery failed; null once one has arrived.")
    previous_secret_until: Timestamp | None = Field(
        description="Until when the secret before this one signs too; null where it was never changed."
    )
    invoke_count: int
    created_at: Timestamp
    updated_at: Timestamp


class WebhookCreated(WebhookShape):
    model_config = ConfigDict(json_schema_extra={"examples": [NEW_EXAMPLE]})

    secret: str = Field(description="Shown this once.")


class WebhookRotated(WebhookCreated):
    model_config = ConfigDict(json_schema_extra={"examples": [ROTATED_EXAMPLE]})


class WebhookPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [page_example("/webhooks", EXAMPLE)]})

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


DELIVERY_EXAMPLE: dict[str, Any] = {
    "id": 90210,
    "event_id": "0e4b6f0a-6c3f-4d4e-9a5e-2f1d7c1c9b7a",
    "event_type": "order_item.delivered",
    "url": "https://example.com/hook",
    "status": "pending",
    "attempts": 2,
    "request_body": '{"event_type":"order_item.delivered","event_id":"0e4b6f0a-6c3f-4d4e-9a5e-2f1d7c1c9b7a"}',
    "response_status": 503,
    "response_body": "Down for maintenance",
    "error": None,
    "created_at": "2026-05-01T09:30:00Z",
    "next_attempt_at": "2026-05-01T09:35:17Z",
    "waits_for": None,
    "delivered_at": None,
}
_PAGE_BASE = page_example("/webhooks/7/deliveries", DELIVERY_EXAMPLE)
PAGE_EXAMPLE = _PAGE_BASE | {"meta": _PAGE_BASE["meta"] | {"truncated": False}}
REPLAY_EXAMPLE: dict[str, Any] = {
    "message": "success",
    "from": "2026-05-01T00:00:00Z",
    "to": "2026-05-02T00:00:00Z",
    "events": 1204,
    "truncated": False,
}


class DeliveryShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [DELIVERY_EXAMPLE]})

    id: int
    event_id: str = Field(description="The same whenever this event is sent.")
    event_type: str
    url: str = Field(description="Where it goes; of a delivery by GET all of it, once it was sent.")
    status: Literal["pending", "delivered", "failed"]
    attempts: int
    request_body: str | None = Field(description="As it was sent; null before, and where it goes by GET.")
    response_status: int | None = Field(description="What the receiver answered last.")
    response_body: str | None = Field(description="The beginning of that answer.")
    error: str | None = Field(description="Why there was no answer, or why it was given up.")
    created_at: Timestamp
    next_attempt_at: Timestamp | None = Field(
        description="Null too while the subscription is paused, and where it waits for another."
    )
    waits_for: int | None = Field(description="The earlier delivery of the same piece that comes first.")
    delivered_at: Timestamp | None


class DeliveryMeta(Meta):
    truncated: bool = Field(description="Whether there are more than the newest 10,000, which are shown.")


class DeliveryPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [PAGE_EXAMPLE]})

    data: list[DeliveryShape]
    links: Links
    meta: DeliveryMeta


class ReplayAccepted(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [REPLAY_EXAMPLE]})

    message: str
    from_: Timestamp = Field(alias="from")
    to: Timestamp
    events: int = Field(description="How many events go again; no more than 10,000 are counted.")
    truncated: bool = Field(description="Whether there are more than were counted.")
