"""Accounts as operators and owners read them: usage, credit, profile."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import Caller
from quillpost.accounts.service import hold_account, require_owner
from quillpost.core import tokens as token_format
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import accounts, ledger_moves
from quillpost.core.database.tables.counters import account_credit, account_spending, order_counts
from quillpost.core.database.tables.users import memberships
from quillpost.core.errors import Invalid, NotFound
from quillpost.core.paging import Page, PageRequest, read_page


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


# Both in the caller's mode, and for a caller who is limited to a sub account over that one's rows alone.
MONEY = sa.text(
    """
    select (select coalesce(sum(cents), 0)::bigint from account_credit
             where account_id = :account and mode = :mode) as credit,
           (select coalesce(sum(cents), 0)::bigint from account_spending
             where account_id = :account and mode = :mode and month >= :month) as spent
    """
)
USED = sa.text(
    """
    select count(*) as orders,
           coalesce(sum(case when audience_pending then total_estimated_recipients
                             else recipient_count - n_failed + n_lost end), 0) as pieces
      from orders
     where account_id = :account and mode = :mode and created_at >= :month and status <> 'cancelled'
    """
)


@dataclass(frozen=True, slots=True)
class Standing:
    """Money in cents. Orders are those placed since the `month` began and not cancelled, pieces those of them
    that were mailed or will be; `spent` is what was captured since then less what was given back."""

    id: int
    name: str
    email: str
    company: str | None
    credit: int
    month: datetime
    orders: int
    pieces: int
    spent: int


def read_standing(tx: Tx, who: Caller, *, now: datetime) -> Standing:
    month = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    account = tx.execute(sa.select(accounts).where(accounts.c.id == who.account_id)).one()
    whose = {"account": who.account_id, "mode": who.mode, "month": month}
    money = tx.execute(MONEY, whose | {"month": month.date()}).one()
    used = tx.execute(USED, whose).one()
    return Standing(
        id=account.id,
        name=account.name,
        email=account.email,
        company=account.company,
        credit=money.credit,
        month=month,
        orders=used.orders,
        pieces=used.pieces,
        spent=money.spent,
    )


LONGEST = 300
CALLED = {"name": "the name", "company": "the company"}
RETURN_ADDRESS = "the return address"


@dataclass(frozen=True, slots=True)
class AccountFacts:
    name: str
    company: str | None = None
    return_name: str | None = None
    return_address: str | None = None
    return_address2: str | None = None
    return_city: str | None = None
    return_state: str | None = None
    return_postal_code: str | None = None

    @property
    def has_return_address(self) -> bool:
        """Whether it is whole: live mail needs one."""
        return all((self.return_address, self.return_city, self.return_state, self.return_postal_code))


_COLUMNS = [accounts.c[field.name] for field in fields(AccountFacts)]


def read_facts(tx: Tx, account_id: int) -> AccountFacts:
    return AccountFacts(*tx.execute(sa.select(*_COLUMNS).where(accounts.c.id == account_id)).one())


def change_facts(tx: Tx, account_id: int, wanted: AccountFacts, actor: Actor, *, now: datetime) -> None:
    """All of them at once; noted if anything is another. `Invalid` by field; `Forbidden` for a person who is
    no owner. Orders that are placed already keep the sender that they had."""
    hold_account(tx, account_id)
    require_owner(tx, account_id, actor)
    if faults := _faults(wanted):
        raise Invalid(faults)
    before = asdict(read_facts(tx, account_id))
    changed = {name: value for name, value in asdict(wanted).items() if value != before[name]}
    if not changed:
        return
    tx.execute(sa.update(accounts).where(accounts.c.id == account_id).values(**changed, updated_at=now))
    words = list(dict.fromkeys(CALLED.get(name, RETURN_ADDRESS) for name in changed))
    audit_service.note(tx, account_id, "account.changed", actor, about={"changed": words}, now=now)


def _faults(wanted: AccountFacts) -> Mapping[str, list[str]]:
    found = {}
    for name, value in asdict(wanted).items():
        if len(value or "") > LONGEST:
            found[name] = [f"At most {LONGEST} characters, please."]
        elif not (value or "").isprintable():
            found[name] = ["This is one line of plain text."]
        elif token_format.hide_secrets(value or "") != (value or ""):  # it is printed, and shown to others
            found[name] = ["This holds a token: write something else, and revoke that token."]
    if not wanted.name:
        found["name"] = ["Give the account a name: a person's or a company's."]
    return found
