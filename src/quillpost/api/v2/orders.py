"""Reading, following and cancelling orders."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.api.answers import answer, linked, unmeasured
from quillpost.api.docs import errors
from quillpost.api.needs import AskedPage, InTx, Parts, id_in_path, may
from quillpost.api.route import PREFIX, V2Route
from quillpost.api.v2.order_filters import METADATA_PARAMETER, WantedOrders
from quillpost.api.v2.schemas import orders as schemas
from quillpost.api.v2.shapes import order_read_shape, order_shape, track_shape
from quillpost.fulfilment.proofs import draw_proof
from quillpost.orders import reading, service, store
from quillpost.orders.rules import ItemStatus

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Orders"])

MOST_IN_TROUBLE = 1_000
PDF = "application/pdf"
BY_METADATA = {"parameters": [METADATA_PARAMETER]}

MAY_READ = [Depends(may("orders:read"))]
MAY_WRITE = [Depends(may("orders:write"))]
MayRead = Annotated[Caller, Depends(may("orders:read"))]
OrderId = Annotated[str, Path(description="The order's id.", json_schema_extra={"type": "integer"})]


@router.get("/orders", include_in_schema=False, openapi_extra=BY_METADATA)
@router.get(
    "/orders/list",
    response_model=schemas.OrderPage,
    responses=errors(400, 422),
    summary="List orders, newest first",
    openapi_extra=BY_METADATA,
)
def list_orders(
    request: Request, who: MayRead, tx: InTx, parts: Parts, asked: AskedPage, wanted: WantedOrders
) -> Response:
    """Filter by sub account, type, status, the time of creation, and by what is in the metadata. `search`
    finds orders by someone they go to (name, company, e-mail or address), or by their id.

    Also at `/orders`.
    """
    if wanted.sub_account_id is not None:
        require_sub_account(tx, wanted.sub_account_id)
    page = reading.list_orders(parts.db, tx, tenant(who), asked, wanted)
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
    return answer(order_read_shape(request, parts, order))


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
    failed, returned = (
        reading.items_in_trouble(tx, order, status, most=MOST_IN_TROUBLE)
        for status in (ItemStatus.FAILED, ItemStatus.RETURNED_TO_SENDER)
    )
    return answer(track_shape(order_shape(request, parts, order), order, failed=failed, returned=returned))


def _require_order(who: Caller, order_id: str, parts: Parts) -> int:
    """The id of an order that is the caller's; the transaction ends before anything is drawn."""
    with parts.db.transaction(tenant(who)) as tx:
        return store.read_order(tx, id_in_path(order_id)).id


@router.get(
    "/orders/{order_id}/proof",
    response_class=Response,
    responses={
        200: {
            "description": "The pages of the first pieces, then their envelopes.",
            "content": {PDF: {"schema": {"type": "string", "format": "binary"}}},
        },
        **errors(400, 404),
    },
    summary="Look at an order's first pieces",
)
def read_proof(order_id: OrderId, who: MayRead, parts: Parts) -> Response:
    """A PDF of the first pieces as the press prints them, drawn anew at each call."""
    return Response(draw_proof(parts.press, _require_order(who, order_id, parts)), media_type=PDF)


@router.head("/orders/{order_id}/proof", include_in_schema=False)
def find_proof(order_id: OrderId, who: MayRead, parts: Parts) -> Response:
    """Whether there is an order to look at; nothing is drawn that nobody sees."""
    _require_order(who, order_id, parts)
    return unmeasured(Response(media_type=PDF))


def _cancel(request: Request, order_id: OrderId, tx: InTx, parts: Parts) -> Response:
    """Only while it is `cancellable`; what was authorised is given back.

    Also `PUT /order/{order_id}/cancel`.
    """
    order = service.cancel(tx, id_in_path(order_id), now=parts.clock())
    return answer({"order": order_shape(request, parts, order)})


_how: dict[str, Any] = {
    "response_model": schemas.CancelResponse,
    "responses": errors(400, 404, 409),
    "dependencies": MAY_WRITE,
}
for _method, _summary in {
    "put": "Cancel an order",
    "post": "Cancel an order (POST)",
    "delete": "Cancel an order (DELETE)",
}.items():
    router.api_route(
        "/orders/{order_id}/cancel",
        methods=[_method],
        operation_id=f"cancel_order_{_method}",
        summary=_summary,
        **_how,
    )(_cancel)
router.put("/order/{order_id}/cancel", include_in_schema=False, dependencies=MAY_WRITE)(_cancel)
