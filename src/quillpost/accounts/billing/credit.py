"""What an account has, and whether that covers what it wants; money that comes in and goes out.

Where credit is controlled, whoever wants more of an account's money takes turns with the others who do, until
the end of the transaction: of two that want the last dollar one gets it.
"""

from datetime import datetime

import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.billing.rules import format_dollars
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import ledger_moves
from quillpost.core.database.tables.orders import account_credit
from quillpost.core.errors import Conflict, Refused, Unpaid

LOCK_CREDIT = sa.text("select pg_advisory_xact_lock(hashtextextended(:lock, 0))")

READ_CREDIT = sa.text("select credit_of_account(:mode)")

INSERT_PAYMENT = sa.text(
    """
    insert into ledger_moves (account_id, mode, kind, source, target, cents, key, note, at)
    values (:account_id, :mode, :kind, :source, :target, :cents, :key, :note, :now)
    on conflict (key) do nothing
    """
)


def read_credit(tx: Tx, mode: str) -> int:
    """What the whole account of this transaction has, whoever of it asks."""
    return int(tx.execute(READ_CREDIT, {"mode": mode}).scalar_one())


def read_account_credit(tx: Tx, account_id: int, mode: str) -> int:
    """What the account has, asked by the service itself."""
    query = sa.select(sa.func.coalesce(sa.func.sum(account_credit.c.cents), 0)).where(
        account_credit.c.account_id == account_id, account_credit.c.mode == mode
    )
    return int(tx.execute(query).scalar_one())


def lock_credit(tx: Tx, account_id: int, mode: str) -> None:
    """Wait until no other transaction takes of this account's money."""
    tx.execute(LOCK_CREDIT, {"lock": f"credit:{account_id}:{mode}"})


def require_credit(tx: Tx, account_id: int, mode: str, *, cents: int, is_change: bool = False) -> None:
    """`Unpaid` unless the credit covers so many cents; from here on it is this transaction's to take.

    They are what an order costs or, where it `is_change`, what it costs beyond what is held for it already.
    """
    if cents <= 0:
        return
    lock_credit(tx, account_id, mode)
    available = read_credit(tx, mode)
    if available < cents:
        raise Unpaid(
            format_insufficient_credit_for_change(available, cents)
            if is_change
            else format_insufficient_credit(available, cents)
        )


def format_insufficient_credit(available: int, cents: int) -> str:
    """What is said to a sender whose credit does not cover an order."""
    return (
        f"The account's credit of {format_dollars(available)} does not cover this order of {format_dollars(cents)}: "
        "add credit, or send to fewer people."
    )


def format_insufficient_credit_for_change(available: int, cents: int) -> str:
    return (
        f"The account's credit of {format_dollars(available)} does not cover the {format_dollars(cents)} that this "
        "change adds: "
        "add credit, or leave the order as it is."
    )


def format_insufficient_credit_for_growth(available: int, cents: int) -> str:
    """Why an order waits whose lists have grown since it was accepted."""
    return (
        f"Its lists have grown since it was sent, and the account's credit of {format_dollars(available)} does not "
        "cover "
        f"the {format_dollars(cents)} that this adds: add credit, or cancel the order."
    )


def deposit(
    tx: Tx,
    account_id: int,
    *,
    cents: int,
    key: str,
    note: str | None,
    actor: audit_service.Actor = audit_service.COMMAND_LINE_ACTOR,
    now: datetime,
) -> int:
    """Add to the account's live credit; what it has then. The same key twice is one deposit."""
    transfer = "paid", "credit"
    _record_payment(tx, account_id, "deposit", transfer, cents=cents, key=key, note=note, actor=actor, now=now)
    return read_account_credit(tx, account_id, "live")


def withdraw(
    tx: Tx,
    account_id: int,
    *,
    cents: int,
    key: str,
    note: str | None,
    actor: audit_service.Actor = audit_service.COMMAND_LINE_ACTOR,
    now: datetime,
) -> int:
    """Take from the account's live credit, never more than it has; what it has then."""
    lock_credit(tx, account_id, "live")
    available = read_account_credit(tx, account_id, "live")
    transfer = "credit", "paid"
    if _record_payment(tx, account_id, "withdrawal", transfer, cents=cents, key=key, note=note, actor=actor, now=now):
        if available < cents:
            raise Refused(
                f"The account's credit of {format_dollars(available)} does not cover a withdrawal of "
                f"{format_dollars(cents)}."
            )
        available -= cents
    return available


def _record_payment(
    tx: Tx,
    account_id: int,
    kind: str,
    transfer: tuple[str, str],
    *,
    cents: int,
    key: str,
    note: str | None,
    actor: audit_service.Actor,
    now: datetime,
) -> bool:
    """Whether this call moved the money, which commands and operators do; under a key that moved other money
    it is refused."""
    entry = {
        "account_id": account_id, "mode": "live", "kind": kind, "source": transfer[0], "target": transfer[1],
        "cents": cents, "key": f"payment:{account_id}:{key}", "note": note, "now": now,
    }  # fmt: skip
    if tx.execute(INSERT_PAYMENT, entry).rowcount == 1:
        about = {"amount": format_dollars(cents if kind == "deposit" else -cents), "note": note}
        audit_service.record_audit_entry(tx, account_id, "credit.moved", actor, about=about, now=now)
        return True
    existing = tx.execute(sa.select(ledger_moves).where(ledger_moves.c.key == entry["key"])).one()
    if (existing.kind, existing.cents) != (kind, cents):
        raise Conflict(
            f"The key {key} was used for a {existing.kind} of {format_dollars(existing.cents)}: choose another."
        )
    return False
