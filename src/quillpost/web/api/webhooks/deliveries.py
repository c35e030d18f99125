"""Deliveries of subscriptions: the log, one more attempt, and the events of a time again."""

from typing import Annotated

from fastapi import Path, Query, Request, Response
from pydantic import WithJsonSchema

from quillpost.accounts.service import build_tenant
from quillpost.client import webhooks as wire
from quillpost.core.errors import Invalid
from quillpost.core.text import format_iso
from quillpost.notifications.webhooks import deliveries
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import tasks as webhook_tasks
from quillpost.notifications.webhooks.rules import EVENT_TYPES
from quillpost.web.api.dependencies import ApiCaller, PageQuery, PathId, RequestTransaction
from quillpost.web.api.orders.search import QueryErrors, parse_choice
from quillpost.web.api.responses import json_response, page_of, page_response, to_wire
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.webhooks.endpoints import WebhookId
from quillpost.web.api.webhooks.schemas import EventReplay
from quillpost.web.dependencies import Services

router = ApiRouter("Webhooks", resource="webhooks")

DeliveryId = Annotated[PathId, Path(description="The delivery's id.")]
DeliveryStatusQuery = Annotated[
    str | None,
    WithJsonSchema({"type": "string", "enum": list(deliveries.DELIVERY_STATUSES)}),
    Query(description="Only those that stand here."),
]
EventTypeQuery = Annotated[
    str | None,
    WithJsonSchema({"type": "string", "enum": list(EVENT_TYPES)}),
    Query(description="Only events of this type."),
]


def serialize_delivery(
    delivery: deliveries.WebhookDelivery, webhook: webhook_queries.WebhookSubscription
) -> wire.Delivery:
    """Of a delivery by GET what went out was the URL, and there was no body."""
    body = delivery.payload if delivery.payload is not None and delivery.payload.startswith("{") else None
    return to_wire(
        wire.Delivery,
        delivery,
        event_id=str(delivery.event_id),
        url=webhook.url if body is not None or delivery.payload is None else delivery.payload,
        request_body=body,
        next_attempt_at=format_iso(delivery.next_at) if delivery.status == "pending" and webhook.is_awake else None,
    )


@router.get(
    "/webhooks/{webhook_id}/deliveries",
    page_of(wire.Delivery, wire.DeliveryPageMeta),
    summary="List a subscription's deliveries, newest first",
)
def list_deliveries(
    request: Request,
    webhook_id: WebhookId,
    caller: ApiCaller,
    tx: RequestTransaction,
    container: Services,
    page_request: PageQuery,
    status: DeliveryStatusQuery = None,
    event_type: EventTypeQuery = None,
) -> Response:
    """Of the last 30 days the newest 10,000, or the newest 10,000 of that status, are looked through; of them
    come those of that type. `meta.truncated` says whether there are more than were looked through."""
    webhook = webhook_queries.read_webhook(tx, webhook_id)
    field_errors: QueryErrors = {}
    filters = deliveries.DeliveryQuery(
        status=parse_choice("status", status, deliveries.DELIVERY_STATUSES, field_errors),
        event_type=parse_choice("event_type", event_type, EVENT_TYPES, field_errors),
    )
    if field_errors:
        raise Invalid(field_errors)
    page, truncated = deliveries.list_deliveries(
        container.db, tx, build_tenant(caller), webhook.id, page_request, filters
    )
    return page_response(
        request, page, lambda delivery: serialize_delivery(delivery, webhook), extra_meta={"truncated": truncated}
    )


@router.get("/webhooks/{webhook_id}/deliveries/{delivery_id}", wire.Delivery, summary="Read a delivery")
def read_delivery(webhook_id: WebhookId, delivery_id: DeliveryId, tx: RequestTransaction) -> Response:
    """What was sent, and what the receiver said."""
    webhook = webhook_queries.read_webhook(tx, webhook_id)
    return json_response(serialize_delivery(deliveries.read_delivery(tx, webhook.id, delivery_id), webhook))


@router.post(
    "/webhooks/{webhook_id}/deliveries/{delivery_id}/retry",
    wire.Delivery,
    errors=[400, 409],
    summary="Send a delivery now",
)
def retry_delivery(
    webhook_id: WebhookId, delivery_id: DeliveryId, tx: RequestTransaction, container: Services
) -> Response:
    """One that waits or has failed is tried now, beside its schedule, which goes on as it would. One that
    arrived goes again, as another delivery of the same event: the answer has its id. One that waits for an
    earlier one of the same piece is refused."""
    delivery = deliveries.retry_delivery(tx, webhook_id, delivery_id, now=container.clock())
    return json_response(serialize_delivery(delivery, webhook_queries.read_webhook(tx, webhook_id)))


@router.post(
    "/webhooks/{webhook_id}/replay", wire.ReplayAccepted, status_code=202, summary="Send the events of a time again"
)
def replay_webhook(webhook_id: WebhookId, body: EventReplay, tx: RequestTransaction, container: Services) -> Response:
    """Everything that happened then and that the subscription is for, as it is now, whether it was delivered
    or not, in its order and under its own event ids. Only one replay of a subscription runs at a time."""
    now = container.clock()
    since, until = body.time_range(now)
    accepted = webhook_tasks.start_replay(tx, webhook_id, since=since, until=until)
    content: wire.ReplayAccepted = {
        "message": "success",
        "from": format_iso(accepted.since),
        "to": format_iso(accepted.until),
        "events": accepted.events,
        "truncated": accepted.truncated,
    }
    return json_response(content, status=202)
