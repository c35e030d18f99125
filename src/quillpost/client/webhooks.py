"""Subscriptions to events, and what they were told."""

from datetime import datetime
from typing import Literal, TypedDict, Unpack

from quillpost.client.events import EventType
from quillpost.client.requests import Id, Kind, Request, Resource, listing, operation
from quillpost.client.responses import Message

EventFilter = EventType | Literal["*"]


class Webhook(TypedDict):
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
    failing_since: str | None
    last_error: str | None
    previous_secret_until: str | None
    invoke_count: int
    created_at: str
    updated_at: str


class WebhookCreated(Webhook):
    """The subscription with its secret, which is shown this once."""

    secret: str


class WebhookRotated(WebhookCreated):
    """The subscription with its new secret; until `previous_secret_until` the one before signs too."""


class WebhookTried(TypedDict):
    message: str
    event_id: str
    event_type: str


class Delivery(TypedDict):
    id: int
    event_id: str
    event_type: str
    url: str
    status: str
    attempts: int
    request_body: str | None
    response_status: int | None
    response_body: str | None
    error: str | None
    created_at: str
    next_attempt_at: str | None
    waits_for: int | None
    delivered_at: str | None


ReplayAccepted = TypedDict("ReplayAccepted", {"message": str, "from": str, "to": str, "events": int, "truncated": bool})


class DeliveryFilter(TypedDict, total=False):
    items_per_page: int
    page: int
    status: Literal["pending", "delivered", "failed"]
    event_type: EventType


class WebhookFilter(TypedDict, total=False):
    items_per_page: int
    page: int
    sub_account_id: Id


class WebhookFields(TypedDict, total=False):
    verb: Literal["post", "get"]
    description: str | None
    mailing_list_id: Id | None
    sub_account_id: Id | None
    mode: Literal["test", "live"]


class WebhookChanges(WebhookFields, total=False):
    url: str
    type: EventFilter


class Webhooks(Resource[Kind]):
    @listing("/webhooks")
    def list(self, **only: Unpack[WebhookFilter]) -> Request[Webhook]:
        """Subscriptions, newest first, without their secrets."""
        return Request(query=only)

    @operation("POST /webhooks")
    def create(
        self,
        url: str,
        type: EventFilter = "*",  # noqa: A002
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[WebhookFields],
    ) -> Request[WebhookCreated]:
        """Be told of events of this type, or of all. Keep the `secret`: it is shown this once."""
        return Request(body={"url": url, "type": type, **fields}, idempotency_key=idempotency_key)

    @operation("GET /webhooks/{webhook_id}")
    def read(self, webhook_id: Id) -> Request[Webhook]:
        """One subscription."""
        return Request(webhook_id)

    @operation("PUT /webhooks/{webhook_id}")
    def update(self, webhook_id: Id, **changes: Unpack[WebhookChanges]) -> Request[Webhook]:
        """Change what is named; the rest stays."""
        return Request(webhook_id, body=changes)

    @operation("DELETE /webhooks/{webhook_id}")
    def delete(self, webhook_id: Id) -> Request[Message]:
        """Unsubscribe."""
        return Request(webhook_id)

    @operation("POST /webhooks/{webhook_id}/test")
    def test(
        self, webhook_id: Id, *, event_type: str | None = None, idempotency_key: str | None = None
    ) -> Request[WebhookTried]:
        """Have an example event delivered; of a subscription to all, of whichever type you like."""
        body = None if event_type is None else {"event_type": event_type}
        return Request(webhook_id, body=body, idempotency_key=idempotency_key)

    @operation("POST /webhooks/{webhook_id}/pause")
    def pause(self, webhook_id: Id, *, idempotency_key: str | None = None) -> Request[Webhook]:
        """Hold deliveries back."""
        return Request(webhook_id, idempotency_key=idempotency_key)

    @operation("POST /webhooks/{webhook_id}/resume")
    def resume(self, webhook_id: Id, *, idempotency_key: str | None = None) -> Request[Webhook]:
        """Deliver again, what was held back included."""
        return Request(webhook_id, idempotency_key=idempotency_key)

    @operation("POST /webhooks/{webhook_id}/rotate-secret")
    def rotate_secret(self, webhook_id: Id, *, idempotency_key: str | None = None) -> Request[WebhookRotated]:
        """Change the secret. Keep the new one: it is shown this once. The old one signs too for a day."""
        return Request(webhook_id, idempotency_key=idempotency_key)

    @operation("POST /webhooks/{webhook_id}/replay")
    def replay(
        self,
        webhook_id: Id,
        from_: datetime | str,
        to: datetime | str | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Request[ReplayAccepted]:
        """Have everything that happened from then until `to`, or until now, delivered again."""
        return Request(webhook_id, body={"from": from_, "to": to}, idempotency_key=idempotency_key)

    @listing("/webhooks/{webhook_id}/deliveries")
    def deliveries(self, webhook_id: Id, **only: Unpack[DeliveryFilter]) -> Request[Delivery]:
        """What the subscription was told, and what waits, newest first."""
        return Request(webhook_id, query=only)

    @operation("GET /webhooks/{webhook_id}/deliveries/{delivery_id}")
    def delivery(self, webhook_id: Id, delivery_id: Id) -> Request[Delivery]:
        """One delivery: what was sent, and what the receiver said."""
        return Request(webhook_id, delivery_id)

    @operation("POST /webhooks/{webhook_id}/deliveries/{delivery_id}/retry")
    def retry(self, webhook_id: Id, delivery_id: Id, *, idempotency_key: str | None = None) -> Request[Delivery]:
        """Have it sent now; one that arrived goes again, as another delivery of the same event."""
        return Request(webhook_id, delivery_id, idempotency_key=idempotency_key)
