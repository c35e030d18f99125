"""Orders: statistics, reading, canceling, changing, sending again."""

from typing import Annotated

from fastapi import Path, Query, Request, Response
from pydantic import Field

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.client import orders as wire
from quillpost.client.send import SendResponse
from quillpost.core.errors import Invalid
from quillpost.fulfillment.service import draw_proof
from quillpost.orders import changes as order_changes
from quillpost.orders import queries as order_queries
from quillpost.orders.changes import OrderEdit
from quillpost.orders.drafts import service as draft_service
from quillpost.orders.items import queries as item_queries
from quillpost.orders.models import FieldErrors
from quillpost.orders.queries import sum_orders
from quillpost.orders.rules import ItemStatus
from quillpost.web.api.dependencies import (
    ApiCaller,
    PageQuery,
    PathId,
    RequestTransaction,
    RequestUnitOfWork,
    SubAccountFilter,
)
from quillpost.web.api.orders.responses import (
    serialize_order,
    serialize_order_details,
    serialize_stats,
    serialize_tracking,
)
from quillpost.web.api.orders.search import METADATA_PARAMETER, OrderFilterQuery, TimeQuery, parse_end_time, parse_time
from quillpost.web.api.responses import json_response, page_of, page_response, without_length
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.schemas import Body, Text, accepts
from quillpost.web.api.send.endpoints import create_and_respond
from quillpost.web.api.send.requests import MAX_TEXT_LENGTH, Replay, parse_schedule, to_metadata_text
from quillpost.web.api.send.schemas import Metadata, Schedule
from quillpost.web.dependencies import Services

router = ApiRouter("Orders", resource="orders")

StartQuery = Annotated[TimeQuery, Query(description="The first ISO 8601 date or date-time.")]
EndQuery = Annotated[TimeQuery, Query(description="The last ISO 8601 date or date-time, itself included.")]


@router.get("/orders/stats", wire.OrderStats, summary="Add up orders")
def read_stats(
    caller: ApiCaller,
    tx: RequestTransaction,
    sub_account_id: SubAccountFilter,
    start_date: StartQuery = None,
    end_date: EndQuery = None,
) -> Response:
    """How the pieces of all orders made in this time stand now, and what those orders cost."""
    field_errors: FieldErrors = {}
    since = parse_time("start_date", start_date, field_errors)
    until = parse_end_time("end_date", end_date, field_errors)
    if since is not None and until is not None and since >= until:
        field_errors["end_date"] = ["The end must not be before the start."]
    if field_errors:
        raise Invalid(field_errors)
    require_sub_account(tx, sub_account_id)
    return json_response(
        serialize_stats(sum_orders(tx, build_tenant(caller), since=since, until=until, sub_account_id=sub_account_id))
    )


MAX_FAILED_ITEMS = 1_000
PDF_TYPE = "application/pdf"
METADATA_EXTRA = {"parameters": [METADATA_PARAMETER]}

OrderId = Annotated[PathId, Path(description="The order's id.")]


@router.get("/orders", include_in_schema=False, openapi_extra=METADATA_EXTRA)
@router.get("/orders/list", page_of(wire.Order), summary="List orders, newest first", openapi_extra=METADATA_EXTRA)
def list_orders(
    request: Request,
    caller: ApiCaller,
    tx: RequestTransaction,
    container: Services,
    page_request: PageQuery,
    filters: OrderFilterQuery,
) -> Response:
    """Filter by sub account, type, status, the time of creation, and by what is in the metadata. `search`
    finds orders by someone they go to (name, company, e-mail or address), or by their id.

    Also at `/orders`.
    """
    require_sub_account(tx, filters.sub_account_id)
    page = order_queries.list_orders(container.db, tx, build_tenant(caller), page_request, filters)
    return page_response(request, page, lambda order: serialize_order(request, container, order))


@router.get("/orders/{order_id}", wire.OrderDetails, summary="Read an order")
def read_order(request: Request, order_id: OrderId, tx: RequestTransaction, container: Services) -> Response:
    """The order, with `warnings` where something about it deserves a look."""
    order = order_queries.read_order(tx, order_id)
    return json_response(serialize_order_details(request, container, order))


