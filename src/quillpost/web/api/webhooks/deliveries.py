"""What subscriptions were told: the log, one more try, and a time told again."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, WithJsonSchema

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.core.clock import iso
from quillpost.core.errors import Invalid
from quillpost.notifications.webhooks import deliveries, replay
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks.rules import EVENT_TYPES
from quillpost.web.api.bodies import Body
from quillpost.web.api.dependencies import AskedPage, InTx, Services, id_in_path, may
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.orders.filters import Faults, chosen
from quillpost.web.api.responses import answer, linked
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.webhooks import schemas as schemas
from quillpost.web.api.webhooks.endpoints import MAY_READ, MAY_WRITE, WebhookId

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Webhooks"])

MayRead = Annotated[Caller, Depends(may("webhooks:read"))]
DeliveryId = Annotated[str, Path(description="The delivery's id.", json_schema_extra={"type": "integer"})]
AskedStatus = Annotated[
    str | None,
    WithJsonSchema({"type": "string", "enum": list(deliveries.STATUSES)}),
    Query(description="Only those that stand here."),
]
AskedEvent = Annotated[
    str | None,
    WithJsonSchema({"type": "string", "enum": list(EVENT_TYPES)}),
    Query(description="Only events of this type."),
]


def _moment(value: object) -> object:
    """An ISO 8601 date, which begins at midnight, or a date-time; without an offset both are UTC."""
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        utc = at and (at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        utc = None
    if utc is None:
        raise ValueError("Write an ISO 8601 date or date-time.")
    return utc


Moment = Annotated[datetime, BeforeValidator(_moment)]


class EventReplay(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"from": "2026-05-01T00:00:00Z", "to": "2026-05-02T00:00:00Z"}]},
    )

    since: Moment = Field(
        validation_alias=AliasChoices("from"),
        description="What happened at this ISO 8601 time or later, at most 30 days ago.",
    )
    to: Moment | None = Field(None, description="And before this time; now, if nothing is given.")

    def time(self, now: datetime) -> tuple[datetime, datetime]:
        """From when until when; `Invalid` where nothing of that can be told."""
        oldest, until = now - replay.KEPT, min(self.to or now, now)
        if self.since < oldest:
            raise Invalid({"from": [f"Events are kept for 30 days: ask for those since {iso(oldest)}."]})
        if self.since >= until:
            raise Invalid({"from": ["This must be before `to`, and in the past."]})
        return self.since, until


def shape(delivery: deliveries.Delivery, webhook: webhook_queries.Webhook) -> dict[str, Any]:
    """Of a delivery by GET what went out was the URL, and there was no body."""
    is_post = delivery.words is None or delivery.words.startswith("{")
    return {
        "id": delivery.id,
        "event_id": str(delivery.event_id),
        "event_type": delivery.event_type,
        "url": webhook.url if is_post else delivery.words,
        "status": delivery.status,
        "attempts": delivery.attempts,
        "request_body": delivery.words if is_post else None,
        "response_status": delivery.response_status,
        "response_body": delivery.response_body,
        "error": delivery.error,
        "created_at": iso(delivery.created_at),
        "next_attempt_at": iso(delivery.next_at)
        if delivery.status == "pending" and webhook.is_awake
        else None,
        "waits_for": delivery.waits_for,
        "delivered_at": iso(delivery.delivered_at),
    }


@router.get(
    "/webhooks/{webhook_id}/deliveries",
    response_model=schemas.DeliveryPage,
    responses=errors(404, 422),
    summary="List a subscription's deliveries, newest first",
)
def list_deliveries(
    request: Request,
    webhook_id: WebhookId,
    who: MayRead,
    tx: InTx,
    parts: Services,
    asked: AskedPage,
    status: AskedStatus = None,
    event_type: AskedEvent = None,
) -> Response:
    """Of the last 30 days the newest 10,000, or the newest 10,000 of that status, are looked through; of them
    come those of that type. `meta.truncated` says whether there are more than were looked through."""
    webhook = webhook_queries.read_webhook(tx, id_in_path(webhook_id))
    faults: Faults = {}
    wanted = deliveries.DeliveryFilter(
        status=chosen("status", status, deliveries.STATUSES, faults),
        event_type=chosen("event_type", event_type, EVENT_TYPES, faults),
    )
    if faults:
        raise Invalid(faults)
    page, truncated = deliveries.list_deliveries(parts.db, tx, tenant(who), webhook.id, asked, wanted)
    return linked(request, page, lambda delivery: shape(delivery, webhook), more={"truncated": truncated})


@router.get(
    "/webhooks/{webhook_id}/deliveries/{delivery_id}",
    response_model=schemas.DeliveryShape,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read a delivery",
)
def read_delivery(webhook_id: WebhookId, delivery_id: DeliveryId, tx: InTx) -> Response:
    """What was sent, and what the receiver said."""
    webhook = webhook_queries.read_webhook(tx, id_in_path(webhook_id))
    return answer(shape(deliveries.read_delivery(tx, webhook.id, id_in_path(delivery_id)), webhook))


@router.post(
    "/webhooks/{webhook_id}/deliveries/{delivery_id}/retry",
    response_model=schemas.DeliveryShape,
    responses=errors(400, 404, 409),
    dependencies=MAY_WRITE,
    summary="Send a delivery now",
)
def retry_delivery(webhook_id: WebhookId, delivery_id: DeliveryId, tx: InTx, parts: Services) -> Response:
    """One that waits or has failed is tried now, beside its schedule, which goes on as it would. One that
    arrived goes again, as another delivery of the same event: the answer has its id. One that waits for an
    earlier one of the same piece is refused."""
    due = deliveries.retry(tx, id_in_path(webhook_id), id_in_path(delivery_id), now=parts.clock())
    return answer(shape(due, webhook_queries.read_webhook(tx, id_in_path(webhook_id))))


@router.post(
    "/webhooks/{webhook_id}/replay",
    status_code=202,
    response_model=schemas.ReplayAccepted,
    responses=errors(404, *BODY_ERRORS),
    dependencies=MAY_WRITE,
    summary="Send the events of a time again",
)
def replay_webhook(webhook_id: WebhookId, body: EventReplay, tx: InTx, parts: Services) -> Response:
    """Everything that happened then and that the subscription is for, as it is now, whether it was delivered
    or not, in its order and under its own event ids. Only one replay of a subscription runs at a time."""
    now = parts.clock()
    since, until = body.time(now)
    asked = replay.replay(tx, id_in_path(webhook_id), since=since, until=until)
    return answer(
        {
            "message": "success",
            "from": iso(asked.since),
            "to": iso(asked.until),
            "events": asked.events,
            "truncated": asked.truncated,
        },
        status=202,
    )
