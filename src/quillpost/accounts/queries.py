"""SQL that reads accounts: usage, credit, profile; and inserts tokens."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.core import tokens as token_format
from quillpost.core.database import Tx, read_row
from quillpost.core.database.engine import account_wide_access
from quillpost.core.database.tables.accounts import memberships
from quillpost.core.database.tables.base import accounts, tokens
from quillpost.core.database.tables.notifications import automations
from quillpost.core.database.tables.orders import account_credit, account_spending, order_counts
from quillpost.core.errors import Refused
from quillpost.core.paging import Page, PageRequest, read_page


@dataclass(frozen=True, slots=True)
class AccountSummary:
    """An account, with its people; orders and credit in one mode, and spending since the month began."""

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


def list_accounts(
    tx: Tx, page_request: PageRequest, *, mode: str, month: date, search: str = ""
) -> Page[AccountSummary]:
    """The newest first; `search` matches name, company or e-mail."""
    conditions = [_matches_search(search)] if search else []
    total = int(tx.execute(sa.select(sa.func.count()).select_from(accounts).where(*conditions)).scalar_one())
    rows = read_page(tx, accounts, conditions, page_request, total=total)
    return Page(_build_summaries(tx, rows, mode=mode, month=month), total, page_request)


def find_account_summary(tx: Tx, account_id: int, *, mode: str, month: date) -> AccountSummary:
    row = read_row(tx, sa.select(accounts).where(accounts.c.id == account_id))
    return _build_summaries(tx, [row], mode=mode, month=month)[0]


def _matches_search(search: str) -> sa.ColumnElement[bool]:
    columns = accounts.c.email, accounts.c.name, accounts.c.company
    return sa.or_(*(column.icontains(search, autoescape=True) for column in columns))


def _build_summaries(tx: Tx, rows: list[sa.Row[Any]], *, mode: str, month: date) -> list[AccountSummary]:
    ids = [row.id for row in rows]

    def sum_by_account(
        amount: sa.ColumnElement[Any], table: sa.Table, *conditions: sa.ColumnElement[bool]
    ) -> dict[int, int]:
        totals = sa.select(table.c.account_id, amount).where(table.c.account_id.in_(ids), *conditions)
        return {account_id: int(total) for account_id, total in tx.execute(totals.group_by(table.c.account_id))}

    people = sum_by_account(sa.func.count(), memberships)
    orders = sum_by_account(sa.func.sum(order_counts.c.n), order_counts, order_counts.c.mode == mode)
    credit = sum_by_account(sa.func.sum(account_credit.c.cents), account_credit, account_credit.c.mode == mode)
    spending = account_spending.c
    spent = sum_by_account(
        sa.func.sum(spending.cents), account_spending, spending.mode == mode, spending.month == month
    )
    return [
        AccountSummary(
            *(row.id, row.name, row.email, row.company, row.is_operator, row.test_mode, row.created_at),
            *(counts.get(row.id, 0) for counts in (people, orders, credit, spent)),
        )
        for row in rows
    ]


# Both in the caller's mode, and for a caller who is limited to a sub account over that one's rows only.
SELECT_BALANCE = sa.text(
    """
    select (select coalesce(sum(cents), 0)::bigint from account_credit
             where account_id = :account and mode = :mode) as credit,
           (select coalesce(sum(cents), 0)::bigint from account_spending
             where account_id = :account and mode = :mode and month >= :month) as spent
    """
)
SELECT_USAGE = sa.text(
    """
    select count(*) as orders,
           coalesce(sum(case when audience_pending then total_estimated_recipients
                             else recipient_count - n_failed + n_lost end), 0) as pieces
      from orders
     where account_id = :account and mode = :mode and created_at >= :month and status <> 'cancelled'
    """
)


@dataclass(frozen=True, slots=True)
class AccountUsage:
    """Money in cents. Orders are those since the `month` began and not canceled; `spent` is captured less refunded."""

    id: int
    name: str
    email: str
    company: str | None
    credit: int
    month: datetime
    orders: int
    pieces: int
    spent: int


def read_account_usage(tx: Tx, caller: Caller, *, now: datetime) -> AccountUsage:
    month = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    account = tx.execute(sa.select(accounts).where(accounts.c.id == caller.account_id)).one()
    params = {"account": caller.account_id, "mode": caller.mode, "month": month}
    balance = tx.execute(SELECT_BALANCE, params | {"month": month.date()}).one()
    usage = tx.execute(SELECT_USAGE, params).one()
    return AccountUsage(
        account.id, account.name, account.email, account.company, balance.credit, month, usage.orders, usage.pieces,
        balance.spent,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AccountProfile:
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
        """Whether it is complete, as live mail requires."""
        return all((self.return_address, self.return_city, self.return_state, self.return_postal_code))


_COLUMNS = [accounts.c[field.name] for field in fields(AccountProfile)]


def read_account_profile(tx: Tx, account_id: int) -> AccountProfile:
    return AccountProfile(*tx.execute(sa.select(*_COLUMNS).where(accounts.c.id == account_id)).one())


def refuse_if_used_by_automation(tx: Tx, *conditions: sa.ColumnElement[bool], kind: str) -> None:
    """`Refused` while an enabled automation of the account matches, in either mode and of any sub account. Automations
    belong to a higher package; this is what those below need to know of them."""
    with account_wide_access(tx):
        automation = tx.execute(
            sa.select(automations.c.id, automations.c.name)
            .where(automations.c.enabled, *conditions)
            .order_by(automations.c.id)
            .limit(1)
        ).first()
    if automation is not None:
        raise Refused(f'Automation {automation.id} ("{automation.name}") uses this {kind}: switch it off first.')


TOKEN_BYTES = 24


def insert_token(
    tx: Tx,
    account_id: int,
    *,
    name: str,
    mode: str,
    scopes: Iterable[str] | None = None,
    sub_account_id: int | None = None,
    person_id: int | None = None,
    grant_id: int | None = None,
    session_id: int | None = None,
    expires_at: datetime | None = None,
    now: datetime,
) -> tuple[int, str]:
    """A new token's id and the token, readable here only. The caller has validated everything."""
    token = token_format.mint_secret("live" if mode == "live" else "test", secrets.token_bytes(TOKEN_BYTES))
    result = tx.execute(
        sa.insert(tokens)
        .values(
            account_id=account_id,
            sub_account_id=sub_account_id,
            name=name,
            mode=mode,
            digest=token_format.hash_token(token),
            hint=token_format.secret_hint(token),
            scopes=None if scopes is None else list(scopes),
            person_id=person_id,
            grant_id=grant_id,
            session_id=session_id,
            created_at=now,
            expires_at=expires_at,
        )
        .returning(tokens.c.id)
    )
    return int(result.scalar_one()), token
