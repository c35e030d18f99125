"""Which orders somebody wants to see: what the filters say, and what the search box means by its words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from quillpost.core.errors import Invalid
from quillpost.orders import search
from quillpost.orders.models import Order
from quillpost.orders.products import ORDER_TYPES, ProductFamily
from quillpost.orders.queries import OrderQuery
from quillpost.orders.rules import OrderStatus
from quillpost.orders.search import ItemQuery
from quillpost.web.api.bodies import MAX_ID, parse_digits
from quillpost.web.api.orders.search import parse_streets
from quillpost.web.dashboard.forms import parse_day, start_of_day

MAX_SEARCH_LENGTH = 200
DATES_REVERSED: Final = "“To” is before “From”: no order is between them."
NUMBER_PATTERN: Final = re.compile(r"#?\s*([0-9]{1,18})")
METADATA_PATTERN: Final = re.compile(r"\s*([^=\[\]@]{1,100}?)\s*=\s*(.{1,200}?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderListFilters:
    """The filters as they were chosen. What is odd is as good as not chosen."""

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
        """By the names of the form."""
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
        """The list with these filters."""
        return f"/orders?{urlencode(self.form_values)}" if self.form_values else "/orders"

    @property
    def is_filtered(self) -> bool:
        return bool(self.form_values)

    @property
    def dates_error(self) -> str:
        """What is wrong with the days, if anything is."""
        return DATES_REVERSED if self.since and self.until and self.since > self.until else ""

    @property
    def sub_account_id(self) -> int | None:
        return int(self.sub_account) if self.sub_account else None

    def to_order_filter(self, zone: ZoneInfo) -> OrderQuery:
        """As the services have it. A day begins when it does where its reader lives."""
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
    def metadata(self) -> tuple[search.MetadataAlternatives, ...]:
        """`campaign = spring` looks into the metadata."""
        match = METADATA_PATTERN.fullmatch(self.q)
        if match is None:
            return ()
        keys = "".join(f"[{key}]" for key in match[1].split("."))
        try:
            return search.parse_metadata_filters([(f"metadata{keys}", match[2])])
        except Invalid:
            return ()

    @property
    def number(self) -> int | None:
        """Of an order or a piece, where the words are one."""
        match = NUMBER_PATTERN.fullmatch(self.q)
        return int(match[1]) if match and 0 < int(match[1]) <= MAX_ID else None

    @property
    def item_searches(self) -> list[ItemQuery]:
        """What to look for among pieces, the likeliest first."""
        if "@" in self.q:
            return [ItemQuery(email=self.q, sub_account_id=self.sub_account_id)]
        name_search = ItemQuery(name=self.q, sub_account_id=self.sub_account_id)
        try:
            street_search = ItemQuery(streets=parse_streets(self.q), sub_account_id=self.sub_account_id)
        except Invalid:
            return [name_search]
        return [street_search, name_search] if self.q[:1].isdigit() else [name_search, street_search]

    def matches(self, order: Order, order_filter: OrderQuery) -> bool:
        """Whether an order that was found otherwise is one that the filters let through."""
        return (
            order_filter.status in (None, order.status.value)
            and (order_filter.family is None or order.type in order_filter.family.types)
            and order_filter.sub_account_id in (None, order.sub_account_id)
            and (order_filter.created_after is None or order.created_at >= order_filter.created_after)
            and (order_filter.created_before is None or order.created_at < order_filter.created_before)
        )
