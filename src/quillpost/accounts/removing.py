"""Removing a sub account: not while it is needed, and never its history."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from quillpost.accounts.automated import refuse_while_automated
from quillpost.accounts.connections import end_of_sub_account
from quillpost.accounts.sub_accounts import SubAccount, lock_sub_account
from quillpost.database import Tx
from quillpost.database.event_tables import automations, webhooks
from quillpost.database.people_tables import invitations, memberships
from quillpost.database.tables import (
    HELD_BACK,
    files,
    image_templates,
    ledger_moves,
    mailing_lists,
    message_templates,
    orders,
    stored_sends,
    sub_accounts,
    tokens,
)
from quillpost.kit.errors import Refused

MOST_NAMED = 5

BELONGINGS: dict[str, tuple[sa.Table, Sequence[sa.ColumnElement[bool]]]] = {
    # What the service itself keeps there goes with the sub account.
    "mailing list": (mailing_lists, [mailing_lists.c.kept_for.is_(None)]),
    "image template": (image_templates, []),
    "message template": (message_templates, []),
}
HISTORY = (orders, files, ledger_moves)


def remove_sub_account(tx: Tx, sub_account_id: int, *, now: datetime) -> SubAccount:
    """From here on it is unknown; what it was. The transaction must see both modes: what is live holds for a
    test token.

    Locked first, so that whoever is about to use it is either counted here or finds it gone.
    """
    gone = lock_sub_account(tx, sub_account_id, for_removal=True)
    _refuse_while_orders_wait(tx, sub_account_id)
    _refuse_while_it_owns_something(tx, sub_account_id)
    refuse_while_automated(tx, automations.c.sub_account_id == sub_account_id, what="sub account")
    if _has_history(tx, sub_account_id):
        _retire(tx, sub_account_id, now=now)
    else:
        tx.execute(sa.delete(sub_accounts).where(sub_accounts.c.id == sub_account_id))
    return gone


def _refuse_while_orders_wait(tx: Tx, sub_account_id: int) -> None:
    waiting = list(
        tx.execute(
            sa.select(orders.c.id)
            .where(orders.c.sub_account_id == sub_account_id, orders.c.status.in_(HELD_BACK))
            .order_by(orders.c.id)
            .limit(MOST_NAMED + 1)
        ).scalars()
    )
    if waiting:
        named = ["others" if place == MOST_NAMED else str(order) for place, order in enumerate(waiting)]
        what = f"Orders {_listed(named)} are" if len(named) > 1 else f"Order {named[0]} is"
        raise Refused(f"{what} still held back for this sub account: cancel first, or wait.")


def _refuse_while_it_owns_something(tx: Tx, sub_account_id: int) -> None:
    counts = tx.execute(
        sa.select(
            *(
                sa.select(sa.func.count())
                .where(table.c.sub_account_id == sub_account_id, *own)
                .scalar_subquery()
                for table, own in BELONGINGS.values()
            )
        )
    ).one()
    left = [f"{n} {what}{'' if n == 1 else 's'}" for what, n in zip(BELONGINGS, counts, strict=True) if n]
    if left:
        raise Refused(f"This sub account still has {_listed(left)}: delete or move them first.")


def _has_history(tx: Tx, sub_account_id: int) -> bool:
    kept = (sa.exists().where(table.c.sub_account_id == sub_account_id) for table in HISTORY)
    return bool(tx.execute(sa.select(sa.or_(*kept))).scalar_one())


def _retire(tx: Tx, sub_account_id: int, *, now: datetime) -> None:
    """The row stays for what it mailed; whatever could still act for it goes."""
    tx.execute(sa.update(sub_accounts).where(sub_accounts.c.id == sub_account_id).values(deleted_at=now))
    end_of_sub_account(tx, sub_account_id, now=now)  # before tokens, as everywhere
    tx.execute(
        sa.update(tokens)
        .where(tokens.c.sub_account_id == sub_account_id, tokens.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )
    for table in (webhooks, automations, mailing_lists, memberships, invitations):
        tx.execute(sa.delete(table).where(table.c.sub_account_id == sub_account_id))
    tx.execute(
        sa.delete(stored_sends).where(
            stored_sends.c.sub_account_id == sub_account_id, stored_sends.c.sent_at.is_(None)
        )
    )


def _listed(things: list[str]) -> str:
    *first, last = things
    return f"{', '.join(first)} and {last}" if first else last
