"""Orders that are held, and an operator's verdict on each: it goes on, or it ends."""

from functools import partial

from fastapi import Request, Response

from quillpost.client import print_room as wire
from quillpost.client.orders import OrderDetails
from quillpost.fulfillment.review import service as review_service
from quillpost.fulfillment.review.service import list_paused_orders
from quillpost.web.api.dependencies import (
    ApiCaller,
    PageQuery,
    RequestAuditWriter,
    ServiceTransaction,
    require_operator,
)
from quillpost.web.api.orders.endpoints import OrderId
from quillpost.web.api.orders.responses import serialize_order_details
from quillpost.web.api.print_room.schemas import Refusal, Release
from quillpost.web.api.responses import json_response, page_of, page_response, to_wire
from quillpost.web.api.routes import ApiRouter
from quillpost.web.dependencies import Services

router = ApiRouter("Print room", resource="orders", authorize=require_operator)


@router.get("/print/held", page_of(wire.HeldOrder), summary="List paused orders, oldest first")
def list_held_orders(request: Request, caller: ApiCaller, tx: ServiceTransaction, page_request: PageQuery) -> Response:
    """For operators: those of the token's mode, whosever they are, each with what it is held for."""
    return page_response(request, list_paused_orders(tx, caller.mode, page_request), partial(to_wire, wire.HeldOrder))


@router.post("/orders/{order_id}/release", OrderDetails, summary="Release a paused order")
def release_order(
    request: Request,
    order_id: OrderId,
    caller: ApiCaller,
    tx: ServiceTransaction,
    container: Services,
    audit: RequestAuditWriter,
    body: Release | None = None,
) -> Response:
    """For operators, of whichever account the order is: it goes to the press, past the checks that held it.
    One that its sender has put off, or whose message they have changed since, is reviewed once more.

    409 unless it is paused, and while anything is missing that live mail needs.
    """
    reason = (body.reason if body else None) or ""
    order = review_service.release_order(
        tx,
        container.environments[caller.mode],
        order_id,
        operator_id=caller.account_id,
        reason=reason,
        now=container.clock(),
    )
    audit.record(tx, "order.released", {"name": f"order {order.id}", "mode": order.mode, "reason": reason})
    return json_response(serialize_order_details(request, container, order))


@router.post("/orders/{order_id}/refuse", OrderDetails, summary="Refuse an order")
def refuse_order(
    request: Request,
    order_id: OrderId,
    body: Refusal,
    caller: ApiCaller,
    tx: ServiceTransaction,
    container: Services,
    audit: RequestAuditWriter,
) -> Response:
    """For operators, while it is paused or under review: its pieces fail with the reason, and the sender has
    the money back."""
    order = review_service.refuse_order(
        tx,
        container.environments[caller.mode],
        order_id,
        operator_id=caller.account_id,
        reason=body.reason,
        now=container.clock(),
    )
    audit.record(tx, "order.refused", {"name": f"order {order.id}", "mode": order.mode, "reason": body.reason})
    return json_response(serialize_order_details(request, container, order))
