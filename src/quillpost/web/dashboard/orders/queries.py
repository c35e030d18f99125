"""Which orders a page lists: the filters, and what the search box means."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.errors import Invalid, NotFound
from quillpost.core.paging import Page, PageRequest
from quillpost.orders import queries as order_queries
from quillpost.orders import rules as order_rules
from quillpost.orders.items import queries as item_queries
from quillpost.orders.items.queries import ItemQuery, search_by_recipient
from quillpost.orders.models import Order
from quillpost.orders.products import ORDER_TYPES, ProductFamily
from quillpost.orders.queries import OrderQuery
from quillpost.orders.rules import OrderStatus
from quillpost.web.api.orders.search import parse_streets
from quillpost.web.dashboard.forms import parse_day, start_of_day
from quillpost.web.dependencies import MAX_ID, parse_digits

MAX_SEARCH_LENGTH = 200
DATES_REVERSED: Final = "“To” is before “From”: no order is between them."
NUMBER_PATTERN: Final = re.compile(r"#?\s*([0-9]{1,18})")
METADATA_PATTERN: Final = re.compile(r"\s*([^=\[\]@]{1,100}?)\s*=\s*(.{1,200}?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderListFilters:
    """The filters as chosen; what is invalid counts as not chosen."""

    status: str = ""
    type: str = ""
    sub_account: str = ""
    since: str = ""
    until: str = ""
    q: str = ""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "OrderListFilters":
        def read_choice(name: str, allowed: tuple[str, ...]) -> str:
            value = query.get(name, "").strip().lower()
            return value if value in allowed else ""

        def read_day(name: str) -> str:
            value = query.get(name, "").strip()
            return value if parse_day(value) else ""

        sub_account_id = parse_digits(query.get("sub_account", "").strip()) or 0
        return cls(
            status=read_choice("status", tuple(OrderStatus)),
            type=read_choice("type", ORDER_TYPES),
            sub_account=str(sub_account_id) if 0 < sub_account_id <= MAX_ID else "",
            since=read_day("from"),
            until=read_day("to"),
            q=query.get("q", "").replace("\x00", "").strip()[:MAX_SEARCH_LENGTH],
        )

    @property
    def form_values(self) -> dict[str, str]:
        values = {
            "status": self.status,
            "type": self.type,
            "sub_account": self.sub_account,
            "from": self.since,
            "to": self.until,
            "q": self.q,
        }
        return {name: value for name, value in values.items() if value}

    @property
    def address(self) -> str:
        return f"/orders?{urlencode(self.form_values)}" if self.form_values else "/orders"

    @property
    def is_filtered(self) -> bool:
        return bool(self.form_values)

    @property
    def dates_error(self) -> str:
        return DATES_REVERSED if self.since and self.until and self.since > self.until else ""

    @property
    def sub_account_id(self) -> int | None:
        return int(self.sub_account) if self.sub_account else None

    def to_order_filter(self, zone: ZoneInfo) -> OrderQuery:
        """A day begins when it does in the reader's zone."""
        first_day, last_day = parse_day(self.since), parse_day(self.until)
        return OrderQuery(
            sub_account_id=self.sub_account_id,
            family=ProductFamily((self.type,)) if self.type else None,
            status=self.status or None,
            created_after=start_of_day(first_day, zone) if first_day else None,
            created_before=start_of_day(last_day, zone, days_later=1) if last_day else None,
            metadata=self.metadata,
        )

    @property
    def metadata(self) -> tuple[order_rules.MetadataAlternatives, ...]:
        """`campaign = spring` looks into the metadata."""
        match = METADATA_PATTERN.fullmatch(self.q)
        if match is None:
            return ()
        keys = "".join(f"[{key}]" for key in match[1].split("."))
        try:
            return order_rules.parse_metadata_filters([(f"metadata{keys}", match[2])])
        except Invalid:
            return ()

    @property
    def number(self) -> int | None:
        """Of an order or an item, if the text is one."""
        match = NUMBER_PATTERN.fullmatch(self.q)
        return int(match[1]) if match and 0 < int(match[1]) <= MAX_ID else None

    @property
    def item_searches(self) -> list[ItemQuery]:
        """The likeliest first."""
        if "@" in self.q:
            return [ItemQuery(email=self.q, sub_account_id=self.sub_account_id)]
        name_search = ItemQuery(name=self.q, sub_account_id=self.sub_account_id)
        try:
            street_search = ItemQuery(streets=parse_streets(self.q), sub_account_id=self.sub_account_id)
        except Invalid:
            return [name_search]
        return [street_search, name_search] if self.q[:1].isdigit() else [name_search, street_search]

    def matches(self, order: Order, order_filter: OrderQuery) -> bool:
        return (
            order_filter.status in (None, order.status.value)
            and (order_filter.family is None or order.type in order_filter.family.types)
            and order_filter.sub_account_id in (None, order.sub_account_id)
            and (order_filter.created_after is None or order.created_at >= order_filter.created_after)
            and (order_filter.created_before is None or order.created_at < order_filter.created_before)
        )


MAX_ORDERS_COUNTED = 10_000
MAX_ITEMS_SEARCHED = 500
MAX_ORDERS_LISTED = 100


@dataclass(frozen=True, slots=True)
class OrderListing:
    """`is_cut`: there are more than are counted, or than a search reads."""

    page: Page[Order]
    is_cut: bool


def list_orders(
    db: Database, tx: Tx, tenant: Tenant, filters: OrderListFilters, page_request: PageRequest, zone: ZoneInfo
) -> OrderListing:
    query = filters.to_order_filter(zone)
    if filters.q and not filters.metadata:
        return _search_orders(db, tx, tenant, filters, query)
    page = order_queries.list_orders(db, tx, tenant, page_request, query, count_limit=MAX_ORDERS_COUNTED)
    return OrderListing(page, is_cut=not query.has_stored_count and page.total > MAX_ORDERS_COUNTED)


def _search_orders(
    db: Database, tx: Tx, tenant: Tenant, filters: OrderListFilters, order_filter: OrderQuery
) -> OrderListing:
    """By number, or by the name, street or email of a recipient."""
    orders, is_cut = _find_by_number(tx, filters.number), False
    for query in filters.item_searches if not orders else ():
        result = search_by_recipient(db, tx, tenant, query, limit=MAX_ITEMS_SEARCHED)
        orders, is_cut = result.orders, result.is_cut
        if orders:
            break
    matching_orders = [order for order in orders if filters.matches(order, order_filter)]
    listed_orders = matching_orders[:MAX_ORDERS_LISTED]
    return OrderListing(
        Page(listed_orders, len(listed_orders), PageRequest(1, MAX_ORDERS_LISTED)),
        is_cut=is_cut or len(matching_orders) > MAX_ORDERS_LISTED,
    )


def _find_by_number(tx: Tx, number: int | None) -> Sequence[Order]:
    """The order with this number, or the one with this item."""
    if number is None:
        return []
    with suppress(NotFound):
        return [order_queries.read_order(tx, number)]
    with suppress(NotFound):
        return [order_queries.read_order(tx, item_queries.read_item(tx, number).order_id)]
    return []
