"""Whose token this is, and how they stand."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.queries import read_standing
from quillpost.accounts.service import sender_of
from quillpost.fulfillment.readiness import NO_RETURN_ADDRESS, service_gaps
from quillpost.web.api.account.schemas import AccountShape
from quillpost.web.api.dependencies import InTx, Services, may
from quillpost.web.api.errors import errors
from quillpost.web.api.responses import answer
from quillpost.web.api.routes import PREFIX, V2Route

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Account"])


@router.get(
    "/account", response_model=AccountShape, responses=errors(), summary="Read the account's credit and usage"
)
def read_account(who: Annotated[Caller, Depends(may("account:read"))], tx: InTx, parts: Services) -> Response:
    """In the token's mode: test and live have books of their own. A token that is limited to a sub account
    sees that one's credit and usage.

    `live_ready` says whether live mail could be printed now; `live_readiness` names what is missing. Live
    orders are accepted even so, and paused when their review ends.
    """
    now = parts.clock()
    standing = read_standing(tx, who, now=now)
    gaps = service_gaps(tx, parts.worlds["live"], on=now.date())
    if sender_of(tx, who, who.sub_account_id).return_address is None:
        gaps.append(NO_RETURN_ADDRESS)
    return answer(
        {
            "id": standing.id,
            "name": standing.name,
            "email": standing.email,
            "company": standing.company,
            "mode": who.mode,
            "test_mode": who.is_testing,
            "credit": standing.credit,
            "usage": {
                "month": standing.month.strftime("%Y-%m"),
                "orders": standing.orders,
                "pieces": standing.pieces,
                "spent": standing.spent,
            },
            "live_ready": not gaps,
            "live_readiness": [gap.for_operator if who.is_operator else gap.for_sender for gap in gaps],
        }
    )
