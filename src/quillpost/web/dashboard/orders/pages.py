"""All orders, and one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Response

from quillpost.accounts.sub_accounts.queries import read_sub_account
from quillpost.app.container import Container
from quillpost.core import exact_json
from quillpost.core.database import Tx
from quillpost.fulfillment.review.service import find_service_gaps, format_pause_warnings, texts_for_sender
from quillpost.fulfillment.service import draw_proof
from quillpost.orders import queries as order_queries
from quillpost.orders.audience.service import NOT_MAILED, RECENTLY_MAILED
from quillpost.orders.models import Order
from quillpost.orders.queries import NotMailedCount, OrderStep, count_not_mailed
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.recipients.lists.queries import find_lists
from quillpost.web.dashboard.forms import FormState, parse_page
from quillpost.web.dashboard.labels import Ink
from quillpost.web.dashboard.orders import labels
from quillpost.web.dashboard.orders.labels import STATUS_LABELS, TYPE_LABELS, count_by_status, product_label
from quillpost.web.dashboard.orders.queries import OrderListFilters, list_orders
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.messages import page_text
from quillpost.web.rendering import download_headers
from quillpost.web.sessions import is_fragment

router = APIRouter(include_in_schema=False)

LIVE_FRAGMENTS: Final = {name: f"orders/live_{name}.html" for name in ("state", "numbers", "history")}
"""Templates of the parts that change while the page is open."""
MAX_LISTS_SHOWN = 20


@router.get("/orders")
def orders_page(context: UserContext, page: str = "") -> Response:
    filters, is_part = OrderListFilters.parse(context.request.query_params), is_fragment(context.request)
    with context.transaction() as tx:
        listing = list_orders(context.container.db, tx, context.tenant, filters, parse_page(page), context.zone)
        titles = context.sub_account_titles(tx)
    return context.render(
        "orders/list_fragment.html" if is_part else "orders/list.html",
        FormState({name: [value] for name, value in filters.form_values.items()}),
        listing=listing,
        filters=filters,
        is_fragment=is_part,
        titles=titles,
        statuses=STATUS_LABELS,
        types=TYPE_LABELS,
        count_by_status=count_by_status,
        product_label=product_label,
    )


@dataclass(frozen=True, slots=True)
class OrderView:
    order: Order
    states: list[OrderStep]
    not_ready: Sequence[str] = ()
    """Why it will be paused when its review ends."""
    hold_reasons: Sequence[str] = ()

    @property
    def hold_notices(self) -> list[str]:
        return [*self.not_ready, *self.hold_reasons]

    not_mailed: Sequence[NotMailedCount] = ()

    @property
    def warnings(self) -> list[str]:
        """Without those about people who are not mailed to: the numbers say so."""
        return [page_text(each) for each in self.order.warnings if each.code not in (NOT_MAILED, RECENTLY_MAILED)]

    @property
    def pieces_hint(self) -> str | None:
        if self.order.audience_pending:
            return "counted again when your lists are read"
        return f"for {self.order.recipient_count:,} recipients" if self.order.not_mailed else None

    @property
    def status_counts(self) -> dict[str, int]:
        return labels.count_by_status(self.order)

    @property
    def explanation(self) -> str:
        return labels.explain_status(self.order)

    @property
    def total_hint(self) -> str | None:
        return labels.total_hint(self.order)

    @property
    def delivered(self) -> int:
        return self.order.status_counts[ItemStatus.DELIVERED]

    @property
    def mailed(self) -> int:
        """Items that are with the carrier, or were."""
        return self.order.n_mailed

    @property
    def _not_failed(self) -> int:
        excluded_statuses = (ItemStatus.PROCESSING, ItemStatus.FAILED)
        return sum(n for status, n in self.order.status_counts.items() if status not in excluded_statuses)

    @property
    def problem_count(self) -> int:
        return self.order.status_counts[ItemStatus.FAILED] + self.order.status_counts[ItemStatus.RETURNED_TO_SENDER]

    @property
    def can_resend(self) -> bool:
        """What failed is not sent again."""
        return self._not_failed > 0 and self.order.status is not OrderStatus.CANCELLED


@router.get("/orders/{order_id}")
def order_page(context: UserContext, order_id: PathId) -> Response:
    with context.transaction() as tx:
        view = read_order_view(tx, context.container, order_id)
        order = view.order
        sub_account = read_sub_account(tx, order.sub_account_id) if order.sub_account_id else None
        mailing_lists = find_lists(tx, order.mailing_list_ids[:MAX_LISTS_SHOWN])
    style = context.container.renderer.hands.styles.get(order.style)
    return context.render(
        "orders/order.html",
        view=view,
        order=order,
        product=labels.product_label(order),
        sub_account=sub_account,
        lists=list(mailing_lists.values()),
        more_list_count=max(0, len(order.mailing_list_ids) - MAX_LISTS_SHOWN),
        style_name=style.name if style else None,
        ink=Ink.parse(order.handwriting_color),
        size_label=labels.font_size_label(order),
        method_label=labels.METHOD_LABELS.get(order.method, order.method),
        return_address=_return_address_lines(order),
        metadata=metadata_entries(order.metadata),
        item_id=context.request.query_params.get("item", ""),
    )


@router.get("/orders/{order_id}/live")
def stream_order(context: UserContext, order_id: PathId) -> Response:
    _require_order(context, order_id)

    def read_live_values() -> Mapping[str, Any]:
        with context.transaction() as tx:
            view = read_order_view(tx, context.container, order_id)
        return {"view": view, "order": view.order}

    return context.stream(("order", order_id), LIVE_FRAGMENTS, read_live_values)


@router.get("/orders/{order_id}/proof.pdf")
def download_proof(context: UserContext, order_id: PathId) -> Response:
    """The first pieces as they print."""
    _require_order(context, order_id)
    pdf = draw_proof(context.container.production, order_id)
    headers = download_headers(f"order-{order_id}-proof.pdf")
    return Response(pdf, media_type="application/pdf", headers=headers)


def read_order_view(tx: Tx, container: Container, order_id: int) -> OrderView:
    order = order_queries.read_order(tx, order_id)
    environment = container.environments[order.mode]
    not_ready: list[str] = []
    if order.status is OrderStatus.REVIEWING:
        not_ready = format_pause_warnings(find_service_gaps(tx, environment, on=container.clock().date()))
    hold_reasons = texts_for_sender(order.hold_reasons)
    not_mailed = count_not_mailed(tx, order)
    return OrderView(order, order_queries.list_order_steps(tx, order.id), not_ready, hold_reasons, not_mailed)


def metadata_entries(metadata: str | None) -> list[tuple[str, str]]:
    """Key by key; numbers as they were written."""
    if metadata is None:
        return []
    parsed = exact_json.parse_json(metadata.encode())
    if not isinstance(parsed, dict):
        return [("", _format_value(parsed))]
    return [(str(key), _format_value(value)) for key, value in parsed.items()]


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else exact_json.dump_json(value)


def _return_address_lines(order: Order) -> list[str]:
    return_address = order.return_address
    lines = labels.address_lines(
        return_address.address,
        return_address.address2,
        return_address.city,
        return_address.province,
        return_address.postal_code,
    )
    return [return_address.name, *lines] if return_address.name else lines


def _require_order(context: RequestContext, order_id: int) -> None:
    with context.transaction() as tx:
        order_queries.read_order(tx, order_id)
