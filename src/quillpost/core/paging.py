"""Pages of a list, at a cost that does not grow with the list.

The page's ids are found with an index-only scan, skipping from the nearer end; then its rows are read by id. Under
row-level security an index suffices only if it covers the policy's columns, and it is used only where the conditions
are written out: `tenant_conditions` repeats them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from quillpost.core.database.engine import Tenant, Tx

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class PageWindow:
    """The rows of a page: after `offset` of them come `limit`, counted from the end if `is_from_end`."""

    offset: int
    limit: int
    is_from_end: bool


@dataclass(frozen=True, slots=True)
class PageRequest:
    page: int = 1
    per_page: int = 25

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.per_page

    def window(self, total: int) -> PageWindow:
        """Where the page is in a list of `total` rows, from the nearer end."""
        limit = max(0, min(self.per_page, total - self.offset))
        remaining = total - self.offset - limit
        if remaining < self.offset:
            return PageWindow(max(0, remaining), limit, is_from_end=True)
        return PageWindow(self.offset, limit, is_from_end=False)


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """A page beyond the end is empty, with no first and no last row."""

    rows: list[Row]
    total: int
    request: PageRequest

    @property
    def first_row(self) -> int | None:
        return self.request.offset + 1 if self.rows else None

    @property
    def last_row(self) -> int | None:
        return self.request.offset + len(self.rows) if self.rows else None

    @property
    def last_page(self) -> int:
        return max(1, -(-self.total // self.request.per_page))


Conditions = Sequence[sa.ColumnElement[bool]]
Column = sa.ColumnElement[Any]


@dataclass(frozen=True, slots=True)
class Sorting:
    """Newest or oldest first, by these columns and then by id. `leading_column` has one value in the whole list, and
    comes first in the index. Naming it keeps PostgreSQL from walking the primary key, which has the same order, through
    everyone's rows."""

    is_newest_first: bool = True
    sort_columns: tuple[Column, ...] = ()
    leading_column: Column | None = None

    def columns(self, table: sa.Table, *, is_from_end: bool = False) -> list[Column]:
        is_descending = self.is_newest_first is not is_from_end
        leading = (
            []
            if self.leading_column is None
            else [self.leading_column.asc() if is_descending else self.leading_column.desc()]
        )
        return leading + [each.desc() if is_descending else each.asc() for each in (*self.sort_columns, table.c.id)]


NEWEST_FIRST = Sorting()
OLDEST_FIRST = Sorting(is_newest_first=False)


def tenant_conditions(table: sa.FromClause, tenant: Tenant) -> list[sa.ColumnElement[bool]]:
    """The policy's conditions, in a form that an index can follow."""
    conditions = [table.c.account_id == tenant.account_id]
    if tenant.mode is not None and "mode" in table.c:
        # A plain equality would tell the planner that sorting by the mode is idle: see `Sorting.led_by`.
        conditions.append(table.c.mode == sa.any_(sa.cast([tenant.mode], ARRAY(sa.Text()))))
    if tenant.sub_account_id is not None:
        conditions.append(table.c.sub_account_id == tenant.sub_account_id)
    return conditions


def equal_conditions(table: sa.FromClause, **values: object) -> list[sa.ColumnElement[bool]]:
    """Equality with each of the values that is not None."""
    return [table.c[name] == value for name, value in values.items() if value is not None]


def select_page_ids(
    table: sa.Table, conditions: Conditions, page_request: PageRequest, *, total: int, sorting: Sorting = NEWEST_FIRST
) -> sa.Select[tuple[int]]:
    """In no order."""
    window = page_request.window(total)
    return (
        sa.select(table.c.id)
        .where(*conditions)
        .order_by(*sorting.columns(table, is_from_end=window.is_from_end))
        .offset(window.offset)
        .limit(window.limit)
    )


def read_newest_page(
    tx: Tx, query: sa.Select[Any], page_request: PageRequest, build: Callable[[sa.Row[Any]], Row]
) -> Page[Row]:
    """A page of a short list, newest first: its rows are counted each time."""
    newest = query.order_by(query.selected_columns.id.desc())
    rows = tx.execute(newest.limit(page_request.per_page).offset(page_request.offset))
    total = tx.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one()
    return Page([build(row) for row in rows], total, page_request)


def read_page(
    tx: Tx,
    table: sa.Table,
    conditions: Conditions,
    page_request: PageRequest,
    *,
    total: int,
    sorting: Sorting = NEWEST_FIRST,
) -> list[sa.Row[Any]]:
    if page_request.offset >= total:
        return []
    page = select_page_ids(table, conditions, page_request, total=total, sorting=sorting).subquery()
    rows = sa.select(table).join(page, page.c.id == table.c.id).order_by(*sorting.columns(table))
    return list(tx.execute(rows))
