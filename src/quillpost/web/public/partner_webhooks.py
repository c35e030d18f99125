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

from quillpost.accounts.service import count_stranger
from quillpost.app.container import Parts
from quillpost.client import signatures
from quillpost.core import jobs
from quillpost.core.body_limits import Bounds, check_unknown
from quillpost.core.errors import Invalid, NotFound, QuillpostError, Throttled, Unauthenticated
from quillpost.fulfillment.partners import SpoiledPiece, Word, take_word
from quillpost.fulfillment.print_room.marks import MOST_PIECES, Status
from quillpost.fulfillment.tracking.files import BadRow, NotScans, read_bytes
from quillpost.fulfillment.tracking.service import POLL
from quillpost.web.api.arrival import whole_body
from quillpost.web.api.bodies import STOPS_EARLY, Body, Id, Text, read_body
from quillpost.web.api.dependencies import parts_of
from quillpost.web.api.errors import HungUp
from quillpost.web.api.requests import read_json
from quillpost.web.api.responses import answer


def at_most(largest: int) -> Callable[[Request], Awaitable[bytes]]:
    """A dependency: the whole body, in time, up to so many bytes."""

    async def raw_body(request: Request) -> bytes:
        try:
            return await whole_body(request.scope, request.receive, largest=largest, grow=lambda _: None)
        except HungUp:  # nobody is there to be told
            raise Invalid({"body": ["The body breaks off: send it whole."]}) from None

    return raw_body


router = APIRouter(include_in_schema=False)

CLOSED = "This door is closed: the operator opens it with QUILLPOST_CARRIER_TOKEN."


class Closed(NotFound):
    """Nobody has opened the door, so there is nothing behind it."""

    def __init__(self) -> None:
        QuillpostError.__init__(self, CLOSED)


def let_in(request: Request, parts: Annotated[Parts, Depends(parts_of)]) -> Parts:
    """Whoever says the token; the others are counted, so that nobody guesses for long."""
    if parts.carrier_token is None:
        raise Closed
    said = _said(request.headers.get("authorization", ""))
    if not secrets.compare_digest(said, parts.carrier_token.encode()):
        address = request.client.host if request.client else "unknown"
        allowance = count_stranger(parts.db, address, limit=parts.limits.calls_a_minute)
        if allowance.is_spent:
            raise Throttled(retry_after=allowance.resets_in)
        raise Unauthenticated
    return parts


async def whole(request: Request, parts: Annotated[Parts, Depends(let_in)]) -> bytes:
    """The body of someone who was let in."""
    return await at_most(parts.limits.body_bytes)(request)


@router.post("/hooks/carrier/iv-mtr")
def take_scans(parts: Annotated[Parts, Depends(let_in)], body: Annotated[bytes, Depends(whole)]) -> Response:
    """Scans as JSON, packed with gzip or not; 422 unless one of them at least can be read."""
    if _has_scans(body):
        parts.carrier_inbox.keep(body)
        with parts.db.work() as tx:
            jobs.wake(tx, POLL, at=parts.clock())
    return answer({"message": "Accepted"}, status=202)


def _has_scans(body: bytes) -> bool:
    """Whether there is anything to keep: an empty list of events is a sign of life. Wrong ones are told."""
    try:
        return any(not isinstance(row, BadRow) for row in read_bytes(body, json_alone=True))
    except NotScans as reason:
        raise Invalid({"body": [str(reason)]}) from None


def _said(authorization: str) -> bytes:
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


LARGEST_BODY = 2_000_000
LONGEST_REASON = 200
LIVE = "live"
"""The partner prints live mail alone: a batch of testing mode is none of its own."""


class Spoiled(Body):
    item_id: Id | None = None
    tracking: Text | None = Field(None, max_length=40)
    position: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    reason: Text | None = Field(None, max_length=LONGEST_REASON)


class Call(Body):
    reference: Text = Field(max_length=40)
    event: Status
    at: Text | None = Field(None, max_length=64)
    spoiled: Annotated[list[Spoiled], Field(max_length=MOST_PIECES), STOPS_EARLY] | None = None


def secrets_of(partner: str, parts: Annotated[Parts, Depends(parts_of)]) -> list[str]:
    """What the partner signs with; whoever is none of ours finds nothing here."""
    secrets = parts.print_secrets.get(partner)
    if not secrets:
        raise NotFound
    return list(secrets)


@router.post("/hooks/print/{partner}")
def take_call(
    request: Request,
    secrets: Annotated[list[str], Depends(secrets_of)],
    body: Annotated[bytes, Depends(at_most(LARGEST_BODY))],
    parts: Annotated[Parts, Depends(parts_of)],
) -> Response:
    """One call; 401 unless the partner signed exactly this body, a few minutes ago at most."""
    now = parts.clock()
    if not signatures.verify(secrets, request.headers, body, now=now):
        return answer({"message": "The signature does not fit this body, or is too old."}, status=401)
    take_word(parts.db, parts.worlds[LIVE], _read(body, parts.limits.bounds, now=now), now=now)
    return answer({"message": "Accepted"}, status=202)


def _read(body: bytes, bounds: Bounds, *, now: datetime) -> Word:
    sent = read_json(body, bounds)
    check_unknown(Call.ignored_in(sent), bounds)
    call = read_body(Call, sent)
    pieces = [SpoiledPiece(one.item_id, one.tracking, one.position, one.reason) for one in call.spoiled or ()]
    at = now if call.at is None else _moment(call.at)
    return Word(call.reference, call.event, at, pieces)


def _moment(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        told = "Write an ISO 8601 date and time, such as 2026-05-05T08:30:00Z."
        raise Invalid({"at": [told]}) from None
