"""Where the postal service pushes scans: authenticated, looked at, and kept before the call is answered.

Reading them is a job's work. The same push twice is one file, and a scan seen twice changes nothing.
"""

import base64
import binascii
import secrets
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from quillpost import jobs
from quillpost.accounts.service import count_stranger
from quillpost.api.answers import answer
from quillpost.api.needs import parts_of
from quillpost.doors.raw_bodies import at_most
from quillpost.kit.errors import Invalid, NotFound, QuillpostError, Throttled, Unauthenticated
from quillpost.parts import Parts
from quillpost.tracking.reading import BadRow, NotScans, read_bytes
from quillpost.tracking.service import POLL

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
