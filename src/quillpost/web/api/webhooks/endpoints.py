"""Subscriptions to events."""

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fastapi import Depends, Path, Request, Response
from pydantic import AliasChoices, BeforeValidator, Field

from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.app.container import Container
from quillpost.client import webhooks as wire
from quillpost.client.types import MessageResponse
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid
from quillpost.core.text import format_iso
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.rules import ALL_EVENT_TYPES, EVENT_TYPES
from quillpost.orders.templates.rules import MAX_URL_LENGTH
from quillpost.web.api.dependencies import (
    PageQuery,
    PathId,
    RequestAuditWriter,
    RequestTransaction,
    SubAccountFilter,
    require_scope,
)
from quillpost.web.api.errors import BODY_ERRORS
from quillpost.web.api.idempotency import HOLDS_SECRET_HEADER
from quillpost.web.api.responses import json_response, page_of, page_response
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.schemas import NULL_MEANS_DEFAULT, Body, Id, Text, accepts
from quillpost.web.dependencies import Services

router = ApiRouter("Webhooks")

CanWrite = Annotated[Caller, Depends(require_scope("webhooks:write"))]
WebhookId = Annotated[PathId, Path(description="The subscription's id.")]

URL_DESCRIPTION = "Where events go: a public http or https address."
TYPE_DESCRIPTION = "One of the four events, or * for all."
VERB_DESCRIPTION = "How they go: post with a JSON body, or get with the same as query parameters."
SUB_ACCOUNT_DESCRIPTION = "Only orders of this sub account; null: of all."
LIST_DESCRIPTION = "Only orders to this mailing list; null: to anyone."


