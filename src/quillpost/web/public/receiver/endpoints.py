"""The built-in receiver of a first run: it takes our own webhooks and shows them as they arrive, to anyone who knows
the key in its URL. It does what any receiver should: verify the signature of the raw body, ignore repeats, answer at
once."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Query, Request, Response

from quillpost.app.container import Container
from quillpost.client import signatures
from quillpost.core import exact_json
from quillpost.core.database import Tx
from quillpost.core.database.tables.notifications import received_events, webhooks
from quillpost.core.encryption import DecryptionFailed
from quillpost.core.errors import Invalid, NotFound
from quillpost.core.text import format_iso
from quillpost.notifications.webhooks.service import decrypt_secret
from quillpost.web.api.errors import UnreadableBody
from quillpost.web.api.responses import json_response
from quillpost.web.api.send.endpoints import EXAMPLE
from quillpost.web.dependencies import Services
from quillpost.web.public.docs.pages import format_curl
from quillpost.web.rendering import format_json, render_page
from quillpost.web.sessions import OptionalUser

MAX_STORED = 500
MAX_BODY_BYTES = 256_000

# The lock makes ids appear in their order, so that a page that asks for what came after the last one
# it saw never misses one; it also lets two deliveries of the same event find each other.
LOCK_RECEIVED_EVENTS = sa.text("lock table received_events in share row exclusive mode")
STORE_EVENT = sa.text(
    """
    insert into received_events (received_at, event_id, event_type, verified, body)
    select :now, :event_id, :event_type, true, :body
     where not exists (select 1 from received_events where event_id = :event_id)
    """
)
DELETE_OLDEST = sa.text(
    """
    delete from received_events where id <= (
        select id from received_events order by id desc offset :most limit 1)
    """
)


async def require_key(key: str, container: Services) -> Container:
    if not any(secrets.compare_digest(key.encode(), receiver_key.encode()) for receiver_key in container.receiver_keys):
        raise NotFound
    return container


ReceiverServices = Annotated[Container, Depends(require_key)]

router = APIRouter(prefix="/receiver/{key}", include_in_schema=False, dependencies=[Depends(require_key)])


async def read_raw_body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise UnreadableBody(413)
    return bytes(body)


@router.api_route("/hook", methods=["POST", "GET"])
def receive_event(
    request: Request, key: str, body: Annotated[bytes, Depends(read_raw_body)], container: ReceiverServices
) -> Response:
    """401 if no subscription to this URL has signed it."""
    now = container.clock()
    with container.db.system_transaction() as tx:
        if not signatures.verify(_list_secrets(tx, container, key), request.headers, body, now=now):
            return json_response({"message": "The signature does not fit this body."}, status=401)
        event = body if request.method == "POST" else _query_to_body(request.query_params)
        _store_event(tx, request.headers["webhook-id"], event, now=now)
    return Response(status_code=204)


@router.get("")
def show_receiver(request: Request, key: str, container: ReceiverServices, user: OptionalUser) -> Response:
    return render_page(
        request,
        "public/receiver.html",
        user=user,
        events_path=f"/receiver/{key}/events",
        curl=format_curl("POST", f"{container.base_url}/api/v2/send/postcard", EXAMPLE),
        max_events=MAX_STORED,
    )


@router.get("/events")
def list_events(container: ReceiverServices, after: Annotated[int, Query(ge=0, lt=2**63)] = 0) -> Response:
    """Oldest first."""
    with container.db.system_transaction() as tx:
        rows = tx.execute(
            sa.select(received_events)
            .where(received_events.c.id > after)
            .order_by(received_events.c.id)
            .limit(MAX_STORED)
        ).all()
    return json_response({"events": [_serialize_event(row) for row in rows]}, headers={"Cache-Control": "no-store"})


def _list_secrets(tx: Tx, container: Container, key: str) -> list[str]:
    """Of every subscription to this URL: each account has its own."""
    rows = tx.execute(
        sa.select(webhooks.c.id, webhooks.c.secret_sealed).where(
            webhooks.c.url.endswith(f"/receiver/{key}/hook", autoescape=True)
        )
    )
    signing_secrets = []
    for row in rows:
        with suppress(DecryptionFailed):  # made under another key: it signs nothing here
            signing_secrets.append(decrypt_secret(container.encryptor, row.id, bytes(row.secret_sealed)))
    return signing_secrets


def _query_to_body(parameters: Mapping[str, str]) -> bytes:
    """An event that came as query parameters, in the form of the others."""
    outer = ("event_type", "event_id", "timestamp")
    event = {name: parameters[name] for name in outer if name in parameters}
    data = {name: value for name, value in parameters.items() if name not in outer}
    return exact_json.dump_json({**event, "data": data}).encode()


def _store_event(tx: Tx, event_id: str, body: bytes, *, now: datetime) -> None:
    """The body as it came, unless this event is stored already."""
    event = _parse_event(body)
    tx.execute(LOCK_RECEIVED_EVENTS)
    tx.execute(
        STORE_EVENT, {"now": now, "event_id": event_id, "event_type": event["event_type"], "body": body.decode()}
    )
    tx.execute(DELETE_OLDEST, {"most": MAX_STORED})


def _parse_event(body: bytes) -> dict[str, Any]:
    try:
        event = exact_json.parse_json(body)
        if isinstance(event["data"], dict) and isinstance(event["event_type"], str):
            return dict(event)
    except (exact_json.InvalidJson, TypeError, KeyError):
        pass
    raise Invalid({"body": ["This is not an event."]})


def _serialize_event(row: Any) -> dict[str, Any]:
    event = _parse_event(row.body.encode())
    data = event["data"]
    subject = "order_item" if "order_item.id" in data else "order"
    return {
        "id": row.id,
        "received_at": format_iso(row.received_at),
        "event_id": row.event_id,
        "event_type": row.event_type,
        "previous": data.get(f"{subject}.previous_status"),
        "current": data.get(f"{subject}.current_status"),
        "order_id": data.get("order.id"),
        "item_id": data.get("order_item.id"),
        "name": data.get("recipient.name"),
        "scans": data.get("order_item.scans"),
        "leads_to": data.get("qrcode.url"),
        "verified": row.verified,
        "body": format_json(event),
    }
