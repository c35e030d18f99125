"""Subscriptions to events."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import require_sub_account
from quillpost.api.answers import answer, linked
from quillpost.api.bodies import Body, Id, Text
from quillpost.api.docs import BODY_ERRORS, errors
from quillpost.api.idempotency import HOLDS_SECRET
from quillpost.api.needs import AskedPage, InTx, Parts, SubAccountFilter, id_in_path, may
from quillpost.api.route import V2Route
from quillpost.api.v2.schemas import webhooks as schemas
from quillpost.api.v2.schemas.common import Message
from quillpost.kit.errors import Invalid, Refused
from quillpost.kit.times import iso
from quillpost.webhooks import service, store
from quillpost.webhooks.rules import EVENT_TYPES, EVERY_TYPE

router = APIRouter(route_class=V2Route, tags=["Webhooks"])

MAY_READ = [Depends(may("webhooks:read"))]
MAY_WRITE = [Depends(may("webhooks:write"))]
MayWrite = Annotated[Caller, Depends(may("webhooks:write"))]
WebhookId = Annotated[str, Path(description="The subscription's id.", json_schema_extra={"type": "integer"})]


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


class NewWebhook(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://example.com/hook", "type": "*"}]},
    )

    url: Text = Field(max_length=2_000, examples=["https://example.com/hook"])
    type: Annotated[str, BeforeValidator(_event)] = Field(
        validation_alias=AliasChoices("type", "event", "events"),
        description="One of the four events, or * for all.",
        examples=["order_item.delivered"],
    )
    verb: Annotated[Literal["post", "get"], BeforeValidator(_lower)] = "post"
    description: Text | None = Field(None, max_length=500)
    sub_account_id: Id | None = None
    mailing_list_id: Id | None = None
    mode: Literal["test", "live"] | None = Field(None, description="The token's own, if given.")


def shape(webhook: store.Webhook) -> dict[str, Any]:
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
def create_webhook(body: NewWebhook, who: MayWrite, tx: InTx, parts: Parts) -> Response:
    """Events are signed with the secret in this answer, which is shown this once."""
    wrong = parts.check_url(body.url)
    if wrong is not None:
        raise Invalid({"url": [wrong]})
    if body.mode not in (None, who.mode):
        raise Invalid({"mode": [f"Use a {body.mode} token to subscribe to {body.mode} events."]})
    if body.mailing_list_id is not None:
        raise Refused("Mailing List Does Not Exist")
    webhook, secret = service.subscribe(
        tx,
        who,
        parts.sealer,
        url=body.url,
        type=body.type,
        verb=body.verb,
        description=body.description,
        sub_account_id=body.sub_account_id,
        now=parts.clock(),
    )
    return answer(
        shape(webhook) | {"secret": secret}, status=201, headers=body.notices() | {HOLDS_SECRET: "yes"}
    )


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
    return linked(request, store.list_webhooks(tx, asked, sub_account_id=sub_account_id), shape)


@router.get(
    "/webhooks/{webhook_id}",
    response_model=schemas.WebhookShape,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read a subscription",
)
def read_webhook(webhook_id: WebhookId, tx: InTx) -> Response:
    """`invoke_count` counts the deliveries that succeeded."""
    return answer(shape(store.read_webhook(tx, id_in_path(webhook_id))))


@router.delete(
    "/webhooks/{webhook_id}",
    response_model=Message,
    responses=errors(404),
    dependencies=MAY_WRITE,
    summary="Unsubscribe",
)
def delete_webhook(webhook_id: WebhookId, tx: InTx) -> Response:
    """Deliveries that wait are dropped with it."""
    store.delete_webhook(tx, id_in_path(webhook_id))
    return answer({"message": "success"})
