"""Whose token this is, and how they stand."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from quillpost.accounts.rules import Caller
from quillpost.accounts.standing import read_standing
from quillpost.api.answers import answer
from quillpost.api.docs import errors
from quillpost.api.needs import InTx, Parts, may
from quillpost.api.route import PREFIX, V2Route
from quillpost.api.v2.schemas.account import AccountShape

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Account"])


@router.get(
    "/account", response_model=AccountShape, responses=errors(), summary="Read the account's credit and usage"
)
def read_account(who: Annotated[Caller, Depends(may("account:read"))], tx: InTx, parts: Parts) -> Response:
    """In the token's mode: test and live have books of their own. A token that is limited to a sub account
    sees that one's credit and usage."""
    standing = read_standing(tx, who, now=parts.clock())
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
        }
    )
