"""Reports of leaked tokens, which are revoked at once.

Anyone who can show a token may end it, so no credential is needed. The answer is the same for unknown tokens: nobody
learns here which ones are valid.
"""

from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from quillpost.accounts.users.service import revoke_and_report_leaked
from quillpost.core import exact_json
from quillpost.core.errors import Invalid, Throttled
from quillpost.core.exact_json import MAX_REPORTED_ERRORS, BodyLimits
from quillpost.web.api.responses import json_response
from quillpost.web.dependencies import Services
from quillpost.web.public.dependencies import limit_body, seconds_to_wait
from quillpost.web.sessions import get_client_address

router = APIRouter(include_in_schema=False)

MAX_PER_NETWORK = 60  # reports in a minute
MAX_TOTAL = 600
MAX_TOKENS = 1_000
MAX_BODY_BYTES = 250_000

DONE_MESSAGE = "Thank you. Those of them that were good are revoked."
BODY_HINT = 'Send {"tokens": ["qp_live_...", ...]}, as JSON.'
NOT_A_STRING = "Each of them is a string."
TOO_MANY_MESSAGE = f"At most {MAX_TOKENS:,} tokens in one report, please."


def require_allowance(request: Request, container: Services) -> None:
    wait = seconds_to_wait(request, container, "leaked", max_per_network=MAX_PER_NETWORK, max_total=MAX_TOTAL)
    if wait is not None:
        raise Throttled(retry_after=wait)


@router.post("/tokens/leaked", dependencies=[Depends(require_allowance)])
def report_leaked(
    request: Request, container: Services, body: Annotated[bytes, Depends(limit_body(MAX_BODY_BYTES))]
) -> Response:
    """Tokens are revoked before the answer leaves."""
    address = get_client_address(request)
    tokens = _parse_tokens(body, container.limits.bounds)
    with container.db.system_transaction() as tx:
        revoke_and_report_leaked(tx, tokens, address=address, now=container.clock())
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
