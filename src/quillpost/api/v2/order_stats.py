"""What became of a time's orders."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.api.answers import answer
from quillpost.api.docs import errors
from quillpost.api.needs import InTx, SubAccountFilter, may
from quillpost.api.route import PREFIX, V2Route
from quillpost.api.v2.order_filters import AskedMoment, Faults, moment, moment_after
from quillpost.api.v2.schemas import orders as schemas
from quillpost.api.v2.shapes import stats_shape
from quillpost.kit.errors import Invalid
from quillpost.orders.stats import add_up

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Orders"])

MayRead = Annotated[Caller, Depends(may("orders:read"))]
Start = Annotated[AskedMoment, Query(description="The first ISO 8601 date or date-time.")]
End = Annotated[AskedMoment, Query(description="The last ISO 8601 date or date-time, itself included.")]


@router.get(
    "/orders/stats",
    response_model=schemas.OrderStats,
    responses=errors(400, 422),
    summary="Add up orders",
)
def read_stats(
    who: MayRead, tx: InTx, sub_account_id: SubAccountFilter, start_date: Start = None, end_date: End = None
) -> Response:
    """How the pieces of all orders made in this time stand now, and what those orders cost."""
    faults: Faults = {}
    since = moment("start_date", start_date, faults)
    until = moment_after("end_date", end_date, faults)
    if since is not None and until is not None and since >= until:
        faults["end_date"] = ["The end must not be before the start."]
    if faults:
        raise Invalid(faults)
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    return answer(
        stats_shape(add_up(tx, tenant(who), since=since, until=until, sub_account_id=sub_account_id))
    )
