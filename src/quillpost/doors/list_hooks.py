"""Where other services put people on a list: its key in the address lets them in, to add and never to read.

The same call may come again and again: whoever is on the list already is there once.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from quillpost.accounts.service import count_hook, count_stranger
from quillpost.api.answers import answer, name_ignored
from quillpost.api.needs import parts_of
from quillpost.audience.hook_rows import SOURCES, Said
from quillpost.audience.incoming import KeyHolder, Outcome, holder_of, take_in
from quillpost.audience.joining import Refusal
from quillpost.doors import hook_bodies
from quillpost.kit.errors import Invalid, NotFound, Throttled
from quillpost.parts import Parts

router = APIRouter(include_in_schema=False)

WELCOME = "People are put on a mailing list by POST to this address."
WRONG_SOURCE = "Use automation or crm, or leave it out."


def let_in(api_key: str, request: Request, parts: Annotated[Parts, Depends(parts_of)]) -> KeyHolder:
    """Whoever has a list's key, not too often; the others are counted, so that nobody guesses for long."""
    holder = holder_of(parts.db, api_key)
    if holder is None:
        address = request.client.host if request.client else "unknown"
        allowance = count_stranger(parts.db, address, limit=parts.limits.calls_a_minute)
    else:
        allowance = count_hook(parts.db, holder.list_id, limit=parts.limits.hook_calls_a_minute)
    request.state.allowance = allowance
    if allowance.is_spent:
        raise Throttled(retry_after=allowance.resets_in)
    if holder is None:
        raise NotFound
    return holder


Holder = Annotated[KeyHolder, Depends(let_in)]


async def arrived(
    request: Request, holder: Holder, parts: Annotated[Parts, Depends(parts_of)]
) -> hook_bodies.People:
    """What someone who was let in has sent."""
    return await hook_bodies.arrived(request, holder.tenant.account_id, parts.limits)


@router.get("/hooks/lists/{api_key}")
def greet(_holder: Holder) -> Response:
    """Some services look whether there is anyone before they send."""
    return answer({"message": WELCOME})


@router.post("/hooks/lists/{api_key}")
def take_people(
    holder: Holder,
    sent: Annotated[hook_bodies.People, Depends(arrived)],
    parts: Annotated[Parts, Depends(parts_of)],
    source: Annotated[str | None, Query()] = None,
) -> Response:
    """What became of each row, in order. One that is refused keeps none of the others back."""
    if source and source not in SOURCES:
        raise Invalid({"source": [WRONG_SOURCE]})
    with parts.db.transaction(holder.tenant) as tx:
        outcomes = take_in(tx, holder, sent.said, source=source or sent.source, clock=parts.clock)
    shown = [_shown(holder, *each) for each in zip(sent.said, outcomes, strict=True)]
    return name_ignored(answer(shown), sent.ignored)


def _shown(holder: KeyHolder, said: Said, outcome: Outcome | Refusal) -> dict[str, Any]:
    """What we read of a row, and what became of it. Of what was known before, a key shows nothing."""
    shown: dict[str, Any] = dict(said.given)
    if isinstance(outcome, Refusal):
        shown |= {"result": "refused", "error": outcome.why}
    else:
        result, entry = outcome
        shown = {"id": entry.id, "mailing_list_id": holder.list_id, **shown, "result": result}
    return shown | {"ignored": list(said.ignored)}
