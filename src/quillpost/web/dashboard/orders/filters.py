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
from quillpost.orders.products import TYPES, Family
from quillpost.orders.queries import OrderFilter
from quillpost.orders.rules import OrderStatus
from quillpost.orders.search import Sought
from quillpost.web.api.bodies import LARGEST_ID, whole_number
from quillpost.web.api.orders.search import streets_of
from quillpost.web.dashboard.forms import day_in, start_of

LONGEST_SEARCH = 200
BACKWARD: Final = "“To” is before “From”: no order is between them."
NUMBER: Final = re.compile(r"#?\s*([0-9]{1,18})")
METADATA: Final = re.compile(r"\s*([^=\[\]@]{1,100}?)\s*=\s*(.{1,200}?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The filters as they were chosen. What is odd is as good as not chosen."""

    status: str = ""
    type: str = ""
    sub_account: str = ""
    since: str = ""
    until: str = ""
    q: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Wanted":
        def chosen(name: str, known: tuple[str, ...]) -> str:
            given = query.get(name, "").strip().lower()
            return given if given in known else ""

        def day(name: str) -> str:
            given = query.get(name, "").strip()
            return given if day_in(given) else ""

        branch = whole_number(query.get("sub_account", "").strip()) or 0
        return cls(
            status=chosen("status", tuple(OrderStatus)),
            type=chosen("type", TYPES),
            sub_account=str(branch) if 0 < branch <= LARGEST_ID else "",
            since=day("from"),
            until=day("to"),
            q=query.get("q", "").replace("\x00", "").strip()[:LONGEST_SEARCH],
        )

    @property
    def typed(self) -> dict[str, str]:
        """By the names of the form."""
        given = {
            "status": self.status,
            "type": self.type,
            "sub_account": self.sub_account,
            "from": self.since,
            "to": self.until,
            "q": self.q,
        }
        return {name: value for name, value in given.items() if value}

    @property
    def address(self) -> str:
        """The list with these filters."""
        return f"/orders?{urlencode(self.typed)}" if self.typed else "/orders"

    @property
    def is_filtered(self) -> bool:
        return bool(self.typed)

    @property
    def dates_fault(self) -> str:
        """What is wrong with the days, if anything is."""
        return BACKWARD if self.since and self.until and self.since > self.until else ""

    @property
    def sub_account_id(self) -> int | None:
        return int(self.sub_account) if self.sub_account else None

    def filter(self, zone: ZoneInfo) -> OrderFilter:
        """As the services have it. A day begins when it does where its reader lives."""
        first, last = day_in(self.since), day_in(self.until)
        return OrderFilter(
            sub_account_id=self.sub_account_id,
            family=Family((self.type,)) if self.type else None,
            status=self.status or None,
            created_after=start_of(first, zone) if first else None,
            created_before=start_of(last, zone, later=1) if last else None,
            metadata=self.metadata,
        )

    @property
    def metadata(self) -> tuple[search.Alternatives, ...]:
        """`campaign = spring` looks into the metadata."""
        written = METADATA.fullmatch(self.q)
        if written is None:
            return ()
        keys = "".join(f"[{key}]" for key in written[1].split("."))
        try:
            return search.read_filters([(f"metadata{keys}", written[2])])
        except Invalid:
            return ()

    @property
    def number(self) -> int | None:
        """Of an order or a piece, where the words are one."""
        written = NUMBER.fullmatch(self.q)
        return int(written[1]) if written and 0 < int(written[1]) <= LARGEST_ID else None

    @property
    def sought(self) -> list[Sought]:
        """What to look for among pieces, the likeliest first."""
        if "@" in self.q:
            return [Sought(email=self.q, sub_account_id=self.sub_account_id)]
        name = Sought(name=self.q, sub_account_id=self.sub_account_id)
        try:
            street = Sought(streets=streets_of(self.q), sub_account_id=self.sub_account_id)
        except Invalid:
            return [name]
        return [street, name] if self.q[:1].isdigit() else [name, street]

    def takes(self, order: Order, wanted: OrderFilter) -> bool:
        """Whether an order that was found otherwise is one that the filters let through."""
        return (
            wanted.status in (None, order.status.value)
            and (wanted.family is None or order.type in wanted.family.types)
            and wanted.sub_account_id in (None, order.sub_account_id)
            and (wanted.created_after is None or order.created_at >= wanted.created_after)
            and (wanted.created_before is None or order.created_at < wanted.created_before)
        )
