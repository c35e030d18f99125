"""Where anyone who has found a token of ours reports it: from then on it is worth nothing.

Whoever can show a token may end it, so no credential is asked for. The answer is the same whether a token was
known or not: nobody learns here which ones are good.
"""

from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from quillpost.accounts.service import count_public_call
from quillpost.accounts.users.queries import revoke_and_report_leaked
from quillpost.app.container import Container
from quillpost.core import exact_json
from quillpost.core.body_limits import MAX_REPORTED_ERRORS, BodyLimits
from quillpost.core.errors import Invalid, Throttled
from quillpost.web.api.responses import json_response
from quillpost.web.dependencies import get_container
from quillpost.web.public.partner_webhooks import limit_body

router = APIRouter(include_in_schema=False)

RATE_LIMIT_NAME = "leaked"
MAX_PER_NETWORK = 60
MAX_TOTAL = 600
"""Reports in a minute."""
MAX_TOKENS = 1_000
MAX_BODY_BYTES = 250_000

DONE_MESSAGE = "Thank you. Those of them that were good are revoked."
BODY_HINT = 'Send {"tokens": ["qp_live_...", ...]}, as JSON.'
NOT_A_STRING = "Each of them is a string."
TOO_MANY_MESSAGE = f"At most {MAX_TOKENS:,} tokens in one report, please."


def require_allowance(request: Request, container: Annotated[Container, Depends(get_container)]) -> str:
    """The address of whoever comes; too many reports from one network, or from all, wait."""
    address = request.client.host if request.client else "unknown"
    for allowance in (
        count_public_call(container.db, RATE_LIMIT_NAME, address, limit=MAX_PER_NETWORK),
        count_public_call(container.db, RATE_LIMIT_NAME, None, limit=MAX_TOTAL),
    ):
        if allowance.is_exceeded:
            raise Throttled(retry_after=allowance.resets_in)
    return address


@router.post("/tokens/leaked")
def report_leaked(
    container: Annotated[Container, Depends(get_container)],
    address: Annotated[str, Depends(require_allowance)],
    body: Annotated[bytes, Depends(limit_body(MAX_BODY_BYTES))],
) -> Response:
    """Revoked before the answer leaves."""
    tokens = _parse_tokens(body, container.limits.bounds)
    with container.db.system_transaction() as tx:
        revoke_and_report_leaked(tx, container.encryptor, tokens, address=address, now=container.clock())
    return json_response({"message": DONE_MESSAGE}, status=202)


def _parse_tokens(body: bytes, bounds: BodyLimits) -> list[str]:
    try:
        parsed: Any = exact_json.parse_json(body, limits=bounds)
    except exact_json.InvalidJson:
        raise Invalid({"body": [BODY_HINT]}) from None
    tokens = parsed.get("tokens") if isinstance(parsed, dict) else None
    if not isinstance(tokens, list):
        raise Invalid({"tokens": [BODY_HINT]})
    if len(tokens) > MAX_TOKENS:
        raise Invalid({"tokens": [TOO_MANY_MESSAGE]})
    wrong_indexes = (index for index, token in enumerate(tokens) if not isinstance(token, str))
    if errors := {f"tokens.{index}": [NOT_A_STRING] for index in islice(wrong_indexes, MAX_REPORTED_ERRORS)}:
        raise Invalid(errors)
    return [token.strip() for token in tokens]
