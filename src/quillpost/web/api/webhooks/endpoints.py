"""Subscriptions to events."""

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field

from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.app.container import Parts as ServiceParts
from quillpost.core.clock import iso
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.rules import EVENT_TYPES, EVERY_TYPE
from quillpost.orders.templates.rules import LONGEST_URL
from quillpost.web.api.bodies import NULL_IS_LEFT_OUT, Body, Id, Text
from quillpost.web.api.dependencies import AskedPage, InTx, Log, Services, SubAccountFilter, id_in_path, may
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.idempotency import HOLDS_SECRET
from quillpost.web.api.orders.schemas import Message
from quillpost.web.api.responses import answer, linked
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.webhooks import schemas as schemas

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Webhooks"])

MAY_READ = [Depends(may("webhooks:read"))]
MAY_WRITE = [Depends(may("webhooks:write"))]
MayWrite = Annotated[Caller, Depends(may("webhooks:write"))]
WebhookId = Annotated[str, Path(description="The subscription's id.", json_schema_extra={"type": "integer"})]


TO = "Where events go: a public http or https address."
OF = "One of the four events, or * for all."
HOW = "How they go: post with a JSON body, or get with the same as query parameters."
ONLY_SUB_ACCOUNT = "Only orders of this sub account; null: of all."
ONLY_LIST = "Only orders to this mailing list; null: to anyone."


def _event(value: object) -> object:
    """One event's name, also as an array of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    known = (*EVENT_TYPES, EVERY_TYPE)
    if value not in known:
        raise ValueError(f"Choose one of {', '.join(known)}.")
    return value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


EventName = Annotated[
    str, BeforeValidator(_event), Field(json_schema_extra={"enum": [*EVENT_TYPES, EVERY_TYPE]})
]
Verb = Annotated[Literal["post", "get"], BeforeValidator(_lower)]
EVENT_NAMES = AliasChoices("type", "event", "events")


class NewWebhook(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://example.com/hook", "type": "*"}]},
    )

    url: Text = Field(max_length=LONGEST_URL, description=TO, examples=["https://example.com/hook"])
    type: EventName = Field(validation_alias=EVENT_NAMES, description=OF, examples=["order_item.delivered"])
    verb: Annotated[Verb, NULL_IS_LEFT_OUT] = Field("post", description=HOW)
    description: Text | None = Field(None, max_length=500, description="Yours.")
    sub_account_id: Id | None = Field(None, description=ONLY_SUB_ACCOUNT)
    mailing_list_id: Id | None = Field(None, description=ONLY_LIST)
    mode: Literal["test", "live"] | None = Field(None, description="The token's own, if given.")


class Trial(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"event_type": "scans.scan_update"}]})

    event_type: EventName | None = Field(
        None,
        validation_alias=AliasChoices("event_type", "type"),
        description="Which of its events; without it, the first that it is for.",
    )


class ChangedWebhook(Body):
    """What is not named stays; null where there must be something is refused."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://example.com/new-hook", "description": None}]},
    )

    url: Text = Field(default_factory=str, max_length=LONGEST_URL, description=TO)
    type: EventName = Field(default_factory=str, validation_alias=EVENT_NAMES, description=OF)
    verb: Verb = Field(default_factory=lambda: "post", description=HOW)
    description: Text | None = Field(None, max_length=500, description="Yours; null clears it.")
    sub_account_id: Id | None = Field(None, description=ONLY_SUB_ACCOUNT)
    mailing_list_id: Id | None = Field(None, description=ONLY_LIST)
    mode: Literal["test", "live"] | None = Field(None, description="As it is: it cannot change.")


def noted(webhook: webhook_queries.Webhook) -> dict[str, Any]:
    """What the audit log says of it. Where events go is told by the host alone: the rest of an address may
    hold a key."""
    return {"name": urlsplit(webhook.url).hostname, "mode": webhook.mode, "id": webhook.id}