def _check_event_type(value: object) -> object:
    """One event's name, also as an array of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    event_types = (*EVENT_TYPES, ALL_EVENT_TYPES)
    if value not in event_types:
        raise ValueError(f"Choose one of {', '.join(event_types)}.")
    return value


def _to_lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


EventName = Annotated[
    str, BeforeValidator(_check_event_type), Field(json_schema_extra={"enum": [*EVENT_TYPES, ALL_EVENT_TYPES]})
]
Verb = Annotated[Literal["post", "get"], BeforeValidator(_to_lower)]
EVENT_NAMES = AliasChoices("type", "event", "events")


@accepts(wire.WebhookUpdate)
class NewWebhook(Body):
    url: Text = Field(max_length=MAX_URL_LENGTH, description=URL_DESCRIPTION, examples=["https://example.com/hook"])
    type: EventName = Field(
        validation_alias=EVENT_NAMES, description=TYPE_DESCRIPTION, examples=["order_item.delivered"]
    )
    verb: Annotated[Verb, NULL_MEANS_DEFAULT] = Field("post", description=VERB_DESCRIPTION)
    description: Text | None = Field(None, max_length=500, description="Yours.")
    sub_account_id: Id | None = Field(None, description=SUB_ACCOUNT_DESCRIPTION)
    mailing_list_id: Id | None = Field(None, description=LIST_DESCRIPTION)
    mode: Literal["test", "live"] | None = Field(None, description="The token's own, if given.")


class Trial(Body):
    event_type: EventName | None = Field(
        None,
        validation_alias=AliasChoices("event_type", "type"),
        description="Which of its events; without it, the first that it is for.",
    )


@accepts(wire.WebhookUpdate)
class ChangedWebhook(Body):
    """What is not named stays; null where there must be something is refused."""

    url: Text = Field(default_factory=str, max_length=MAX_URL_LENGTH, description=URL_DESCRIPTION)
    type: EventName = Field(default_factory=str, validation_alias=EVENT_NAMES, description=TYPE_DESCRIPTION)
    verb: Verb = Field(default_factory=lambda: "post", description=VERB_DESCRIPTION)
    description: Text | None = Field(None, max_length=500, description="Yours; null clears it.")
    sub_account_id: Id | None = Field(None, description=SUB_ACCOUNT_DESCRIPTION)
    mailing_list_id: Id | None = Field(None, description=LIST_DESCRIPTION)
    mode: Literal["test", "live"] | None = Field(None, description="As it is: it cannot change.")


def audit_details(webhook: webhook_queries.WebhookSubscription) -> dict[str, Any]:
    """Names only the host: the rest of the URL may hold a key."""
    return {"name": urlsplit(webhook.url).hostname, "mode": webhook.mode, "id": webhook.id}


def record_action(
    audit: RequestAuditWriter, tx: RequestTransaction, action: str, webhook: webhook_queries.WebhookSubscription
) -> None:
    audit.record(tx, action, audit_details(webhook), sub_account_id=webhook.sub_account_id)


def create_subscription(
    tx: Tx, caller: Caller, body: NewWebhook, container: Container
) -> tuple[webhook_queries.WebhookSubscription, str]:
    """The subscription and its secret."""
    errors = {"url": [error]} if (error := container.check_url(body.url)) else {}
    if body.mode not in (None, caller.mode):
        errors["mode"] = [f"Use a {body.mode} token to subscribe to {body.mode} events."]
    if errors:
        raise Invalid(errors)
    return webhook_service.create_webhook(
        tx,
        caller,
        container.encryptor,
        url=body.url,
        type=body.type,
        verb=body.verb,
        description=body.description,
        sub_account_id=body.sub_account_id,
        mailing_list_id=body.mailing_list_id,
        max_webhooks=container.limits.webhooks,
        now=container.clock(),
    )


def update_subscription(
    tx: Tx, caller: Caller, webhook_id: int, body: ChangedWebhook, container: Container
) -> webhook_queries.WebhookSubscription:
    changes = body.provided_fields()
    webhook = webhook_queries.read_webhook(tx, webhook_id)
    errors = {"url": [error]} if "url" in changes and (error := container.check_url(body.url)) else {}
    if changes.pop("mode", None) not in (None, webhook.mode):
        errors["mode"] = [f"This subscription stays {webhook.mode}: make another with a {body.mode} token."]
    if errors:
        raise Invalid(errors)
    return webhook_service.update_webhook(tx, caller, webhook.id, changes, now=container.clock())


def serialize_webhook(webhook: webhook_queries.WebhookSubscription) -> wire.Webhook:
    return {
        "id": webhook.id,
        "user_id": webhook.account_id,
        "sub_account_id": webhook.sub_account_id,
        "mailing_list_id": webhook.mailing_list_id,
        "url": webhook.url,
        "type": webhook.type,
        "verb": webhook.verb,
        "mode": webhook.mode,
        "description": webhook.description,
        "status": webhook.status,
        "failing_since": format_iso(webhook.failing_since),
        "last_error": webhook.last_error,
        "previous_secret_until": format_iso(webhook.previous_until),
        "invoke_count": webhook.invoke_count,
        "created_at": format_iso(webhook.created_at),
        "updated_at": format_iso(webhook.updated_at),
    }


@router.post("/webhooks", wire.CreatedWebhook, status_code=201, errors=[*BODY_ERRORS], summary="Subscribe to events")
def create_webhook(
    body: NewWebhook, caller: CanWrite, tx: RequestTransaction, container: Services, audit: RequestAuditWriter
) -> Response:
    """Events are signed with the secret in this answer, which is shown this once."""
    webhook, secret = create_subscription(tx, caller, body, container)
    record_action(audit, tx, "webhook.created", webhook)
    content: wire.CreatedWebhook = {**serialize_webhook(webhook), "secret": secret}
    return json_response(content, status=201, headers={HOLDS_SECRET_HEADER: "yes"})


@router.get(
    "/webhooks",
    page_of(wire.Webhook),
    errors=[400, 422],
    scope="webhooks:read",
    summary="List subscriptions, newest first",
)
def list_webhooks(
    request: Request, tx: RequestTransaction, page_request: PageQuery, sub_account_id: SubAccountFilter
) -> Response:
    """The secrets are not in it."""
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    return page_response(
        request, webhook_queries.list_webhooks(tx, page_request, sub_account_id=sub_account_id), serialize_webhook
    )


@router.get("/webhooks/{webhook_id}", wire.Webhook, errors=[404], scope="webhooks:read", summary="Read a subscription")
def read_webhook(webhook_id: WebhookId, tx: RequestTransaction) -> Response:
    """`invoke_count` counts the deliveries that succeeded; `last_error` is what came of the last,
    where that did not."""
    return json_response(serialize_webhook(webhook_queries.read_webhook(tx, webhook_id)))


@router.put("/webhooks/{webhook_id}", wire.Webhook, errors=[404, *BODY_ERRORS], summary="Change a subscription")
def change_webhook(
    webhook_id: WebhookId,
    body: ChangedWebhook,
    caller: CanWrite,
    tx: RequestTransaction,
    container: Services,
    audit: RequestAuditWriter,
) -> Response:
    """What is not named stays, the secret always. Deliveries that wait go out to the new address."""
    changed = update_subscription(tx, caller, webhook_id, body, container)
    record_action(audit, tx, "webhook.changed", changed)
    return json_response(serialize_webhook(changed))


@router.delete("/webhooks/{webhook_id}", MessageResponse, errors=[404], scope="webhooks:write", summary="Unsubscribe")
def delete_webhook(webhook_id: WebhookId, tx: RequestTransaction, audit: RequestAuditWriter) -> Response:
    """Deliveries that wait are dropped with it."""
    webhook = webhook_queries.read_webhook(tx, webhook_id)
    webhook_queries.delete_webhook(tx, webhook.id)
    record_action(audit, tx, "webhook.deleted", webhook)
    return json_response({"message": "success"})


@router.post(
    "/webhooks/{webhook_id}/pause",
    wire.Webhook,
    errors=[404, 409],
    scope="webhooks:write",
    summary="Pause a subscription",
)
def pause_webhook(
    webhook_id: WebhookId, tx: RequestTransaction, container: Services, audit: RequestAuditWriter
) -> Response:
    """Events wait until it is resumed. Pausing twice is pausing once."""
    before = webhook_queries.read_webhook(tx, webhook_id, locked=True)
    paused = webhook_service.pause_webhook(tx, before.id, now=container.clock())
    if paused.status != before.status:
        record_action(audit, tx, "webhook.paused", paused)
    return json_response(serialize_webhook(paused))


@router.post(
    "/webhooks/{webhook_id}/resume",
    wire.Webhook,
    errors=[404, 409],
    scope="webhooks:write",
    summary="Resume a subscription",
)
def resume_webhook(
    webhook_id: WebhookId, tx: RequestTransaction, container: Services, audit: RequestAuditWriter
) -> Response:
    """Events that waited go out in their order. One that is failing or disabled is active again too, and one
    whose receiver was given a rest is tried at once."""
    before = webhook_queries.read_webhook(tx, webhook_id, locked=True)
    resumed = webhook_service.resume_webhook(tx, before.id, now=container.clock())
    if resumed.status != before.status:
        record_action(audit, tx, "webhook.resumed", resumed)
    return json_response(serialize_webhook(resumed))


@router.post(
    "/webhooks/{webhook_id}/test",
    wire.WebhookTestResponse,
    errors=[404, *BODY_ERRORS],
    scope="webhooks:write",
    summary="Send a sample event",
)
def try_webhook(
    webhook_id: WebhookId, tx: RequestTransaction, container: Services, body: Trial | None = None
) -> Response:
    """An event that the subscription is for, signed and delivered like every other. Its order and its piece
    have the id 0 and do not exist."""
    event_type = None if body is None else body.event_type
    sample = webhook_service.send_sample_event(tx, webhook_id, event_type, now=container.clock())
    return json_response(
        wire.WebhookTestResponse(message="success", event_id=sample.event_id, event_type=sample.event_type)
    )


@router.post(
    "/webhooks/{webhook_id}/rotate-secret",
    wire.RotatedWebhook,
    errors=[404, 409],
    scope="webhooks:write",
    summary="Change a subscription's secret",
)
def rotate_webhook_secret(
    webhook_id: WebhookId, tx: RequestTransaction, container: Services, audit: RequestAuditWriter
) -> Response:
    """The new secret is shown this once. For 24 hours events are signed with the old one too, so that a
    receiver can change over when it likes; whoever rotates again meanwhile ends that for the oldest."""
    webhook, secret, until = webhook_service.rotate_secret(tx, container.encryptor, webhook_id, now=container.clock())
    record_action(audit, tx, "webhook.secret", webhook)
    content: wire.RotatedWebhook = {
        **serialize_webhook(webhook),
        "secret": secret,
        "previous_secret_until": format_iso(until),
    }
    return json_response(content, headers={HOLDS_SECRET_HEADER: "yes"})
