"""How an account stands: its credit, and what it has used this month."""

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from quillpost.accounts.rules import Caller
from quillpost.database import Tx
from quillpost.database.tables import accounts

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
