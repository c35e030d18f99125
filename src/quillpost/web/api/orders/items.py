"""Order items, one mail piece for one recipient each, and the gift cards in them."""

from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Path, Query, Request, Response
from pydantic import Field

from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.client import orders as wire
from quillpost.client.giftcards import InvalidatedItem, InvalidationOptions
from quillpost.core.database import Tx
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import PageRequest
from quillpost.orders import queries as order_queries
from quillpost.orders.giftcards import service as giftcard_service
from quillpost.orders.giftcards.service import MAX_REASON_LENGTH
from quillpost.orders.items import queries as item_queries
from quillpost.orders.models import Order
from quillpost.web.api.dependencies import (
    ApiCaller,
    IdQuery,
    LimitQuery,
    PageQuery,
    PathId,
    RequestAuditWriter,
    RequestTransaction,
    RequestUnitOfWork,
    SearchQuery,
    SubAccountFilter,
    parse_query_count,
    parse_query_id,
)
from quillpost.web.api.orders.endpoints import OrderId
from quillpost.web.api.orders.responses import serialize_item, serialize_item_details
from quillpost.web.api.orders.search import StatusFilterQuery
from quillpost.web.api.responses import json_response, page_of, page_response
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.schemas import Body, OptionalFlag, Text, accepts
from quillpost.web.dependencies import Services

router = ApiRouter("Order items", resource="orders")

ItemId = Annotated[PathId, Path(description="The item's id.")]
OrderIdQuery = Annotated[IdQuery, Query(description="Only this order's, in the order given.")]


async def get_item_page_request(
    request: Request, container: Services, page_request: PageQuery, per_page: LimitQuery = None
) -> PageRequest:
    """Items have a third name for the size of a page."""
    size = parse_query_count("per_page", per_page, container.limits.items_per_page)
    if size is None or {"items_per_page", "limit"} & request.query_params.keys():
        return page_request
    return replace(page_request, per_page=size)


ItemPageQuery = Annotated[PageRequest, Depends(get_item_page_request)]


@router.get("/orders/{order_id}/items", page_of(wire.OrderItem), summary="List an order's items")
def list_items(
    request: Request,
    order_id: OrderId,
    caller: ApiCaller,
    tx: RequestTransaction,
    container: Services,
    page_request: ItemPageQuery,
    status: StatusFilterQuery,
    search: SearchQuery,
) -> Response:
    """One item is one mail piece for one recipient. `search` looks at the recipients' names, companies,
    e-mails and addresses."""
    order = order_queries.read_order(tx, order_id)
    if search is not None:
        page = item_queries.search_items(
            container.db, tx, build_tenant(caller), page_request, search, order=order, status=status
        )
    else:
        page = item_queries.list_items(tx, order, page_request, status=status)
    return page_response(request, page, serialize_item)


@router.get("/order-items", page_of(wire.OrderItem), summary="List items")
def list_order_items(
    request: Request,
    caller: ApiCaller,
    tx: RequestTransaction,
    container: Services,
    page_request: ItemPageQuery,
    sub_account_id: SubAccountFilter,
    status: StatusFilterQuery,
    search: SearchQuery,
    order_id: OrderIdQuery = None,
) -> Response:
    """Those of one order as they were given, or without `order_id` all of them, newest first. `search` looks
    at the recipients' names, companies, e-mails and addresses."""
    require_sub_account(tx, sub_account_id)
    parsed_order_id = parse_query_id("order_id", order_id)
    order = None if parsed_order_id is None else _find_order(tx, parsed_order_id, sub_account_id)
    if search is not None:
        page = item_queries.search_items(
            container.db,
            tx,
            build_tenant(caller),
            page_request,
            search,
            order=order,
            sub_account_id=sub_account_id,
            status=status,
        )
    elif order is not None:
        page = item_queries.list_items(tx, order, page_request, status=status)
    else:
        page = item_queries.list_all_items(
            tx, build_tenant(caller), page_request, sub_account_id=sub_account_id, status=status
        )
    return page_response(request, page, serialize_item)


def _find_order(tx: Tx, order_id: int, sub_account_id: int | None) -> Order:
    with suppress(NotFound):
        order = order_queries.read_order(tx, order_id)
        if sub_account_id in (None, order.sub_account_id):
            return order
    raise Refused("Order Does Not Exist")


@router.get("/order-items/{item_id}", wire.OrderItemDetails, summary="Read an item")
def read_item(item_id: ItemId, tx: RequestTransaction) -> Response:
    """The item, with `events`: where it has been and when, oldest first."""
    item = item_queries.read_item(tx, item_id)
    return json_response(serialize_item_details(item, item_queries.list_item_steps(tx, item)))


@accepts(InvalidationOptions)
class Invalidation(Body):
    """Whether another card is sent in its place, and why; all of it may be left out."""

    reissue: OptionalFlag = Field(
        False,
        description="Send another to the same recipient: a new order, which the returned value helps to pay "
        "for. Needs the scope send:write as well.",
    )
    reason: Text | None = Field(
        None, max_length=MAX_REASON_LENGTH, description="Shown in the item's `events`, and to nobody else."
    )


def _invalidate(
    item_id: ItemId,
    caller: ApiCaller,
    container: Services,
    unit_of_work: RequestUnitOfWork,
    audit: RequestAuditWriter,
    body: Invalidation | None = None,
) -> Response:
    """While nobody has claimed it: the card is void, its value is credit again, and `giftcard` is null. With
    `reissue` another is sent to the same recipient, as a replay of the order to them alone, and `reissued_as`
    is that order; if it cannot be sent the card stays good. Once void it stays void: a repeated call answers
    the same, returns no money and sends nothing a second time. The piece itself goes on its way."""
    invalidation_body = body or Invalidation()
    context = container.orders
    reissue = giftcard_service.prepare_reissue(context, caller, item_id) if invalidation_body.reissue else None
    reason, tx = invalidation_body.reason or None, unit_of_work.tx
    reissued_as = giftcard_service.take_back_card(
        context, tx, caller, item_id, reason=reason, reissue=reissue, record_audit=audit.record
    )
    item = item_queries.read_item(tx, item_id)
    details = serialize_item_details(item, item_queries.list_item_steps(tx, item))
    content: InvalidatedItem = {**details, "reissued_as": reissued_as}
    return json_response(content)


for method, summary in {"PUT": "Take a gift card back", "PATCH": "Take a gift card back (PATCH)"}.items():
    router.add(
        method,
        "/order-items/{item_id}/invalidate-giftcard",
        InvalidatedItem,
        errors=[402],
        operation_id=f"invalidate_giftcard_{method.lower()}",
        summary=summary,
    )(_invalidate)
