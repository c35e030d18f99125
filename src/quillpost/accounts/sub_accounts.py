"""Sub accounts: creating, changing and removing them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.automation_locks import refuse_while_automated
from quillpost.accounts.models import Caller
from quillpost.accounts.oauth.apps import end_of_sub_account
from quillpost.core.database import Tx
from quillpost.core.database.search import has_words
from quillpost.core.database.tables.base import (
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
from quillpost.core.database.tables.notifications import automations, webhooks
from quillpost.core.database.tables.users import invitations, memberships
from quillpost.core.errors import Forbidden, NotFound, Refused
from quillpost.core.paging import Page, PageRequest

MOST = 10_000
"""Sub accounts of one account: their list is answered whole."""

BACKGROUNDS = (
    "message_background_url",
    "postcard6x9_background_url",
    "notecard_background_url",
    "windowedletter_background_url",
    "windowlessletter_background_url",
)


@dataclass(frozen=True, slots=True)
class SubAccount:
    """`branding` and `backgrounds` hold what is set, by the interface's own names."""

    id: int
    account_id: int
    title: str
    return_name: str | None
    return_address: str | None
    return_address2: str | None
    return_city: str | None
    return_state: str | None
    return_postal_code: str | None
    branding: Mapping[str, Any]
    backgrounds: Mapping[str, str]
    created_at: datetime
    updated_at: datetime


_COLUMNS = [sub_accounts.c[field.name] for field in fields(SubAccount)]

_SEARCHED = [each for each in _COLUMNS if each.name == "title" or each.name.startswith("return_")]

# One that has gone and kept its history is unknown from then on.
_IS_THERE = sub_accounts.c.deleted_at.is_(None)


def read_sub_account(tx: Tx, sub_account_id: int | None) -> SubAccount | None:
    """The caller's own sub account, if there is such a one."""
    if sub_account_id is None:
        return None
    row = tx.execute(sa.select(*_COLUMNS).where(sub_accounts.c.id == sub_account_id, _IS_THERE)).first()
    return None if row is None else SubAccount(*row)


def find_sub_account(tx: Tx, sub_account_id: int) -> SubAccount:
    """The same where it has to be there."""
    found = read_sub_account(tx, sub_account_id)
    if found is None:
        raise NotFound
    return found


def require_sub_account(tx: Tx, sub_account_id: int) -> None:
    """Raise unless it is one of the caller's own: unknown and another's answer alike.

    It stays until this transaction ends: what is written for it finds it there.
    """
    if not lock_place(tx, sub_account_id):
        raise Refused("Sub Account ID does not exist")


def lock_place(tx: Tx, sub_account_id: int | None, *, account_id: int | None = None) -> bool:
    """Whether the sub account is there, where there is one; it stays until this transaction ends."""
    if sub_account_id is None:
        return True
    found = sa.select(sub_accounts.c.id).where(sub_accounts.c.id == sub_account_id, _IS_THERE)
    if account_id is not None:
        found = found.where(sub_accounts.c.account_id == account_id)
    return tx.execute(found.with_for_update(read=True, key_share=True)).first() is not None


def list_sub_accounts(tx: Tx, *, search: str | None = None) -> Sequence[SubAccount]:
    """All that the caller may see, the oldest first; `search`, those that have these words in their title,
    their return address, or the name, company and e-mail of their branding."""
    branding = (sub_accounts.c.branding[name].astext for name in ("name", "company", "email"))
    wanted = [has_words(search, *_SEARCHED, *branding)] if search else []
    rows = tx.execute(sa.select(*_COLUMNS).where(_IS_THERE, *wanted).order_by(sub_accounts.c.id))
    return [SubAccount(*row) for row in rows]


def page_of_sub_accounts(tx: Tx, asked: PageRequest, *, named: str = "") -> Page[SubAccount]:
    """The same page by page, by their titles; `named`, those alone with this in it."""
    wanted = [_IS_THERE, *([sub_accounts.c.title.icontains(named, autoescape=True)] if named else [])]
    by_title = sa.func.lower(sub_accounts.c.title), sub_accounts.c.id
    rows = tx.execute(
        sa.select(*_COLUMNS).where(*wanted).order_by(*by_title).limit(asked.per_page).offset(asked.offset)
    )
    total = tx.execute(sa.select(sa.func.count()).select_from(sub_accounts).where(*wanted)).scalar_one()
    return Page([SubAccount(*row) for row in rows], total, asked)


def titles_of(branches: Sequence[SubAccount]) -> Mapping[int, str]:
    """How each is called where people choose: by its title and, where others have the same, its number."""
    often = Counter(each.title for each in branches)
    return {
        each.id: each.title if often[each.title] == 1 else f"{each.title} ({each.id})" for each in branches
    }


def create_sub_account(tx: Tx, who: Caller, columns: Mapping[str, Any], *, now: datetime) -> SubAccount:
    if who.sub_account_id is not None:
        raise Forbidden("This token is limited to one sub account: it cannot make others.")
    if tx.execute(sa.select(sa.func.count()).select_from(sub_accounts).where(_IS_THERE)).scalar_one() >= MOST:
        raise Refused(f"An account has at most {MOST:,} sub accounts.")
    made = tx.execute(
        sa.insert(sub_accounts)
        .values(
            account_id=who.account_id,
            **{"branding": {}, "backgrounds": {}, **columns},
            created_at=now,
            updated_at=now,
        )
        .returning(*_COLUMNS)
    ).one()
    return SubAccount(*made)


def lock_sub_account(tx: Tx, sub_account_id: int, *, for_removal: bool = False) -> SubAccount:
    """The sub account, which nobody else changes before this transaction ends, nor, `for_removal`, uses."""
    row = tx.execute(
        sa.select(*_COLUMNS)
        .where(sub_accounts.c.id == sub_account_id, _IS_THERE)
        .with_for_update(key_share=not for_removal)
    ).first()
    if row is None:
        raise NotFound
    return SubAccount(*row)


def change_sub_account(
    tx: Tx, sub_account_id: int, columns: Mapping[str, Any], *, now: datetime
) -> SubAccount:
    """Write over what is named; the rest stays."""
    changed = tx.execute(
        sa.update(sub_accounts)
        .where(sub_accounts.c.id == sub_account_id)
        .values(**columns, updated_at=now)
        .returning(*_COLUMNS)
    ).one()
    return SubAccount(*changed)


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
