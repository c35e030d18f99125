"""Reading, following and cancelling orders."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from quillpost.accounts.service import require_sub_account
from quillpost.api.answers import answer, linked
from quillpost.api.docs import errors
from quillpost.api.needs import AskedPage, InTx, Parts, SubAccountFilter, id_in_path, may
from quillpost.api.route import V2Route
from quillpost.api.v2.schemas import orders as schemas
from quillpost.api.v2.shapes import item_shape, order_shape, track_shape
from quillpost.kit.errors import Invalid
from quillpost.orders import service, store
from quillpost.orders.rules import DISPLAY_TYPES, ItemStatus, OrderStatus

router = APIRouter(route_class=V2Route, tags=["Orders"])

MOST_IN_TROUBLE = 1_000

MAY_READ = [Depends(may("orders:read"))]
MAY_WRITE = [Depends(may("orders:write"))]
OrderId = Annotated[str, Path(description="The order's id.", json_schema_extra={"type": "integer"})]
ItsType = Annotated[str | None, Query(description="Only orders of this type, such as postcard6x11.")]
ItsStatus = Annotated[str | None, Query(description="Only those that stand here, such as Reviewing.")]
After = Annotated[str | None, Query(description="Made at this ISO 8601 date or date-time, or later.")]
Before = Annotated[str | None, Query(description="Made before this ISO 8601 date or date-time.")]


def _chosen(name: str, given: str | None, known: list[str]) -> str | None:
    if not given:
        return None
    for value in known:
        if given.strip().lower() == value.lower():
            return value
    raise Invalid({name: [f"Unknown {name}. Known: {', '.join(known)}."]})


def _moment(name: str, given: str | None) -> datetime | None:
    if not given:
        return None
    try:
        at = datetime.fromisoformat(given.replace(" ", "+") if "T" in given else given)
    except ValueError:
        raise Invalid({name: ["Write an ISO 8601 date or date-time."]}) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


@router.get("/orders", include_in_schema=False, dependencies=MAY_READ)
@router.get(
    "/orders/list",
    response_model=schemas.OrderPage,
    responses=errors(400, 422),
    dependencies=MAY_READ,
    summary="List orders, newest first",
)
def list_orders(
    request: Request,
    tx: InTx,
    parts: Parts,
    asked: AskedPage,
    sub_account_id: SubAccountFilter,
    type: ItsType = None,  # noqa: A002
    status: ItsStatus = None,
    created_after: After = None,
    created_before: Before = None,
) -> Response:
    """Filter by sub account, type, status and the time of creation."""
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    page = store.list_orders(
        tx,
        asked,
        sub_account_id=sub_account_id,
        type=_chosen("type", type, sorted({kind for kind, _ in DISPLAY_TYPES})),
        status=_chosen("status", status, [s.value for s in OrderStatus]),
        created_after=_moment("created_after", created_after),
        created_before=_moment("created_before", created_before),
    )
    return linked(request, page, lambda order: order_shape(request, parts, order))


@router.get(
    "/orders/{order_id}",
    response_model=schemas.OrderRead,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read an order",
)
def read_order(request: Request, order_id: OrderId, tx: InTx, parts: Parts) -> Response:
    """The order, with `warnings` where something about it deserves a look."""
    order = store.read_order(tx, id_in_path(order_id))
    return answer(order_shape(request, parts, order) | {"warnings": order.warnings})


@router.get(
    "/orders/{order_id}/track",
    response_model=schemas.TrackResponse,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Track an order",
)
def track_order(request: Request, order_id: OrderId, tx: InTx, parts: Parts) -> Response:
    """How many pieces stand where, and those that failed or came back (the first thousand)."""
    order = store.read_order(tx, id_in_path(order_id))
    return answer(
        track_shape(
            order_shape(request, parts, order),
            order,
            failed=store.items_in_trouble(tx, order.id, ItemStatus.FAILED, most=MOST_IN_TROUBLE),
            returned=store.items_in_trouble(
                tx, order.id, ItemStatus.RETURNED_TO_SENDER, most=MOST_IN_TROUBLE
            ),
        )
    )


@router.get(
    "/orders/{order_id}/items",
    response_model=schemas.ItemPage,
    responses=errors(404, 422),
    dependencies=MAY_READ,
    summary="List an order's items",
)
def list_items(
    request: Request, order_id: OrderId, tx: InTx, asked: AskedPage, status: ItsStatus = None
) -> Response:
    """One item is one mail piece for one recipient."""
    order = store.read_order(tx, id_in_path(order_id))
    wanted = _chosen("status", status, [s.value for s in ItemStatus])
    return linked(request, store.list_items(tx, order.id, asked, status=wanted), item_shape)


def _cancel(request: Request, order_id: OrderId, tx: InTx, parts: Parts) -> Response:
    """Only while it is `cancellable`; what was authorised is given back."""
    order = service.cancel(tx, id_in_path(order_id), now=parts.clock())
    return answer({"order": order_shape(request, parts, order)})


_how: dict[str, Any] = {
    "response_model": schemas.CancelResponse,
    "responses": errors(400, 404, 409),
    "dependencies": MAY_WRITE,
}
router.put("/orders/{order_id}/cancel", summary="Cancel an order", **_how)(_cancel)
router.post("/orders/{order_id}/cancel", summary="Cancel an order (POST)", **_how)(_cancel)
router.delete("/orders/{order_id}/cancel", summary="Cancel an order (DELETE)", **_how)(_cancel)
router.put("/order/{order_id}/cancel", include_in_schema=False, dependencies=MAY_WRITE)(_cancel)
