"""Pages of a list, at a cost that does not grow with the list.

The page's ids are found in an index alone, skipping from the nearer end; then its rows are read by id.
Under row-level security an index is enough only if it holds what the policy asks for too, and it is
followed only where the conditions are stated: `rows_of` states them once more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from quillpost.core.database.engine import Tenant, Tx

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a page: after `skip` of them come `take`, counted from the end if `from_end`."""

    skip: int
    take: int
    from_end: bool


@dataclass(frozen=True, slots=True)
class PageRequest:
    page: int = 1
    per_page: int = 25

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.per_page

    def window(self, total: int) -> Window:
        """Where the page lies in a list of so many, seen from the end that is nearer."""
        take = max(0, min(self.per_page, total - self.offset))
        behind = total - self.offset - take
        if behind < self.offset:
            return Window(max(0, behind), take, from_end=True)
        return Window(self.offset, take, from_end=False)


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """Some rows of `total`. A page beyond the end is empty, with no first and no last row."""

    rows: list[Row]
    total: int
    asked: PageRequest

    @property
    def first_row(self) -> int | None:
        return self.asked.offset + 1 if self.rows else None

    @property
    def last_row(self) -> int | None:
        return self.asked.offset + len(self.rows) if self.rows else None

    @property
    def last_page(self) -> int:
        return max(1, -(-self.total // self.asked.per_page))


Conditions = Sequence[sa.ColumnElement[bool]]
Column = sa.ColumnElement[Any]


@dataclass(frozen=True, slots=True)
class Sorting:
    """How a list is sorted: newest first or oldest first, by these columns and then by id.

    `led_by` has one value in the whole list, and in the index it stands before all of these. Naming it keeps
    PostgreSQL from walking the primary key, which has the same order, and everyone's rows in between.
    """

    newest_first: bool = True
    by: tuple[Column, ...] = ()
    led_by: Column | None = None

    def columns(self, table: sa.Table, *, from_end: bool = False) -> list[Column]:
        """What to sort by; `from_end`, the other way round."""
        falls = self.newest_first is not from_end
        leading = [] if self.led_by is None else [self.led_by.asc() if falls else self.led_by.desc()]
        return leading + [each.desc() if falls else each.asc() for each in (*self.by, table.c.id)]


NEWEST_FIRST = Sorting()
OLDEST_FIRST = Sorting(newest_first=False)


def rows_of(table: sa.FromClause, who: Tenant) -> list[sa.ColumnElement[bool]]:
    """What the policy says of these rows, in words that an index can follow."""
    own = [table.c.account_id == who.account_id]
    if who.mode is not None and "mode" in table.c:
        # A plain equality would tell the planner that sorting by the mode is idle: see `Sorting.led_by`.
        own.append(table.c.mode == sa.any_(sa.cast([who.mode], ARRAY(sa.Text()))))
    if who.sub_account_id is not None:
        own.append(table.c.sub_account_id == who.sub_account_id)
    return own


def page_ids(
    table: sa.Table,
    wanted: Conditions,
    asked: PageRequest,
    *,
    total: int,
    sorting: Sorting = NEWEST_FIRST,
) -> sa.Select[tuple[int]]:
    """The ids on the page of a list of `total`, in no order."""
    window = asked.window(total)
    return (
        sa.select(table.c.id)
        .where(*wanted)
        .order_by(*sorting.columns(table, from_end=window.from_end))
        .offset(window.skip)
        .limit(window.take)
    )


def read_page(
    tx: Tx,
    table: sa.Table,
    wanted: Conditions,
    asked: PageRequest,
    *,
    total: int,
    sorting: Sorting = NEWEST_FIRST,
) -> list[sa.Row[Any]]:
    """The rows on the page of a list of `total`, in the list's order; none beyond its end."""
    if asked.offset >= total:
        return []
    found = page_ids(table, wanted, asked, total=total, sorting=sorting).subquery()
    rows = sa.select(table).join(found, found.c.id == table.c.id).order_by(*sorting.columns(table))
    return list(tx.execute(rows))
