"""The books as a sender reads them: what there is, what is held, what was spent, and every move.

Only what the transaction may see is read: one mode, and perhaps one sub account.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.billing.rules import (
    CREDIT,
    PriceHistory,
    PriceKey,
    Tariff,
    UnitPrice,
    build_price_history,
    build_tariff,
)
from quillpost.core.database import Tenant, Tx, read_row
from quillpost.core.database.tables.base import ledger_moves, prices
from quillpost.core.database.tables.orders import account_credit, account_spending
from quillpost.core.errors import Conflict
from quillpost.core.paging import tenant_conditions

PAYMENT_KINDS = ("deposit", "withdrawal")

MAX_SUMMED_MOVES = 5_000
"""Moves added up to find an earlier credit; further back it is unknown."""


@dataclass(frozen=True, slots=True)
class LedgerMove:
    id: int
    sub_account_id: int | None
    order_id: int | None
    kind: str
    source: str
    target: str
    cents: int
    key: str
    at: datetime
    note: str | None

    @property
    def change(self) -> int:
        """The change of the credit."""
        return self.cents * ((self.target == CREDIT) - (self.source == CREDIT))


@dataclass(frozen=True, slots=True)
class LedgerFilter:
    kind: str | None = None
    order_id: int | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def has_gaps(self) -> bool:
        """Whether it leaves out moves in between, so that no credit follows from them."""
        return self.kind is not None or self.order_id is not None


NO_FILTER = LedgerFilter()

_COLUMNS = [ledger_moves.c[field.name] for field in fields(LedgerMove)]
_CREDIT_CHANGE = sa.case(
    (ledger_moves.c.target == CREDIT, ledger_moves.c.cents),
    (ledger_moves.c.source == CREDIT, -ledger_moves.c.cents),
    else_=0,
)
_POSITION = sa.tuple_(ledger_moves.c.at, ledger_moves.c.id)
_NEWEST_FIRST = ledger_moves.c.at.desc(), ledger_moves.c.id.desc()


@dataclass(frozen=True, slots=True)
class AccountBalance:
    """In cents: to spend, held for orders not printed yet, paid in less paid out, ever spent."""

    credit: int
    held: int
    paid: int
    spent: int


def read_balance(tx: Tx, tenant: Tenant) -> AccountBalance:
    """Every cent paid in is credit, held or spent, so `held` follows from the others."""
    credit = _sum(tx, account_credit.c.cents, tenant_conditions(account_credit, tenant))
    spent = _sum(tx, account_spending.c.cents, tenant_conditions(account_spending, tenant))
    paid = _sum(tx, _CREDIT_CHANGE, [*_tenant_conditions(tenant), ledger_moves.c.kind.in_(PAYMENT_KINDS)])
    return AccountBalance(credit=credit, held=paid - credit - spent, paid=paid, spent=spent)


def sum_spending_by_month(tx: Tx, tenant: Tenant, *, since: date) -> Mapping[date, int]:
    """Months with spending, the newest first."""
    month = account_spending.c.month
    rows = tx.execute(
        sa.select(month, sa.func.sum(account_spending.c.cents))
        .where(*tenant_conditions(account_spending, tenant), month >= since)
        .group_by(month)
        .order_by(month.desc())
    )
    return {row[0]: int(row[1]) for row in rows}


def sum_spending_by_sub_account(
    tx: Tx, tenant: Tenant, *, since: date, sub_account_ids: Sequence[int] | None = None
) -> Mapping[int, int]:
    """By sub account, the most first; 0 stands for no sub account."""
    sub_account_id, spent = account_spending.c.sub_account_id, sa.func.sum(account_spending.c.cents)
    conditions = [*tenant_conditions(account_spending, tenant), account_spending.c.month >= since]
    if sub_account_ids is not None:
        conditions.append(sub_account_id.in_(sub_account_ids))
    rows = tx.execute(
        sa.select(sub_account_id, spent)
        .where(*conditions)
        .group_by(sub_account_id)
        .order_by(spent.desc(), sub_account_id)
    )
    return {row[0]: int(row[1]) for row in rows if row[1]}


def list_moves(
    tx: Tx, tenant: Tenant, filters: LedgerFilter, *, before: int | None = None, limit: int
) -> list[LedgerMove]:
    """The newest first; `before` is the id of the last one seen."""
    conditions = _filter_conditions(tenant, filters)
    last_seen_at = _read_move_time(tx, tenant, before)
    if last_seen_at is not None:
        conditions.append(sa.tuple_(sa.literal(last_seen_at), sa.literal(before)) > _POSITION)
    rows = tx.execute(sa.select(*_COLUMNS).where(*conditions).order_by(*_NEWEST_FIRST).limit(limit))
    return [LedgerMove(*row) for row in rows]


def read_credit_after(tx: Tx, tenant: Tenant, move: LedgerMove, *, credit: int) -> int | None:
    """The credit after this move, if it is `credit` now; None if that is too many moves ago."""
    is_later = sa.tuple_(sa.literal(move.at), sa.literal(move.id)) < _POSITION
    later_moves = sa.select(_CREDIT_CHANGE.label("change")).where(*_tenant_conditions(tenant), is_later)
    # Sorted, so that the index is walked: without that, it may be the whole table.
    limited_moves = later_moves.order_by(*_NEWEST_FIRST).limit(MAX_SUMMED_MOVES + 1).subquery()
    totals = tx.execute(sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(limited_moves.c.change), 0))).one()
    return None if totals[0] > MAX_SUMMED_MOVES else credit - int(totals[1])


def add_running_credit(
    moves: Sequence[LedgerMove], first_credit: int | None
) -> Iterator[tuple[LedgerMove, int | None]]:
    """Each move, the newest first, with the credit after it."""
    credit = first_credit
    for move in moves:
        yield move, credit
        if credit is not None:
            credit -= move.change


def _read_move_time(tx: Tx, tenant: Tenant, move_id: int | None) -> datetime | None:
    if move_id is None:
        return None
    return tx.execute(
        sa.select(ledger_moves.c.at).where(*_tenant_conditions(tenant), ledger_moves.c.id == move_id)
    ).scalar()


def _tenant_conditions(tenant: Tenant) -> list[sa.ColumnElement[bool]]:
    """What the policy says too, in a form for which an index is used."""
    conditions = [ledger_moves.c.account_id == tenant.account_id]
    if tenant.mode is not None:
        conditions.append(ledger_moves.c.mode == tenant.mode)
    if tenant.sub_account_id is not None:
        conditions.append(ledger_moves.c.sub_account_id == tenant.sub_account_id)
    return conditions


def _filter_conditions(tenant: Tenant, filters: LedgerFilter) -> list[sa.ColumnElement[bool]]:
    conditions = _tenant_conditions(tenant)
    if filters.kind is not None:
        conditions.append(ledger_moves.c.kind == filters.kind)
    if filters.order_id is not None:
        conditions.append(ledger_moves.c.order_id == filters.order_id)
    if filters.since is not None:
        conditions.append(ledger_moves.c.at >= filters.since)
    if filters.until is not None:
        conditions.append(ledger_moves.c.at < filters.until)
    return conditions


def _sum(tx: Tx, column: sa.ColumnElement[Any], conditions: Sequence[sa.ColumnElement[bool]]) -> int:
    return int(tx.execute(sa.select(sa.func.coalesce(sa.func.sum(column), 0)).where(*conditions)).scalar_one())


def read_price_list(tx: Tx, *, on: date) -> list[PriceHistory]:
    """Everything that has, had or will have a price, in the order in which it was first priced."""
    by_key = dict[PriceKey, list[tuple[int, UnitPrice]]]()
    for row in tx.execute(sa.select(prices).order_by(prices.c.id)):
        price = _build_price(row)
        by_key.setdefault(price.key, []).append((row.id, price))
    return [build_price_history(key, rows, on=on) for key, rows in by_key.items()]


def _build_price(row: sa.Row[Any]) -> UnitPrice:
    return UnitPrice(row.type, row.size, row.mail_class, row.country, row.unit_cents, row.valid_from)


def find_future_price(tx: Tx, price_id: int, *, on: date) -> UnitPrice:
    """`Conflict` for a price that is in force."""
    row = read_row(tx, sa.select(prices).where(prices.c.id == price_id))
    if row.valid_from <= on:
        raise Conflict("This price is in force already, and stays on the list. Set another from a later day.")
    return _build_price(row)


def list_prices(tx: Tx) -> list[UnitPrice]:
    rows = tx.execute(sa.select(prices).order_by(prices.c.id))
    return [_build_price(row) for row in rows]


def read_tariff(tx: Tx, *, type: str, size: str | None, mail_class: str, on: date) -> Tariff:  # noqa: A002
    rows = tx.execute(
        sa.select(prices).where(prices.c.type == type, prices.c.size == (size or ""), prices.c.mail_class == mail_class)
    )
    return build_tariff([_build_price(row) for row in rows], on)