@router.get("/orders/{order_id}/track", wire.TrackResponse, summary="Track an order")
def track_order(request: Request, order_id: OrderId, tx: RequestTransaction, container: Services) -> Response:
    """How many pieces stand where, and those that failed or came back (the first thousand)."""
    order = order_queries.read_order(tx, order_id)
    failed, returned = (
        item_queries.list_items_with_status(tx, order, status, limit=MAX_FAILED_ITEMS)
        for status in (ItemStatus.FAILED, ItemStatus.RETURNED_TO_SENDER)
    )
    return json_response(
        serialize_tracking(serialize_order(request, container, order), order, failed=failed, returned=returned)
    )


def _require_order(caller: Caller, order_id: int, container: Services) -> int:
    """The id of an order that is the caller's; the transaction ends before anything is drawn."""
    with container.db.transaction(build_tenant(caller)) as tx:
        return order_queries.read_order(tx, order_id).id


@router.get_file(
    "/orders/{order_id}/proof",
    "The pages of the first pieces, then their envelopes.",
    {PDF_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    errors=[400],
    summary="Look at an order's first pieces",
)
def read_proof(order_id: OrderId, caller: ApiCaller, container: Services) -> Response:
    """A PDF of the first pieces as the press prints them, drawn anew at each call."""
    return Response(draw_proof(container.production, _require_order(caller, order_id, container)), media_type=PDF_TYPE)


@router.head("/orders/{order_id}/proof")
def head_proof(order_id: OrderId, caller: ApiCaller, container: Services) -> Response:
    """Whether there is an order to look at; nothing is drawn that nobody sees."""
    _require_order(caller, order_id, container)
    return without_length(Response(media_type=PDF_TYPE))


def _cancel(request: Request, order_id: OrderId, tx: RequestTransaction, container: Services) -> Response:
    """Only while it is `cancellable`; what was authorised is given back.

    Also `PUT /order/{order_id}/cancel`.
    """
    order = order_changes.cancel_order(tx, order_id, now=container.clock())
    return json_response({"order": serialize_order(request, container, order)})


for method, suffix in {"PUT": "", "POST": " (POST)", "DELETE": " (DELETE)"}.items():
    router.add(
        method,
        "/orders/{order_id}/cancel",
        wire.CancelResponse,
        errors=[400, 409],
        operation_id=f"cancel_order_{method.lower()}",
        summary=f"Cancel an order{suffix}",
    )(_cancel)
router.put("/order/{order_id}/cancel", include_in_schema=False)(_cancel)


@accepts(wire.OrderUpdate)
class ChangedOrder(Body):
    """What is to be different; what is not named stays."""

    message: Text | None = Field(
        None, max_length=MAX_TEXT_LENGTH, description="Another text in the same hand; checked like a send's."
    )
    schedule_for: Schedule = None
    metadata: Metadata = None


@router.put("/orders/{order_id}", wire.OrderDetails, errors=[402], summary="Change an order")
def change_order(
    request: Request,
    order_id: OrderId,
    body: ChangedOrder,
    caller: ApiCaller,
    container: Services,
    unit_of_work: RequestUnitOfWork,
) -> Response:
    """While it is `cancellable`: its message, schedule, metadata. Other words or times are priced again; a
    gift card stays as it was chosen."""
    errors = FieldErrors()
    changes = OrderEdit(
        changed_fields=frozenset(body.provided_fields()),
        message=body.message,
        schedule_for=parse_schedule(body.schedule_for, errors, now=container.clock()) if body.schedule_for else None,
        metadata=None if body.metadata is None else to_metadata_text(body.metadata, container.limits, errors),
    )
    order = order_changes.change_order(
        container.orders,
        caller,
        order_id,
        changes,
        errors,
        unused_fields=body.model_extra or {},
        max_characters=container.limits.message_characters,
        get_tx=lambda: unit_of_work.tx,
    )
    return json_response(serialize_order_details(request, container, order))


@router.post("/orders/{order_id}/replay", SendResponse, errors=[402], scope="send:write", summary="Send an order again")
def replay_order(
    request: Request,
    order_id: OrderId,
    caller: ApiCaller,
    container: Services,
    unit_of_work: RequestUnitOfWork,
    body: Replay | None = None,
) -> Response:
    """A new order with the creative of one that was mailed; its metadata is copied unless other is given."""
    replay, errors = (body or Replay()).to_replay_request(order_id, container.limits, now=container.clock())
    draft = draft_service.draft_replay(container.orders, caller, replay, errors)
    return create_and_respond(request, draft, caller, container, unit_of_work)
