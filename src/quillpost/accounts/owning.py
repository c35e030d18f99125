"""Whether whoever decides for an account is still one of its owners."""

import sqlalchemy as sa

from quillpost.accounts.audit import Actor
from quillpost.database import Tx
from quillpost.database.people_tables import memberships
from quillpost.database.tables import accounts
from quillpost.kit.errors import Forbidden

NO_OWNER = "Only an owner of this account may do this. Ask one of them."


def hold_account(tx: Tx, account_id: int) -> None:
    """Nobody else who does so goes on before this transaction ends: two at once do not both find the last
    place free."""
    tx.execute(sa.select(accounts.c.id).where(accounts.c.id == account_id).with_for_update(key_share=True))


def require_owner(tx: Tx, account_id: int, actor: Actor) -> None:
    """`Forbidden` unless they are. They stay one until this transaction ends: whoever takes that from them
    meanwhile comes after it, and finds what was made here. Whoever has the account's row in hand (whoever
    changes its people does) takes that first. The command line, which is nobody, may do everything. Takes the
    account's transaction or the worker's."""
    if actor.person_id is None:
        return
    m = memberships.c
    place = sa.select(m.id).where(
        m.account_id == account_id, m.person_id == actor.person_id, m.role == "owner"
    )
    if tx.execute(place.with_for_update(read=True)).first() is None:
        raise Forbidden(NO_OWNER)
