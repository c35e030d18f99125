"""Where a print partner calls back: how far it is with a batch, and which pieces are spoiled.

It signs as the Standard Webhooks convention says. A call that is repeated changes nothing, so whatever was
not answered with 202 may be sent again.
"""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from quillpost.api.answers import answer
from quillpost.api.bodies import Body, Id, Text, read_body
from quillpost.api.needs import parts_of
from quillpost.api.read_requests import read_json
from quillpost.api.rows import STOPS_EARLY
from quillpost.doors.raw_bodies import at_most
from quillpost.fulfilment.marking import MOST_PIECES, Status
from quillpost.fulfilment.partner_words import SpoiledPiece, Word, take_word
from quillpost.kit import standard_webhooks
from quillpost.kit.bounds import Bounds, check_unknown
from quillpost.kit.errors import Invalid, NotFound
from quillpost.parts import Parts

router = APIRouter(include_in_schema=False)

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
    if not standard_webhooks.verify(secrets, request.headers, body, now=now):
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