def note(log: Log, tx: InTx, act: str, webhook: webhook_queries.Webhook) -> None:
    log.note(tx, act, noted(webhook), sub_account_id=webhook.sub_account_id)


def subscribe(
    tx: Tx, who: Caller, body: NewWebhook, parts: ServiceParts
) -> tuple[webhook_queries.Webhook, str]:
    """The subscription, and its secret in clear: this once."""
    faults = {"url": [wrong]} if (wrong := parts.check_url(body.url)) else {}
    if body.mode not in (None, who.mode):
        faults["mode"] = [f"Use a {body.mode} token to subscribe to {body.mode} events."]
    if faults:
        raise Invalid(faults)
    return webhook_service.subscribe(
        tx,
        who,
        parts.sealer,
        url=body.url,
        type=body.type,
        verb=body.verb,
        description=body.description,
        sub_account_id=body.sub_account_id,
        mailing_list_id=body.mailing_list_id,
        most=parts.limits.webhooks,
        now=parts.clock(),
    )


def change(
    tx: Tx, who: Caller, webhook_id: int, body: ChangedWebhook, parts: ServiceParts
) -> webhook_queries.Webhook:
    """What is not named stays."""
    changes = body.given()
    webhook = webhook_queries.read_webhook(tx, webhook_id)
    faults = {"url": [wrong]} if "url" in changes and (wrong := parts.check_url(body.url)) else {}
    if changes.pop("mode", None) not in (None, webhook.mode):
        faults["mode"] = [f"This subscription stays {webhook.mode}: make another with a {body.mode} token."]
    if faults:
        raise Invalid(faults)
    return webhook_service.change(tx, who, webhook.id, changes, now=parts.clock())


def shape(webhook: webhook_queries.Webhook) -> dict[str, Any]:
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
        "failing_since": iso(webhook.failing_since),
        "last_error": webhook.last_error,
        "previous_secret_until": iso(webhook.previous_until),
        "invoke_count": webhook.invoke_count,
        "created_at": iso(webhook.created_at),
        "updated_at": iso(webhook.updated_at),
    }


@router.post(
    "/webhooks",
    status_code=201,
    response_model=schemas.WebhookCreated,
    responses=errors(*BODY_ERRORS),
    summary="Subscribe to events",
)
def create_webhook(body: NewWebhook, who: MayWrite, tx: InTx, parts: Services, log: Log) -> Response:
    """Events are signed with the secret in this answer, which is shown this once."""
    webhook, secret = subscribe(tx, who, body, parts)
    note(log, tx, "webhook.created", webhook)
    return answer(shape(webhook) | {"secret": secret}, status=201, headers={HOLDS_SECRET: "yes"})


@router.get(
    "/webhooks",
    response_model=schemas.WebhookPage,
    responses=errors(400, 422),
    dependencies=MAY_READ,
    summary="List subscriptions, newest first",
)
def list_webhooks(request: Request, tx: InTx, asked: AskedPage, sub_account_id: SubAccountFilter) -> Response:
    """The secrets are not in it."""
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    return linked(request, webhook_queries.list_webhooks(tx, asked, sub_account_id=sub_account_id), shape)


@router.get(
    "/webhooks/{webhook_id}",
    response_model=schemas.WebhookShape,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read a subscription",
)
def read_webhook(webhook_id: WebhookId, tx: InTx) -> Response:
    """`invoke_count` counts the deliveries that succeeded; `last_error` is what came of the last,
    where that did not."""
    return answer(shape(webhook_queries.read_webhook(tx, id_in_path(webhook_id))))


@router.put(
    "/webhooks/{webhook_id}",
    response_model=schemas.WebhookShape,
    responses=errors(404, *BODY_ERRORS),
    summary="Change a subscription",
)
def change_webhook(
    webhook_id: WebhookId, body: ChangedWebhook, who: MayWrite, tx: InTx, parts: Services, log: Log
) -> Response:
    """What is not named stays, the secret always. Deliveries that wait go out to the new address."""
    changed = change(tx, who, id_in_path(webhook_id), body, parts)
    note(log, tx, "webhook.changed", changed)
    return answer(shape(changed))


