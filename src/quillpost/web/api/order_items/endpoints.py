"""Order items: one mail piece for one recipient each."""

from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core.database import Tx
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import PageRequest
from quillpost.orders import items
from quillpost.orders import queries as order_queries
from quillpost.orders.models import Order
from quillpost.web.api.dependencies import (
    IdQuery,
    LimitQuery,
    PageQuery,
    RequestTransaction,
    SearchQuery,
    SubAccountFilter,
    parse_path_id,
    parse_query_count,
    parse_query_id,
    require_scope,
)
from quillpost.web.api.errors import error_responses
from quillpost.web.api.orders import schemas
from quillpost.web.api.orders.filters import StatusFilterQuery
from quillpost.web.api.orders.responses import serialize_item, serialize_item_details
from quillpost.web.api.responses import json_response, page_response
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.dependencies import Services

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Order items"])

CanRead = Annotated[Caller, Depends(require_scope("orders:read"))]
OrderId = Annotated[str, Path(description="The order's id.", json_schema_extra={"type": "integer"})]
ItemId = Annotated[str, Path(description="The item's id.", json_schema_extra={"type": "integer"})]
OrderIdQuery = Annotated[IdQuery, Query(description="Only this order's, in the order given.")]


def get_item_page_request(
    request: Request, container: Services, page_request: PageQuery, per_page: LimitQuery = None
) -> PageRequest:
    """Items have a third name for the size of a page."""
    size = parse_query_count("per_page", per_page, container.limits.items_per_page)
    if size is None or {"items_per_page", "limit"} & request.query_params.keys():
        return page_request
    return replace(page_request, per_page=size)


ItemPageQuery = Annotated[PageRequest, Depends(get_item_page_request)]


@router.get(
    "/orders/{order_id}/items",
    response_model=schemas.ItemPage,
    responses=error_responses(404, 422),
    summary="List an order's items",
)
def list_items(
    request: Request,
    order_id: OrderId,
    caller: CanRead,
    tx: RequestTransaction,
    container: Services,
    page_request: ItemPageQuery,
    status: StatusFilterQuery,
    search: SearchQuery,
) -> Response:
    """One item is one mail piece for one recipient. `search` looks at the recipients' names, companies,
    e-mails and addresses."""
    order = items.read_order(tx, parse_path_id(order_id))
    if search is not None:
        page = order_queries.search_items(
            container.db, tx, build_tenant(caller), page_request, search, order=order, status=status
        )
    else:
        page = order_queries.list_items(tx, order, page_request, status=status)
    return page_response(request, page, serialize_item)


@router.get("/order-items", response_model=schemas.ItemPage, responses=error_responses(400, 422), summary="List items")
def list_order_items(
    request: Request,
    caller: CanRead,
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
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    parsed_order_id = parse_query_id("order_id", order_id)
    order = None if parsed_order_id is None else _find_order(tx, parsed_order_id, sub_account_id)
    if search is not None:
        page = order_queries.search_items(
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
        page = order_queries.list_items(tx, order, page_request, status=status)
    else:
        page = order_queries.list_all_items(
            tx, build_tenant(caller), page_request, sub_account_id=sub_account_id, status=status
        )
    return page_response(request, page, serialize_item)


def _find_order(tx: Tx, order_id: int, sub_account_id: int | None) -> Order:
    """The order of that sub account, where one is named."""
    with suppress(NotFound):
        order = items.read_order(tx, order_id)
        if sub_account_id in (None, order.sub_account_id):
            return order
    raise Refused("Order Does Not Exist")


@router.get(
    "/order-items/{item_id}",
    response_model=schemas.ItemRead,
    responses=error_responses(404),
    dependencies=[Depends(require_scope("orders:read"))],
    summary="Read an item",
)
def read_item(item_id: ItemId, tx: RequestTransaction) -> Response:
    """The item, with `events`: where it has been and when, oldest first."""
    item = order_queries.read_item(tx, parse_path_id(item_id))
    return json_response(serialize_item_details(item, order_queries.list_item_steps(tx, item)))
