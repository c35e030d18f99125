"""Subscriptions to events."""

from typing import Annotated

from fastapi import Path, Request, Response

from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.client import webhooks as wire
from quillpost.client.types import MessageResponse
from quillpost.core.text import format_iso
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.web.api.dependencies import (
    ApiCaller,
    PageQuery,
    PathId,
    RequestAuditWriter,
    RequestTransaction,
    SubAccountFilter,
)
from quillpost.web.api.idempotency import HOLDS_SECRET_HEADER
from quillpost.web.api.responses import json_response, page_of, page_response, to_wire
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.webhooks.schemas import ChangedWebhook, NewWebhook, Trial
from quillpost.web.dependencies import Services

router = ApiRouter("Webhooks", resource="webhooks")

WebhookId = Annotated[PathId, Path(description="The subscription's id.")]


def record_action(
    audit: RequestAuditWriter, tx: RequestTransaction, action: str, webhook: webhook_queries.WebhookSubscription
) -> None:
    audit.record(tx, action, webhook.audit_details, sub_account_id=webhook.sub_account_id)


def serialize_webhook(webhook: webhook_queries.WebhookSubscription) -> wire.Webhook:
    return to_wire(
        wire.Webhook, webhook, user_id=webhook.account_id, previous_secret_until=format_iso(webhook.previous_until)
    )


@router.post("/webhooks", wire.CreatedWebhook, status_code=201, summary="Subscribe to events")
def create_webhook(
    body: NewWebhook, caller: ApiCaller, tx: RequestTransaction, container: Services, audit: RequestAuditWriter
) -> Response:
    """Events are signed with the secret in this answer, which is shown this once."""
    webhook, secret = webhook_service.create_webhook(
        tx,
        caller,
        container.encryptor,
        **body.provided_fields(),
        check_url=container.check_url,
        max_webhooks=container.limits.webhooks,
        now=container.clock(),
    )
    record_action(audit, tx, "webhook.created", webhook)
    content: wire.CreatedWebhook = {**serialize_webhook(webhook), "secret": secret}
    return json_response(content, status=201, headers={HOLDS_SECRET_HEADER: "yes"})


@router.get("/webhooks", page_of(wire.Webhook), summary="List subscriptions, newest first")
def list_webhooks(
    request: Request, tx: RequestTransaction, page_request: PageQuery, sub_account_id: SubAccountFilter
) -> Response:
    """The secrets are not in it."""
    require_sub_account(tx, sub_account_id)
    return page_response(
        request, webhook_queries.list_webhooks(tx, page_request, sub_account_id=sub_account_id), serialize_webhook
    )


@router.get("/webhooks/{webhook_id}", wire.Webhook, summary="Read a subscription")
def read_webhook(webhook_id: WebhookId, tx: RequestTransaction) -> Response:
    """`invoke_count` counts the deliveries that succeeded; `last_error` is what came of the last,
    where that did not."""
    return json_response(serialize_webhook(webhook_queries.read_webhook(tx, webhook_id)))


@router.put("/webhooks/{webhook_id}", wire.Webhook, summary="Change a subscription")
def change_webhook(
    webhook_id: WebhookId,
    body: ChangedWebhook,
    caller: ApiCaller,
    tx: RequestTransaction,
    container: Services,
    audit: RequestAuditWriter,
) -> Response:
    """What is not named stays, the secret always. Deliveries that wait go out to the new address."""
    changed = webhook_service.update_webhook(
        tx, caller, webhook_id, body.provided_fields(), check_url=container.check_url, now=container.clock()
    )
    record_action(audit, tx, "webhook.changed", changed)
    return json_response(serialize_webhook(changed))


@router.delete("/webhooks/{webhook_id}", MessageResponse, summary="Unsubscribe")
def delete_webhook(webhook_id: WebhookId, tx: RequestTransaction, audit: RequestAuditWriter) -> Response:
    """Deliveries that wait are dropped with it."""
    webhook = webhook_queries.read_webhook(tx, webhook_id)
    webhook_queries.delete_webhook(tx, webhook.id)
    record_action(audit, tx, "webhook.deleted", webhook)
    return json_response({"message": "success"})


@router.post("/webhooks/{webhook_id}/pause", wire.Webhook, errors=[409], summary="Pause a subscription")
def pause_webhook(
    webhook_id: WebhookId, tx: RequestTransaction, container: Services, audit: RequestAuditWriter
) -> Response:
    """Events wait until it is resumed. Pausing twice is pausing once."""
    before = webhook_queries.read_webhook(tx, webhook_id, locked=True)
    paused = webhook_service.pause_webhook(tx, before.id, now=container.clock())
    if paused.status != before.status:
        record_action(audit, tx, "webhook.paused", paused)
    return json_response(serialize_webhook(paused))


@router.post("/webhooks/{webhook_id}/resume", wire.Webhook, errors=[409], summary="Resume a subscription")
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


@router.post("/webhooks/{webhook_id}/test", wire.WebhookTestResponse, summary="Send a sample event")
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
    "/webhooks/{webhook_id}/rotate-secret", wire.RotatedWebhook, errors=[409], summary="Change a subscription's secret"
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
