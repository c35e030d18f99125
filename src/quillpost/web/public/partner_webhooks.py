"""Where carriers and print partners call back.

Reading them is a job's work. The same push twice is one file, and a scan seen twice changes nothing.

It signs as the Standard Webhooks convention says. A call that is repeated changes nothing, so whatever was
not answered with 202 may be sent again.
"""

import base64
import binascii
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from quillpost.accounts.service import count_anonymous_call
from quillpost.app.container import Container
from quillpost.client import signatures
from quillpost.core import jobs
from quillpost.core.body_limits import BodyLimits, check_unknown_keys
from quillpost.core.errors import Invalid, NotFound, QuillpostError, Throttled, Unauthenticated
from quillpost.fulfillment.print_room.reports import (
    MAX_REPRINTED_ITEMS,
    PartnerReport,
    PrinterStatus,
    ReportedSpoiledItem,
    record_partner_report,
)
from quillpost.fulfillment.tracking.files import read_scans_from_bytes
from quillpost.fulfillment.tracking.rules import BadScanRow, InvalidScanFile
from quillpost.fulfillment.tracking.service import POLL_TASK
from quillpost.web.api.arrival import read_whole_body
from quillpost.web.api.bodies import STOP_AT_ERROR_LIMIT, Body, Id, Text, validate_body
from quillpost.web.api.errors import RequestAborted
from quillpost.web.api.requests import read_json
from quillpost.web.api.responses import json_response
from quillpost.web.dependencies import get_container


def limit_body(max_bytes: int) -> Callable[[Request], Awaitable[bytes]]:
    """A dependency: the whole body, in time, up to so many bytes."""

    async def raw_body(request: Request) -> bytes:
        try:
            return await read_whole_body(
                request.scope, request.receive, max_bytes=max_bytes, report_size=lambda _: None
            )
        except RequestAborted:  # nobody is there to be told
            raise Invalid({"body": ["The body breaks off: send it whole."]}) from None

    return raw_body


router = APIRouter(include_in_schema=False)

CARRIER_DISABLED = "This door is closed: the operator opens it with QUILLPOST_CARRIER_TOKEN."


class CarrierWebhookDisabled(NotFound):
    """Nobody has opened the door, so there is nothing behind it."""

    def __init__(self) -> None:
        QuillpostError.__init__(self, CARRIER_DISABLED)


def require_carrier_token(request: Request, container: Annotated[Container, Depends(get_container)]) -> Container:
    """Whoever says the token; the others are counted, so that nobody guesses for long."""
    if container.carrier_token is None:
        raise CarrierWebhookDisabled
    presented = _read_secret(request.headers.get("authorization", ""))
    if not secrets.compare_digest(presented, container.carrier_token.encode()):
        address = request.client.host if request.client else "unknown"
        allowance = count_anonymous_call(container.db, address, limit=container.limits.calls_a_minute)
        if allowance.is_exceeded:
            raise Throttled(retry_after=allowance.resets_in)
        raise Unauthenticated
    return container


async def read_carrier_body(request: Request, container: Annotated[Container, Depends(require_carrier_token)]) -> bytes:
    """The body of someone who was let in."""
    return await limit_body(container.limits.body_bytes)(request)


@router.post("/hooks/carrier/iv-mtr")
def receive_scans(
    container: Annotated[Container, Depends(require_carrier_token)], body: Annotated[bytes, Depends(read_carrier_body)]
) -> Response:
    """Scans as JSON, packed with gzip or not; 422 unless one of them at least can be read."""
    if _has_scans(body):
        container.carrier_inbox.store(body)
        with container.db.system_transaction() as tx:
            jobs.enqueue_unique(tx, POLL_TASK, at=container.clock())
    return json_response({"message": "Accepted"}, status=202)


def _has_scans(body: bytes) -> bool:
    """Whether there is anything to keep: an empty list of events is a sign of life. Wrong ones are told."""
    try:
        return any(not isinstance(row, BadScanRow) for row in read_scans_from_bytes(body, json_only=True))
    except InvalidScanFile as reason:
        raise Invalid({"body": [str(reason)]}) from None


def _read_secret(authorization: str) -> bytes:
    """The token of Bearer, or the password of Basic."""
    scheme, _, value = authorization.partition(" ")
    match scheme.lower():
        case "bearer":
            return value.strip().encode()
        case "basic":
            try:
                return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
            except binascii.Error:
                return b""
    return b""


MAX_BODY_BYTES = 2_000_000
MAX_REASON_LENGTH = 200
LIVE_MODE = "live"
"""The partner prints live mail alone: a batch of testing mode is none of its own."""


class PartnerSpoiledItem(Body):
    item_id: Id | None = None
    tracking: Text | None = Field(None, max_length=40)
    position: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    reason: Text | None = Field(None, max_length=MAX_REASON_LENGTH)


class PartnerCall(Body):
    reference: Text = Field(max_length=40)
    event: PrinterStatus
    at: Text | None = Field(None, max_length=64)
    spoiled: Annotated[list[PartnerSpoiledItem], Field(max_length=MAX_REPRINTED_ITEMS), STOP_AT_ERROR_LIMIT] | None = (
        None
    )


def get_partner_secrets(partner: str, container: Annotated[Container, Depends(get_container)]) -> list[str]:
    """What the partner signs with; whoever is none of ours finds nothing here."""
    partner_secrets = container.print_partner_secrets.get(partner)
    if not partner_secrets:
        raise NotFound
    return list(partner_secrets)


@router.post("/hooks/print/{partner}")
def receive_call(
    request: Request,
    partner_secrets: Annotated[list[str], Depends(get_partner_secrets)],
    body: Annotated[bytes, Depends(limit_body(MAX_BODY_BYTES))],
    container: Annotated[Container, Depends(get_container)],
) -> Response:
    """One call; 401 unless the partner signed exactly this body, a few minutes ago at most."""
    now = container.clock()
    if not signatures.verify(partner_secrets, request.headers, body, now=now):
        return json_response({"message": "The signature does not fit this body, or is too old."}, status=401)
    record_partner_report(
        container.db, container.environments[LIVE_MODE], _parse_call(body, container.limits.bounds, now=now), now=now
    )
    return json_response({"message": "Accepted"}, status=202)


def _parse_call(body: bytes, bounds: BodyLimits, *, now: datetime) -> PartnerReport:
    payload = read_json(body, bounds)
    check_unknown_keys(PartnerCall.ignored_in(payload), bounds)
    call = validate_body(PartnerCall, payload)
    spoiled_items = [
        ReportedSpoiledItem(item.item_id, item.tracking, item.position, item.reason) for item in call.spoiled or ()
    ]
    at = now if call.at is None else _parse_time(call.at)
    return PartnerReport(call.reference, call.event, at, spoiled_items)


def _parse_time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        message = "Write an ISO 8601 date and time, such as 2026-05-05T08:30:00Z."
        raise Invalid({"at": [message]}) from None
