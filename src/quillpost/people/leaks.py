"""Tokens that somebody has found where they do not belong: ended at once, and their owners told."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from quillpost.accounts.personal_tokens import revoke_leaked
from quillpost.database import Tx
from quillpost.database.people_tables import memberships
from quillpost.database.tables import accounts
from quillpost.kit.sealing import Sealer
from quillpost.people.letters import tell_person

SUBJECT = "A token of {account} was found elsewhere and ended"
WORDS = (
    "Somebody reported a token, or a connected app's, of the account {account} as found where others can "
    "read it. It was ended at once: whatever used it is not let in any more.\n\n"
    "The audit log of your account says which one it was. Make another one for the program that needs it, "
    "keep it where nobody else reads it, and look through your latest orders for what you did not send."
)


def end_leaked(tx: Tx, sealer: Sealer, shown: Sequence[str], *, address: str | None, now: datetime) -> int:
    """Whoever can show a token may end it: from the next call on it is unknown, and each owner has a letter,
    one a minute at most. How many accounts it concerned. Takes the worker's transaction."""
    concerned = revoke_leaked(tx, shown, address=address, now=now)
    owners = tx.execute(
        sa.select(memberships.c.person_id, accounts.c.id, accounts.c.name)
        .join(accounts, accounts.c.id == memberships.c.account_id)
        .where(accounts.c.id.in_(concerned), memberships.c.role == "owner")
        .order_by(memberships.c.id)
    ).all()
    for person_id, account_id, name in owners:
        tell_person(
            tx,
            sealer,
            person_id,
            key=f"leaked:{account_id}:{now:%Y-%m-%dT%H:%M}",
            subject=SUBJECT.format(account=name),
            words=WORDS.format(account=name),
            now=now,
        )
    return len(concerned)
