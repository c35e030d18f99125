"""Orders that are held, as operators look at them before they decide."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.database.paging import OLDEST_FIRST, page_ids
from quillpost.database.tables import accounts, facts, orders
from quillpost.kit.paging import Page, PageRequest
from quillpost.orders.records import Order

# In the statement itself, for the index of paused orders is followed where the status is known beforehand.
PAUSED: sa.ColumnElement[str] = sa.literal_column("'paused'", sa.Text())

# An order's facts are many, its pause is among the last.
PAUSED_AT = (
    sa.select(facts.c.at)
    .where(facts.c.order_id == orders.c.id, facts.c.item_id.is_(None), facts.c.current == PAUSED)
    .order_by(facts.c.id.desc())
    .limit(1)
    .scalar_subquery()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOrder:
    """A paused order, whose it is, since when it waits and for what."""

    id: int
    account_id: int
    account_email: str
    sub_account_id: int | None
    type: str
    recipient_count: int
    pieces: int
    grand_total: int
    created_at: datetime
    paused_at: datetime
    reasons: list[str]

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        order = Order.of(row)
        return cls(
            id=order.id,
            account_id=order.account_id,
            account_email=row.account_email,
            sub_account_id=order.sub_account_id,
            type=order.type,
            recipient_count=order.recipient_count,
            pieces=order.pieces,
            grand_total=order.grand_total,
            created_at=order.created_at,
            paused_at=row.paused_at,
            # Before reasons had a place of their own they were among the warnings.
            reasons=order.hold_reasons or order.warnings,
        )


def list_held(tx: Tx, mode: str, asked: PageRequest) -> Page[HeldOrder]:
    """Every account's, oldest first."""
    held = orders.c.mode == mode, orders.c.status == PAUSED
    total = int(tx.execute(sa.select(sa.func.count()).select_from(orders).where(*held)).scalar_one())
    if asked.offset >= total:
        return Page([], total, asked)
    found = page_ids(orders, held, asked, total=total, sorting=OLDEST_FIRST).subquery()
    rows = tx.execute(
        sa.select(orders, accounts.c.email.label("account_email"), PAUSED_AT.label("paused_at"))
        .join(found, found.c.id == orders.c.id)
        .join(accounts, accounts.c.id == orders.c.account_id)
        .order_by(orders.c.id)
    )
    return Page([HeldOrder.of(row) for row in rows], total, asked)
