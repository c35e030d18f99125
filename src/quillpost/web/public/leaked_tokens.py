"""Where anyone who has found a token of ours reports it: from then on it is worth nothing.

Whoever can show a token may end it, so no credential is asked for. The answer is the same whether a token was
known or not: nobody learns here which ones are good.
"""

from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from quillpost.accounts.service import count_knock
from quillpost.accounts.users.queries import end_leaked
from quillpost.app.container import Parts
from quillpost.core import exact_json
from quillpost.core.body_limits import MOST_FAULTS, Bounds
from quillpost.core.errors import Invalid, Throttled
from quillpost.web.api.dependencies import parts_of
from quillpost.web.api.responses import answer
from quillpost.web.public.partner_webhooks import at_most

router = APIRouter(include_in_schema=False)

DOOR = "leaked"
OF_ONE_NETWORK = 60
OF_ALL = 600
"""Reports in a minute."""
MOST_TOKENS = 1_000
LARGEST = 250_000

DONE = "Thank you. Those of them that were good are revoked."
SHAPE = 'Send {"tokens": ["qp_live_...", ...]}, as JSON.'
TEXTS = "Each of them is a string."
TOO_MANY = f"At most {MOST_TOKENS:,} tokens in one report, please."


def counted(request: Request, parts: Annotated[Parts, Depends(parts_of)]) -> str:
    """The address of whoever comes; too many reports from one network, or from all, wait."""
    address = request.client.host if request.client else "unknown"
    for allowance in (
        count_knock(parts.db, DOOR, address, limit=OF_ONE_NETWORK),
        count_knock(parts.db, DOOR, None, limit=OF_ALL),
    ):
        if allowance.is_spent:
            raise Throttled(retry_after=allowance.resets_in)
    return address


@router.post("/tokens/leaked")
def report_leaked(
    parts: Annotated[Parts, Depends(parts_of)],
    address: Annotated[str, Depends(counted)],
    body: Annotated[bytes, Depends(at_most(LARGEST))],
) -> Response:
    """Revoked before the answer leaves."""
    shown = _tokens_in(body, parts.limits.bounds)
    with parts.db.work() as tx:
        end_leaked(tx, parts.sealer, shown, address=address, now=parts.clock())
    return answer({"message": DONE}, status=202)


def _tokens_in(body: bytes, bounds: Bounds) -> list[str]:
    try:
        read: Any = exact_json.read(body, bounds=bounds)
    except exact_json.NotJson:
        raise Invalid({"body": [SHAPE]}) from None
    tokens = read.get("tokens") if isinstance(read, dict) else None
    if not isinstance(tokens, list):
        raise Invalid({"tokens": [SHAPE]})
    if len(tokens) > MOST_TOKENS:
        raise Invalid({"tokens": [TOO_MANY]})
    wrong = (place for place, each in enumerate(tokens) if not isinstance(each, str))
    if faults := {f"tokens.{place}": [TEXTS] for place in islice(wrong, MOST_FAULTS)}:
        raise Invalid(faults)
    return [each.strip() for each in tokens]
