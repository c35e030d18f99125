"""The built-in receiver of a first run: it takes our own webhooks and shows them as they arrive.

It does what any receiver should: verifies the signature over the raw body, takes a repeat for a repeat,
and answers at once. Whoever knows the key in the address may look.
"""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Query, Request, Response

from quillpost.app.container import Parts
from quillpost.client import signatures
from quillpost.core import exact_json
from quillpost.core.clock import iso
from quillpost.core.database import Tx
from quillpost.core.database.tables.notifications import received_events, webhooks
from quillpost.core.encryption import SealBroken
from quillpost.core.errors import Invalid, NotFound
from quillpost.notifications.webhooks.service import unseal
from quillpost.web.api.dependencies import parts_of
from quillpost.web.api.errors import WrongBody
from quillpost.web.api.responses import answer
from quillpost.web.api.send.endpoints import EXAMPLE
from quillpost.web.public.api_reference import curl
from quillpost.web.rendering import show
from quillpost.web.sessions import MaybeReader

MOST_KEPT = 500
LARGEST_BODY = 256_000

# The lock makes ids appear in their order, so that a page that asks for what came after the last one
# it saw never misses one; it also lets two deliveries of the same event find each other.
ONE_AT_A_TIME = sa.text("lock table received_events in share row exclusive mode")
KEEP = sa.text(
    """
    insert into received_events (received_at, event_id, event_type, verified, body)
    select :now, :event_id, :event_type, true, :body
     where not exists (select 1 from received_events where event_id = :event_id)
    """
)
FORGET_OLDEST = sa.text(
    """
    delete from received_events where id <= (
        select id from received_events order by id desc offset :most limit 1)
    """
)


def let_in(key: str, parts: Annotated[Parts, Depends(parts_of)]) -> Parts:
    """Whoever knows the key; for everyone else there is nothing here."""
    if not any(secrets.compare_digest(key.encode(), known.encode()) for known in parts.receiver_keys):
        raise NotFound
    return parts


OurParts = Annotated[Parts, Depends(let_in)]

router = APIRouter(prefix="/receiver/{key}", include_in_schema=False, dependencies=[Depends(let_in)])


async def raw_body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise WrongBody(413)
    return bytes(body)


@router.api_route("/hook", methods=["POST", "GET"])
def take_event(
    request: Request, key: str, body: Annotated[bytes, Depends(raw_body)], parts: OurParts
) -> Response:
    """One delivery; 401 when no subscription to this address has signed it."""
    now = parts.clock()
    with parts.db.work() as tx:
        if not signatures.verify(_secrets(tx, parts, key), request.headers, body, now=now):
            return answer({"message": "The signature does not fit this body."}, status=401)
        event = body if request.method == "POST" else _body_of_query(request.query_params)
        _keep(tx, request.headers["webhook-id"], event, now=now)
    return Response(status_code=204)


@router.get("")
def show_receiver(request: Request, key: str, parts: OurParts, who: MaybeReader) -> Response:
    """The page on which events arrive."""
    return show(
        request,
        "doors/receiver.html",
        who=who,
        events_path=f"/receiver/{key}/events",
        curl=curl("POST", f"{parts.base_url}/api/v2/send/postcard", EXAMPLE),
        most=MOST_KEPT,
    )


@router.get("/events")
def list_events(parts: OurParts, after: Annotated[int, Query(ge=0, lt=2**63)] = 0) -> Response:
    """What arrived after the event with this id, oldest first."""
    with parts.db.work() as tx:
        rows = tx.execute(
            sa.select(received_events)
            .where(received_events.c.id > after)
            .order_by(received_events.c.id)
            .limit(MOST_KEPT)
        ).all()
    return answer({"events": [_shown(row) for row in rows]}, headers={"Cache-Control": "no-store"})


def _secrets(tx: Tx, parts: Parts, key: str) -> list[str]:
    """Of every subscription to this address: each account that subscribes it has its own."""
    rows = tx.execute(
        sa.select(webhooks.c.id, webhooks.c.secret_sealed).where(
            webhooks.c.url.endswith(f"/receiver/{key}/hook", autoescape=True)
        )
    )
    found = []
    for row in rows:
        with suppress(SealBroken):  # made under another key: it signs nothing here
            found.append(unseal(parts.sealer, row.id, bytes(row.secret_sealed)))
    return found


def _body_of_query(parameters: Mapping[str, str]) -> bytes:
    """An event that came as query parameters, in the form that others have."""
    outer = ("event_type", "event_id", "timestamp")
    event = {name: parameters[name] for name in outer if name in parameters}
    data = {name: value for name, value in parameters.items() if name not in outer}
    return exact_json.write({**event, "data": data}).encode()


def _keep(tx: Tx, event_id: str, body: bytes, *, now: datetime) -> None:
    """The body as it came, unless this event is here already."""
    event = _read(body)
    tx.execute(ONE_AT_A_TIME)
    tx.execute(
        KEEP, {"now": now, "event_id": event_id, "event_type": event["event_type"], "body": body.decode()}
    )
    tx.execute(FORGET_OLDEST, {"most": MOST_KEPT})


def _read(body: bytes) -> dict[str, Any]:
    try:
        event = exact_json.read(body)
        if isinstance(event["data"], dict) and isinstance(event["event_type"], str):
            return dict(event)
    except (exact_json.NotJson, TypeError, KeyError):
        pass
    raise Invalid({"body": ["This is not an event."]})


def _shown(row: Any) -> dict[str, Any]:
    event = _read(row.body.encode())
    data = event["data"]
    subject = "order_item" if "order_item.id" in data else "order"
    return {
        "id": row.id,
        "received_at": iso(row.received_at),
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
        "body": _laid_out(event),
    }


def _laid_out(value: Any, indent: str = "") -> str:
    """The same JSON with a line for each key; numbers stay as they were written."""
    if not isinstance(value, dict) or not value:
        return exact_json.write(value)
    inner = indent + "  "
    lines = (f"{inner}{exact_json.write(name)}: {_laid_out(each, inner)}" for name, each in value.items())
    return "{\n" + ",\n".join(lines) + "\n" + indent + "}"
