"""Every account of the service, for those who run it. What each sends and spends is read off counters."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.database.counter_tables import account_credit, account_spending, order_counts
from quillpost.database.paging import read_page
from quillpost.database.people_tables import memberships
from quillpost.database.tables import accounts, ledger_moves
from quillpost.kit.errors import NotFound
from quillpost.kit.paging import Page, PageRequest


@dataclass(frozen=True, slots=True)
class Known:
    """An account, with what it sent in one mode, and has and has spent there since the month began."""

    id: int
    name: str
    email: str
    company: str | None
    is_operator: bool
    is_test_account: bool
    created_at: datetime
    people: int
    orders: int
    credit: int
    spent: int


@dataclass(frozen=True, slots=True)
class Move:
    """Money that went from one book to another."""

    id: int
    kind: str
    source: str
    target: str
    cents: int
    order_id: int | None
    note: str | None
    at: datetime


def list_accounts(tx: Tx, asked: PageRequest, *, mode: str, month: date, words: str = "") -> Page[Known]:
    """The newest first; with `words`, those that have them in their name, company or e-mail."""
    wanted = [_like(words)] if words else []
    total = int(tx.execute(sa.select(sa.func.count()).select_from(accounts).where(*wanted)).scalar_one())
    rows = read_page(tx, accounts, wanted, asked, total=total)
    return Page(_known(tx, rows, mode=mode, month=month), total, asked)


def find_known(tx: Tx, account_id: int, *, mode: str, month: date) -> Known:
    row = tx.execute(sa.select(accounts).where(accounts.c.id == account_id)).first()
    if row is None:
        raise NotFound
    return _known(tx, [row], mode=mode, month=month)[0]


def last_moves(tx: Tx, account_id: int, *, mode: str, most: int = 25) -> list[Move]:
    """The newest of the ledger."""
    c = ledger_moves.c
    columns = c.id, c.kind, c.source, c.target, c.cents, c.order_id, c.note, c.at
    found = tx.execute(
        sa.select(*columns)
        .where(c.account_id == account_id, c.mode == mode)
        .order_by(c.at.desc(), c.id.desc())
        .limit(most)
    )
    return [Move(*row) for row in found]


def _like(words: str) -> sa.ColumnElement[bool]:
    columns = accounts.c.email, accounts.c.name, accounts.c.company
    return sa.or_(*(column.icontains(words, autoescape=True) for column in columns))


def _known(tx: Tx, rows: list[sa.Row[Any]], *, mode: str, month: date) -> list[Known]:
    ids = [row.id for row in rows]

    def added(
        amount: sa.ColumnElement[Any], table: sa.Table, *which: sa.ColumnElement[bool]
    ) -> dict[int, int]:
        totals = sa.select(table.c.account_id, amount).where(table.c.account_id.in_(ids), *which)
        return {number: int(total) for number, total in tx.execute(totals.group_by(table.c.account_id))}

    people = added(sa.func.count(), memberships)
    sent = added(sa.func.sum(order_counts.c.n), order_counts, order_counts.c.mode == mode)
    credit = added(sa.func.sum(account_credit.c.cents), account_credit, account_credit.c.mode == mode)
    spending = account_spending.c
    spent = added(
        sa.func.sum(spending.cents), account_spending, spending.mode == mode, spending.month == month
    )
    return [
        Known(
            id=row.id,
            name=row.name,
            email=row.email,
            company=row.company,
            is_operator=row.is_operator,
            is_test_account=row.test_mode,
            created_at=row.created_at,
            people=people.get(row.id, 0),
            orders=sent.get(row.id, 0),
            credit=credit.get(row.id, 0),
            spent=spent.get(row.id, 0),
        )
        for row in rows
    ]
