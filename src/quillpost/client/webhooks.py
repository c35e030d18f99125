"""Subscriptions to events, and their deliveries."""

from datetime import datetime
from typing import Annotated, Literal, Unpack

from typing_extensions import TypedDict

from quillpost.client.events import EventType
from quillpost.client.requests import Kind, Request, Resource, listing, operation
from quillpost.client.types import Doc, Id, MessageResponse, Meta, Mode, PageOptions, Timestamp

DeliveryStatus = Literal["pending", "delivered", "failed"]
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
    status: Annotated[str, Doc("active, failing, paused or disabled.")]
    failing_since: Timestamp | None
    last_error: Annotated[str | None, Doc("Why the last delivery failed; null once one has arrived.")]
    previous_secret_until: Annotated[
        Timestamp | None, Doc("Until when the secret before this one signs too; null where it was never changed.")
    ]
    invoke_count: int
    created_at: Timestamp
    updated_at: Timestamp


class CreatedWebhook(Webhook):
    """The subscription with its secret."""

    secret: Annotated[str, Doc("Shown this once.")]


class RotatedWebhook(CreatedWebhook):
    """The subscription with its new secret; until `previous_secret_until` the one before signs too."""


class WebhookTestResponse(TypedDict):
    message: str
    event_id: Annotated[str, Doc("As the event carries it.")]
    event_type: str


class Delivery(TypedDict):
    id: int
    event_id: Annotated[str, Doc("The same whenever this event is sent.")]
    event_type: str
    url: Annotated[str, Doc("Where it goes; of a delivery by GET all of it, once it was sent.")]
    status: DeliveryStatus
    attempts: int
    request_body: Annotated[str | None, Doc("As it was sent; null before, and where it goes by GET.")]
    response_status: Annotated[int | None, Doc("What the receiver answered last.")]
    response_body: Annotated[str | None, Doc("The beginning of that answer.")]
    error: Annotated[str | None, Doc("Why there was no answer, or why it was given up.")]
    created_at: Timestamp
    next_attempt_at: Annotated[
        Timestamp | None, Doc("Null too while the subscription is paused, and where it waits for another.")
    ]
    waits_for: Annotated[int | None, Doc("The earlier delivery of the same piece that comes first.")]
    delivered_at: Timestamp | None


class DeliveryPageMeta(Meta):
    truncated: Annotated[bool, Doc("Whether there are more than the newest 10,000, which are shown.")]


_ReplayStart = TypedDict("_ReplayStart", {"from": Timestamp})


class ReplayAccepted(_ReplayStart):
    message: str
    to: Timestamp
    events: Annotated[int, Doc("How many events go again; no more than 10,000 are counted.")]
    truncated: Annotated[bool, Doc("Whether there are more than were counted.")]


class DeliveryFilter(PageOptions, total=False):
    status: DeliveryStatus
    event_type: EventType


class WebhookFilter(PageOptions, total=False):
    sub_account_id: Id


class WebhookOptions(TypedDict, total=False):
    verb: Literal["post", "get"]
    description: str | None
    mailing_list_id: Id | None
    sub_account_id: Id | None
    mode: Mode


class WebhookUpdate(WebhookOptions, total=False):
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
        **fields: Unpack[WebhookOptions],
    ) -> Request[CreatedWebhook]:
        """Subscribe to events of this type, or to all. Store the `secret`: it is shown only once."""
        return Request(body={"url": url, "type": type, **fields}, idempotency_key=idempotency_key)

    @operation("GET /webhooks/{webhook_id}")
    def read(self, webhook_id: Id) -> Request[Webhook]:
        """One subscription."""
        return Request(webhook_id)

    @operation("PUT /webhooks/{webhook_id}")
    def update(self, webhook_id: Id, **changes: Unpack[WebhookUpdate]) -> Request[Webhook]:
        """Change what is named; the rest stays."""
        return Request(webhook_id, body=changes)

    @operation("DELETE /webhooks/{webhook_id}")
    def delete(self, webhook_id: Id) -> Request[MessageResponse]:
        """Unsubscribe."""
        return Request(webhook_id)

    @operation("POST /webhooks/{webhook_id}/test")
    def test(
        self, webhook_id: Id, *, event_type: str | None = None, idempotency_key: str | None = None
    ) -> Request[WebhookTestResponse]:
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
    def rotate_secret(self, webhook_id: Id, *, idempotency_key: str | None = None) -> Request[RotatedWebhook]:
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
        """The subscription's deliveries, newest first."""
        return Request(webhook_id, query=only)

    @operation("GET /webhooks/{webhook_id}/deliveries/{delivery_id}")
    def delivery(self, webhook_id: Id, delivery_id: Id) -> Request[Delivery]:
        """One delivery: what was sent, and what the receiver said."""
        return Request(webhook_id, delivery_id)

    @operation("POST /webhooks/{webhook_id}/deliveries/{delivery_id}/retry")
    def retry(self, webhook_id: Id, delivery_id: Id, *, idempotency_key: str | None = None) -> Request[Delivery]:
        """Have it sent now; one that arrived goes again, as another delivery of the same event."""
        return Request(webhook_id, delivery_id, idempotency_key=idempotency_key)
