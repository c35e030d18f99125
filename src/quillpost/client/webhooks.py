"""Subscriptions to events."""

from typing import Literal, TypedDict, Unpack

from quillpost.client.answers import Message
from quillpost.client.calls import Ask, How, Id, Resource, listing, operation
from quillpost.client.events import EventType

Wanted = EventType | Literal["*"]


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
    invoke_count: int
    created_at: str
    updated_at: str


class WebhookCreated(Webhook):
    """The subscription with its secret, which is shown this once."""

    secret: str


class WebhookTried(TypedDict):
    message: str
    event_id: str
    event_type: str


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
    type: Wanted


class Webhooks(Resource[How]):
    @listing("/webhooks")
    def list(self, **only: Unpack[WebhookFilter]) -> Ask[Webhook]:
        """Subscriptions, newest first, without their secrets."""
        return Ask(query=only)

    @operation("POST /webhooks")
    def create(
        self,
        url: str,
        type: Wanted = "*",  # noqa: A002
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[WebhookFields],
    ) -> Ask[WebhookCreated]:
        """Be told of events of this type, or of all. Keep the `secret`: it is shown this once."""
        return Ask(body={"url": url, "type": type, **fields}, idempotency_key=idempotency_key)

    @operation("GET /webhooks/{webhook_id}")
    def read(self, webhook_id: Id) -> Ask[Webhook]:
        """One subscription."""
        return Ask(webhook_id)

    @operation("PUT /webhooks/{webhook_id}")
    def update(self, webhook_id: Id, **changes: Unpack[WebhookChanges]) -> Ask[Webhook]:
        """Change what is named; the rest stays."""
        return Ask(webhook_id, body=changes)

    @operation("DELETE /webhooks/{webhook_id}")
    def delete(self, webhook_id: Id) -> Ask[Message]:
        """Unsubscribe."""
        return Ask(webhook_id)

    @operation("POST /webhooks/{webhook_id}/test")
    def test(self, webhook_id: Id, *, idempotency_key: str | None = None) -> Ask[WebhookTried]:
        """Have an example event delivered."""
        return Ask(webhook_id, idempotency_key=idempotency_key)

    @operation("POST /webhooks/{webhook_id}/pause")
    def pause(self, webhook_id: Id, *, idempotency_key: str | None = None) -> Ask[Webhook]:
        """Hold deliveries back."""
        return Ask(webhook_id, idempotency_key=idempotency_key)

    @operation("POST /webhooks/{webhook_id}/resume")
    def resume(self, webhook_id: Id, *, idempotency_key: str | None = None) -> Ask[Webhook]:
        """Deliver again, what was held back included."""
        return Ask(webhook_id, idempotency_key=idempotency_key)
