"""Money: each row moves cents from one book to another, so the books balance by construction.

credit -> held (authorise), held -> earned (capture), held -> credit (release), earned -> credit (refund),
credit -> earned (capture, where records are bought onto a list),
held -> gifts (issue, where a card is issued), gifts -> credit (return, where that becomes void),
and from and to the world outside: paid -> credit (deposit), credit -> paid (withdrawal).
Captures, releases and refunds of single pieces are written by the statement that moves the pieces; what is
held for a card that was not issued yet is released with its piece. Issues and returns are written by the
statements that keep a card and that make it void: an order's gifts are what its good cards hold.
"""

from datetime import datetime

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.tables.base import ledger_moves

CREDIT, HELD, EARNED = "credit", "held", "earned"

_HELD_QUERY = """
    select coalesce(sum(case when m.target = 'held' then m.cents else -m.cents end), 0) as cents
      from ledger_moves m where m.order_id = o.id and 'held' in (m.source, m.target)
"""

RELEASE_ORDER_HOLD = sa.text(
    f"""
    insert into ledger_moves (account_id, sub_account_id, mode, order_id, kind,
                              source, target, cents, key, at)
    select o.account_id, o.sub_account_id, o.mode, o.id, 'release', 'held', 'credit', held.cents,
           'release:order:' || o.id, :now
      from orders o
      join lateral ({_HELD_QUERY}) held on true
     where o.id = :order_id and held.cents > 0
    """
)

READ_HELD = sa.text(f"select held.cents from (select :order_id as id) o join lateral ({_HELD_QUERY}) held on true")

SET_HOLD = sa.text(
    f"""
    insert into ledger_moves (account_id, sub_account_id, mode, order_id, kind,
                              source, target, cents, key, at)
    select o.account_id, o.sub_account_id, o.mode, o.id, change.kind,
           case change.kind when 'release' then 'held' else 'credit' end,
           case change.kind when 'release' then 'credit' else 'held' end,
           abs(:cents - held.cents), change.kind || ':order:' || o.id || ':' || :why, :now
      from orders o
      join lateral ({_HELD_QUERY}) held on true
      join lateral (
            select case when held.cents > :cents then 'release' else 'authorise' end as kind) change on true
     where o.id = :order_id and held.cents <> :cents
    """
)


def authorize_order(
    tx: Tx, *, account_id: int, sub_account_id: int | None, mode: str, order_id: int, cents: int, now: datetime
) -> None:
    """Hold what the order may cost."""
    owner = {"account_id": account_id, "sub_account_id": sub_account_id, "mode": mode, "order_id": order_id}
    transfer = {"kind": "authorise", "source": CREDIT, "target": HELD}
    _insert_move(tx, **owner, **transfer, cents=cents, key=f"authorise:order:{order_id}", at=now)


def charge_leads(
    tx: Tx,
    *,
    account_id: int,
    sub_account_id: int | None,
    mode: str,
    purchase_id: int,
    cents: int,
    order_id: int | None = None,
    now: datetime,
) -> None:
    """Earn what records cost: out of what is held for the order that they were bought with, or of credit."""
    owner = {"account_id": account_id, "sub_account_id": sub_account_id, "mode": mode, "order_id": order_id}
    transfer = {"kind": "capture", "source": CREDIT if order_id is None else HELD, "target": EARNED}
    _insert_move(tx, **owner, **transfer, cents=cents, key=f"capture:leads:{purchase_id}", at=now)


def _insert_move(tx: Tx, *, cents: int, **entry: object) -> None:
    if cents > 0:
        tx.execute(sa.insert(ledger_moves).values(cents=cents, **entry))


def release_order_hold(tx: Tx, order_id: int, *, now: datetime) -> None:
    """Give back all that is still held for the order."""
    tx.execute(RELEASE_ORDER_HOLD, {"order_id": order_id, "now": now})


def read_held_cents(tx: Tx, order_id: int) -> int:
    """What is held for the order now."""
    return int(tx.execute(READ_HELD, {"order_id": order_id}).scalar_one())


def set_order_hold(tx: Tx, order_id: int, *, cents: int, reason: str, now: datetime) -> None:
    """Give back what is held for the order beyond the cents, or hold what is missing; `reason`, once."""
    tx.execute(SET_HOLD, {"order_id": order_id, "cents": cents, "why": reason, "now": now})
