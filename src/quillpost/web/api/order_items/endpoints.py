"""Order items: one mail piece for one recipient each."""

from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core.database import Tx
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import PageRequest
from quillpost.orders import items
from quillpost.orders import queries as order_queries
from quillpost.orders.models import Order
from quillpost.web.api.dependencies import (
    AskedId,
    AskedLimit,
    AskedPage,
    AskedSearch,
    InTx,
    Services,
    SubAccountFilter,
    count_in_query,
    id_in_path,
    may,
    number_in_query,
)
from quillpost.web.api.errors import errors
from quillpost.web.api.orders import schemas as schemas
from quillpost.web.api.orders.filters import WantedStatus
from quillpost.web.api.orders.responses import item_read_shape, item_shape
from quillpost.web.api.responses import answer, linked
from quillpost.web.api.routes import PREFIX, V2Route

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Order items"])

MayRead = Annotated[Caller, Depends(may("orders:read"))]
OrderId = Annotated[str, Path(description="The order's id.", json_schema_extra={"type": "integer"})]
ItemId = Annotated[str, Path(description="The item's id.", json_schema_extra={"type": "integer"})]
OfOrder = Annotated[AskedId, Query(description="Only this order's, in the order given.")]


def page_of_items(
    request: Request,
    parts: Services,
    asked: AskedPage,
    per_page: AskedLimit = None,
) -> PageRequest:
    """Items have a third name for the size of a page."""
    size = count_in_query("per_page", per_page, parts.limits.items_per_page)
    if size is None or {"items_per_page", "limit"} & request.query_params.keys():
        return asked
    return replace(asked, per_page=size)


ItemsPage = Annotated[PageRequest, Depends(page_of_items)]


@router.get(
    "/orders/{order_id}/items",
    response_model=schemas.ItemPage,
    responses=errors(404, 422),
    summary="List an order's items",
)
def list_items(
    request: Request,
    order_id: OrderId,
    who: MayRead,
    tx: InTx,
    parts: Services,
    asked: ItemsPage,
    status: WantedStatus,
    search: AskedSearch,
) -> Response:
    """One item is one mail piece for one recipient. `search` looks at the recipients' names, companies,
    e-mails and addresses."""
    order = items.read_order(tx, id_in_path(order_id))
    if search is not None:
        page = order_queries.searched_items(
            parts.db, tx, tenant(who), asked, search, order=order, status=status
        )
    else:
        page = order_queries.list_items(tx, order, asked, status=status)
    return linked(request, page, item_shape)


@router.get(
    "/order-items",
    response_model=schemas.ItemPage,
    responses=errors(400, 422),
    summary="List items",
)
def list_order_items(
    request: Request,
    who: MayRead,
    tx: InTx,
    parts: Services,
    asked: ItemsPage,
    sub_account_id: SubAccountFilter,
    status: WantedStatus,
    search: AskedSearch,
    order_id: OfOrder = None,
) -> Response:
    """Those of one order as they were given, or without `order_id` all of them, newest first. `search` looks
    at the recipients' names, companies, e-mails and addresses."""
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    number = number_in_query("order_id", order_id)
    order = None if number is None else _order_of(tx, number, sub_account_id)
    if search is not None:
        page = order_queries.searched_items(
            parts.db,
            tx,
            tenant(who),
            asked,
            search,
            order=order,
            sub_account_id=sub_account_id,
            status=status,
        )
    elif order is not None:
        page = order_queries.list_items(tx, order, asked, status=status)
    else:
        page = order_queries.list_every_item(
            tx, tenant(who), asked, sub_account_id=sub_account_id, status=status
        )
    return linked(request, page, item_shape)


def _order_of(tx: Tx, order_id: int, sub_account_id: int | None) -> Order:
    """The order of that sub account, where one is named."""
    with suppress(NotFound):
        order = items.read_order(tx, order_id)
        if sub_account_id in (None, order.sub_account_id):
            return order
    raise Refused("Order Does Not Exist")


@router.get(
    "/order-items/{item_id}",
    response_model=schemas.ItemRead,
    responses=errors(404),
    dependencies=[Depends(may("orders:read"))],
    summary="Read an item",
)
def read_item(item_id: ItemId, tx: InTx) -> Response:
    """The item, with `events`: where it has been and when, oldest first."""
    item = order_queries.read_item(tx, id_in_path(item_id))
    return answer(item_read_shape(item, order_queries.history(tx, item)))
