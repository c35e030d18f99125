"""The books as a sender reads them: what there is, what is held, what was spent, and every move.

Whatever is read here is what the transaction may see: one mode, and perhaps one sub account alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.billing.ledger import CREDIT
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.base import ledger_moves
from quillpost.core.database.tables.counters import account_credit, account_spending
from quillpost.core.paging import rows_of

KINDS = ("deposit", "withdrawal", "authorise", "capture", "release", "refund", "issue", "return")
PAID = ("deposit", "withdrawal")

MOST_ADDED_UP = 5_000
"""Moves that are added up to say what the credit was before them. Further back nobody is told."""


@dataclass(frozen=True, slots=True)
class Move:
    """Cents that went from one book to another."""

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
        """By how much the credit is more since then."""
        return self.cents * ((self.target == CREDIT) - (self.source == CREDIT))


@dataclass(frozen=True, slots=True)
class Sought:
    """Which moves are asked for: of one kind, of one order, from the one moment to before the other."""

    kind: str | None = None
    order_id: int | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def has_gaps(self) -> bool:
        """Whether what is found leaves out moves in between, so that no credit follows from them."""
        return self.kind is not None or self.order_id is not None


EVERYTHING = Sought()

_COLUMNS = [
    ledger_moves.c[name]
    for name in ("id", "sub_account_id", "order_id", "kind", "source", "target", "cents", "key", "at", "note")
]
_CHANGE = sa.case(
    (ledger_moves.c.target == CREDIT, ledger_moves.c.cents),
    (ledger_moves.c.source == CREDIT, -ledger_moves.c.cents),
    else_=0,
)
_place = sa.tuple_(ledger_moves.c.at, ledger_moves.c.id)
"""Where a move stands among all of them."""
_NEWEST_FIRST = ledger_moves.c.at.desc(), ledger_moves.c.id.desc()


@dataclass(frozen=True, slots=True)
class Sums:
    """In cents: what there is to spend, what is held for orders that are not printed yet, what was paid in
    less what was paid out, and what was spent ever."""

    credit: int
    held: int
    paid: int
    spent: int


def read_sums(tx: Tx, who: Tenant) -> Sums:
    """Every cent that was paid in is credit, held or spent: so nobody has to add up what is held."""
    credit = _sum(tx, account_credit.c.cents, rows_of(account_credit, who))
    spent = _sum(tx, account_spending.c.cents, rows_of(account_spending, who))
    paid = _sum(tx, _CHANGE, [*_own_moves(who), ledger_moves.c.kind.in_(PAID)])
    return Sums(credit=credit, held=paid - credit - spent, paid=paid, spent=spent)


def spent_by_month(tx: Tx, who: Tenant, *, since: date) -> Mapping[date, int]:
    """Of each month from then on in which anything was spent, the newest first."""
    month = account_spending.c.month
    rows = tx.execute(
        sa.select(month, sa.func.sum(account_spending.c.cents))
        .where(*rows_of(account_spending, who), month >= since)
        .group_by(month)
        .order_by(month.desc())
    )
    return {row[0]: int(row[1]) for row in rows}


def spent_by_sub_account(
    tx: Tx, who: Tenant, *, since: date, among: Sequence[int] | None = None
) -> Mapping[int, int]:
    """From that month on, by the sub account, the one that spent most first; 0 is for none of them."""
    whose, spent = account_spending.c.sub_account_id, sa.func.sum(account_spending.c.cents)
    wanted = [*rows_of(account_spending, who), account_spending.c.month >= since]
    if among is not None:
        wanted.append(whose.in_(among))
    rows = tx.execute(sa.select(whose, spent).where(*wanted).group_by(whose).order_by(spent.desc(), whose))
    return {row[0]: int(row[1]) for row in rows if row[1]}


def read_moves(tx: Tx, who: Tenant, sought: Sought, *, before: int | None = None, most: int) -> list[Move]:
    """The newest first; `before` is the id of the last one that was seen. One that is not theirs
    is as good as none."""
    wanted = _wanted(who, sought)
    last = _moment_of(tx, who, before)
    if last is not None:
        wanted.append(_place < sa.tuple_(sa.literal(last), sa.literal(before)))
    rows = tx.execute(sa.select(*_COLUMNS).where(*wanted).order_by(*_NEWEST_FIRST).limit(most))
    return [Move(*row) for row in rows]


def credit_after(tx: Tx, who: Tenant, move: Move, *, credit: int) -> int | None:
    """What there was after this move, if there is so much `credit` now; None where that is too long ago to be
    added up at once."""
    later = _place > sa.tuple_(sa.literal(move.at), sa.literal(move.id))
    newer = sa.select(_CHANGE.label("change")).where(*_own_moves(who), later)
    # Sorted, so that the index is walked: without that, it may be the whole table.
    some = newer.order_by(*_NEWEST_FIRST).limit(MOST_ADDED_UP + 1).subquery()
    found = tx.execute(sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(some.c.change), 0))).one()
    return None if found[0] > MOST_ADDED_UP else credit - int(found[1])


def with_credit(moves: Sequence[Move], after_first: int | None) -> Iterator[tuple[Move, int | None]]:
    """Each of these, the newest first, with what there was after it."""
    after = after_first
    for move in moves:
        yield move, after
        if after is not None:
            after -= move.change


def _moment_of(tx: Tx, who: Tenant, move_id: int | None) -> datetime | None:
    if move_id is None:
        return None
    return tx.execute(
        sa.select(ledger_moves.c.at).where(*_own_moves(who), ledger_moves.c.id == move_id)
    ).scalar()


def _own_moves(who: Tenant) -> list[sa.ColumnElement[bool]]:
    """What the policy says of them, in words that an index can follow in its own order."""
    own = [ledger_moves.c.account_id == who.account_id]
    if who.mode is not None:
        own.append(ledger_moves.c.mode == who.mode)
    if who.sub_account_id is not None:
        own.append(ledger_moves.c.sub_account_id == who.sub_account_id)
    return own


def _wanted(who: Tenant, sought: Sought) -> list[sa.ColumnElement[bool]]:
    wanted = _own_moves(who)
    if sought.kind is not None:
        wanted.append(ledger_moves.c.kind == sought.kind)
    if sought.order_id is not None:
        wanted.append(ledger_moves.c.order_id == sought.order_id)
    if sought.since is not None:
        wanted.append(ledger_moves.c.at >= sought.since)
    if sought.until is not None:
        wanted.append(ledger_moves.c.at < sought.until)
    return wanted


def _sum(tx: Tx, what: sa.ColumnElement[Any], wanted: Sequence[sa.ColumnElement[bool]]) -> int:
    return int(tx.execute(sa.select(sa.func.coalesce(sa.func.sum(what), 0)).where(*wanted)).scalar_one())
