"""Whose token this is, and how they stand."""

from typing import cast

from fastapi import Response

from quillpost.accounts.queries import read_account_usage
from quillpost.accounts.service import read_sender
from quillpost.client import accounts as wire
from quillpost.client.types import Mode
from quillpost.fulfillment.review.service import NO_RETURN_ADDRESS_GAP, find_service_gaps, texts_for_sender
from quillpost.web.api.dependencies import ApiCaller, RequestTransaction
from quillpost.web.api.responses import json_response
from quillpost.web.api.routes import ApiRouter
from quillpost.web.dependencies import Services

router = ApiRouter("Account", resource="account")
service_router = ApiRouter("Service")


@service_router.get("/ping", wire.PingResponse, summary="Check the token and its mode")
def ping(caller: ApiCaller) -> Response:
    """Answers `pong`, and whether the token is one of testing mode."""
    return json_response(wire.PingResponse(message="pong", test_mode=caller.mode == "test"))


@router.get("/account", wire.Account, summary="Read the account's credit and usage")
def read_account(caller: ApiCaller, tx: RequestTransaction, container: Services) -> Response:
    """In the token's mode: test and live have books of their own. A token that is limited to a sub account
    sees that one's credit and usage.

    `live_ready` says whether live mail could be printed now; `live_readiness` names what is missing. Live
    orders are accepted even so, and paused when their review ends.
    """
    now = container.clock()
    usage = read_account_usage(tx, caller, now=now)
    gaps = find_service_gaps(tx, container.environments["live"], on=now.date())
    if read_sender(tx, caller, caller.sub_account_id).return_address is None:
        gaps.append(NO_RETURN_ADDRESS_GAP)
    content: wire.Account = {
        "id": usage.id,
        "name": usage.name,
        "email": usage.email,
        "company": usage.company,
        "mode": cast(Mode, caller.mode),
        "test_mode": caller.mode == "test",
        "credit": usage.credit,
        "usage": {
            "month": usage.month.strftime("%Y-%m"),
            "orders": usage.orders,
            "pieces": usage.pieces,
            "spent": usage.spent,
        },
        "live_ready": not gaps,
        "live_readiness": [*gaps] if caller.is_operator else texts_for_sender(gaps),
    }
    return json_response(content)
