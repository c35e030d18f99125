"""Order items: one mail piece for one recipient each."""

from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.api.answers import answer, linked
from quillpost.api.docs import errors
from quillpost.api.needs import (
    AskedId,
    AskedLimit,
    AskedPage,
    AskedSearch,
    InTx,
    Parts,
    SubAccountFilter,
    count_in_query,
    id_in_path,
    may,
    number_in_query,
)
from quillpost.api.route import PREFIX, V2Route
from quillpost.api.v2.order_filters import WantedStatus
from quillpost.api.v2.schemas import orders as schemas
from quillpost.api.v2.shapes import item_read_shape, item_shape
from quillpost.database import Tx
from quillpost.kit.errors import NotFound, Refused
from quillpost.kit.paging import PageRequest
from quillpost.orders import reading, store
from quillpost.orders.records import Order

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Order items"])

MayRead = Annotated[Caller, Depends(may("orders:read"))]
OrderId = Annotated[str, Path(description="The order's id.", json_schema_extra={"type": "integer"})]
ItemId = Annotated[str, Path(description="The item's id.", json_schema_extra={"type": "integer"})]
OfOrder = Annotated[AskedId, Query(description="Only this order's, in the order given.")]


def page_of_items(
    request: Request,
    parts: Parts,
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
    parts: Parts,
    asked: ItemsPage,
    status: WantedStatus,
    search: AskedSearch,
) -> Response:
    """One item is one mail piece for one recipient. `search` looks at the recipients' names, companies,
    e-mails and addresses."""
    order = store.read_order(tx, id_in_path(order_id))
    if search is not None:
        page = reading.searched_items(parts.db, tx, tenant(who), asked, search, order=order, status=status)
    else:
        page = reading.list_items(tx, order, asked, status=status)
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
    parts: Parts,
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
        page = reading.searched_items(
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
        page = reading.list_items(tx, order, asked, status=status)
    else:
        page = reading.list_every_item(tx, tenant(who), asked, sub_account_id=sub_account_id, status=status)
    return linked(request, page, item_shape)


def _order_of(tx: Tx, order_id: int, sub_account_id: int | None) -> Order:
    """The order of that sub account, where one is named."""
    with suppress(NotFound):
        order = store.read_order(tx, order_id)
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
    item = reading.read_item(tx, id_in_path(item_id))
    return answer(item_read_shape(item, reading.history(tx, item)))