@router.delete(
    "/webhooks/{webhook_id}",
    response_model=Message,
    responses=errors(404),
    dependencies=MAY_WRITE,
    summary="Unsubscribe",
)
def delete_webhook(webhook_id: WebhookId, tx: InTx, log: Log) -> Response:
    """Deliveries that wait are dropped with it."""
    webhook = webhook_queries.read_webhook(tx, id_in_path(webhook_id))
    webhook_queries.delete_webhook(tx, webhook.id)
    note(log, tx, "webhook.deleted", webhook)
    return answer({"message": "success"})


@router.post(
    "/webhooks/{webhook_id}/pause",
    response_model=schemas.WebhookShape,
    responses=errors(404, 409),
    dependencies=MAY_WRITE,
    summary="Pause a subscription",
)
def pause_webhook(webhook_id: WebhookId, tx: InTx, parts: Services, log: Log) -> Response:
    """Events wait until it is resumed. Pausing twice is pausing once."""
    was = webhook_queries.read_webhook(tx, id_in_path(webhook_id), locked=True)
    paused = webhook_service.pause(tx, was.id, now=parts.clock())
    if paused.status != was.status:
        note(log, tx, "webhook.paused", paused)
    return answer(shape(paused))


@router.post(
    "/webhooks/{webhook_id}/resume",
    response_model=schemas.WebhookShape,
    responses=errors(404, 409),
    dependencies=MAY_WRITE,
    summary="Resume a subscription",
)
def resume_webhook(webhook_id: WebhookId, tx: InTx, parts: Services, log: Log) -> Response:
    """Events that waited go out in their order. One that is failing or disabled is active again too, and one
    whose receiver was given a rest is tried at once."""
    was = webhook_queries.read_webhook(tx, id_in_path(webhook_id), locked=True)
    resumed = webhook_service.resume(tx, was.id, now=parts.clock())
    if resumed.status != was.status:
        note(log, tx, "webhook.resumed", resumed)
    return answer(shape(resumed))


@router.post(
    "/webhooks/{webhook_id}/test",
    response_model=schemas.WebhookTried,
    responses=errors(404, *BODY_ERRORS),
    dependencies=MAY_WRITE,
    summary="Send a sample event",
)
def try_webhook(webhook_id: WebhookId, tx: InTx, parts: Services, body: Trial | None = None) -> Response:
    """An event that the subscription is for, signed and delivered like every other. Its order and its piece
    have the id 0 and do not exist."""
    wanted = None if body is None else body.event_type
    sent = webhook_service.send_sample(tx, id_in_path(webhook_id), wanted, now=parts.clock())
    return answer({"message": "success", "event_id": sent.event_id, "event_type": sent.event_type})


@router.post(
    "/webhooks/{webhook_id}/rotate-secret",
    response_model=schemas.WebhookRotated,
    responses=errors(404, 409),
    dependencies=MAY_WRITE,
    summary="Change a subscription's secret",
)
def rotate_webhook_secret(webhook_id: WebhookId, tx: InTx, parts: Services, log: Log) -> Response:
    """The new secret is shown this once. For 24 hours events are signed with the old one too, so that a
    receiver can change over when it likes; whoever rotates again meanwhile ends that for the oldest."""
    webhook, secret, until = webhook_service.rotate_secret(
        tx, parts.sealer, id_in_path(webhook_id), now=parts.clock()
    )
    note(log, tx, "webhook.secret", webhook)
    shown = shape(webhook) | {"secret": secret, "previous_secret_until": iso(until)}
    return answer(shown, headers={HOLDS_SECRET: "yes"})
