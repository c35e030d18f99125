"""Credit, holds and payments; and the price list.

Each row of the ledger moves cents from one book to another, so the books balance by construction:
credit -> held (authorise), held -> earned (capture), held -> credit (release), earned -> credit (refund),
credit -> earned (capture, for records bought onto a list), held -> gifts (issue), gifts -> credit (return),
paid -> credit (deposit), credit -> paid (withdrawal).
Moves for single items and gift cards are written by the statements that change those. A price holds for whole
days in UTC; a new one begins tomorrow at the earliest, and can be withdrawn until then.
"""

import csv
from dataclasses import asdict
from datetime import date, datetime
from importlib.resources import files

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.billing.queries import find_future_price, read_price_list
from quillpost.accounts.billing.rules import (
    CREDIT,
    EARNED,
    HELD,
    PriceChange,
    UnitPrice,
    describe_price,
    find_fallback_cents,
    format_dollars,
    validate_price,
)
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import ledger_moves, prices
from quillpost.core.database.tables.orders import account_credit
from quillpost.core.errors import Conflict, Invalid, Refused, Unpaid

ORDER_NOT_COVERED = "The account's credit of {} does not cover this order of {}: add credit, or send to fewer people."
CHANGE_NOT_COVERED = (
    "The account's credit of {} does not cover the {} that this change adds: add credit, or leave the order as it is."
)
GROWTH_NOT_COVERED = (
    "Its lists have grown since it was sent, and the account's credit of {} does not cover the {} that this adds: "
    "add credit, or cancel the order."
)

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
    if cents > 0:
        owner = {"account_id": account_id, "sub_account_id": sub_account_id, "mode": mode, "order_id": order_id}
        transfer = {"kind": "authorise", "source": CREDIT, "target": HELD, "cents": cents}
        tx.execute(sa.insert(ledger_moves).values(**owner, **transfer, key=f"authorise:order:{order_id}", at=now))


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
    """Charge for bought records: from what is held for their order, or from credit."""
    if cents > 0:
        owner = {"account_id": account_id, "sub_account_id": sub_account_id, "mode": mode, "order_id": order_id}
        source = CREDIT if order_id is None else HELD
        transfer = {"kind": "capture", "source": source, "target": EARNED, "cents": cents}
        tx.execute(sa.insert(ledger_moves).values(**owner, **transfer, key=f"capture:leads:{purchase_id}", at=now))


def release_order_hold(tx: Tx, order_id: int, *, now: datetime) -> None:
    """Release all that is still held for the order."""
    tx.execute(RELEASE_ORDER_HOLD, {"order_id": order_id, "now": now})


def read_held_cents(tx: Tx, order_id: int) -> int:
    return int(tx.execute(READ_HELD, {"order_id": order_id}).scalar_one())


def set_order_hold(tx: Tx, order_id: int, *, cents: int, reason: str, now: datetime) -> None:
    """Release what is held beyond the cents, or hold what is missing; once per `reason`."""
    tx.execute(SET_HOLD, {"order_id": order_id, "cents": cents, "why": reason, "now": now})


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
    """The credit of the whole account of this transaction."""
    return int(tx.execute(READ_CREDIT, {"mode": mode}).scalar_one())


def read_account_credit(tx: Tx, account_id: int, mode: str) -> int:
    """The credit of an account, in a system transaction."""
    query = sa.select(sa.func.coalesce(sa.func.sum(account_credit.c.cents), 0)).where(
        account_credit.c.account_id == account_id, account_credit.c.mode == mode
    )
    return int(tx.execute(query).scalar_one())


def lock_credit(tx: Tx, account_id: int, mode: str) -> None:
    """Wait until no other transaction spends this account's credit."""
    tx.execute(LOCK_CREDIT, {"lock": f"credit:{account_id}:{mode}"})


def require_credit(tx: Tx, account_id: int, mode: str, *, cents: int, sentence: str = ORDER_NOT_COVERED) -> None:
    """`Unpaid` unless the credit covers the cents, which are then this transaction's to spend. `sentence` has room for
    the credit and for the cents."""
    if cents <= 0:
        return
    lock_credit(tx, account_id, mode)
    available = read_credit(tx, mode)
    if available < cents:
        raise Unpaid(format_insufficient_credit(available, cents, sentence))


def format_insufficient_credit(available: int, cents: int, sentence: str = ORDER_NOT_COVERED) -> str:
    return sentence.format(format_dollars(available), format_dollars(cents))


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
    """Add to the live credit, once per key; the credit then."""
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
    """Take from the live credit, never more than it has; the credit then."""
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
    """Whether this call moved the money. `Conflict` under a key that moved other money."""
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


LOCK_PRICE_LIST = sa.text("select pg_advisory_xact_lock(hashtextextended('price list', 0))")


def preview_price(tx: Tx, price: UnitPrice, *, on: date) -> PriceChange:
    """What this price would change, or `Invalid` by field."""
    histories = read_price_list(tx, on=on)
    validate_price(price, [priced.kind for priced in histories], on=on)
    existing = next((priced for priced in histories if priced.kind == price.key), None)
    dated_prices = (
        []
        if existing is None
        else [*existing.past, *([existing.now] if existing.now else []), *(coming for _, coming in existing.coming)]
    )
    if any(other.valid_from == price.valid_from for other in dated_prices):
        message = "There is a price from that day on already. Take it back first, or choose another day."
        raise Invalid({"valid_from": [message]})
    earlier_prices = [other for other in dated_prices if other.valid_from < price.valid_from]
    later_days = [other.valid_from for other in dated_prices if other.valid_from > price.valid_from]
    previous = max(earlier_prices, key=lambda other: other.valid_from, default=None)
    previous_cents = find_fallback_cents(histories, price) if previous is None else previous.unit_cents
    return PriceChange(price, previous_cents, min(later_days, default=None))


def add_price(tx: Tx, account_id: int, price: UnitPrice, actor: audit_service.Actor, *, now: datetime) -> PriceChange:
    """Takes the system transaction; the entry goes to the audit log of `account_id`."""
    tx.execute(LOCK_PRICE_LIST)
    change = preview_price(tx, price, on=now.date())
    tx.execute(sa.insert(prices).values(**asdict(price)))
    audit_service.record_audit_entry(tx, account_id, "price.added", actor, about=describe_price(price), now=now)
    return change


def withdraw_price(tx: Tx, account_id: int, price_id: int, actor: audit_service.Actor, *, now: datetime) -> UnitPrice:
    """Remove a price before it is in force."""
    tx.execute(LOCK_PRICE_LIST)
    price = find_future_price(tx, price_id, on=now.date())
    tx.execute(sa.delete(prices).where(prices.c.id == price_id))
    audit_service.record_audit_entry(tx, account_id, "price.withdrawn", actor, about=describe_price(price), now=now)
    return price


def load_default_prices(tx: Tx) -> None:
    """Insert the shipped price list; rows of an operator win."""
    source = files("quillpost.accounts.billing").joinpath("prices.csv").read_text()
    rows = list(csv.DictReader(source.splitlines()))
    tx.execute(insert(prices).on_conflict_do_nothing(), rows)
