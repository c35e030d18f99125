"""How many subscriptions an account may have: each event is matched with all of them."""

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.database.event_tables import webhooks
from quillpost.database.limits import past_the_limits
from quillpost.kit.errors import Refused

TAKE_TURNS = sa.text("select pg_advisory_xact_lock(hashtextextended(:whose, 0))")


def require_room(tx: Tx, account_id: int, *, most: int) -> None:
    """Raise where the account has as many already, of both modes and all sub accounts. Of two that want the
    last place one gets it."""
    tx.execute(TAKE_TURNS, {"whose": f"webhooks:{account_id}"})
    with past_the_limits(tx):
        mine = webhooks.c.account_id == account_id
        there = tx.execute(sa.select(sa.func.count()).select_from(webhooks).where(mine)).scalar_one()
    if there >= most:
        raise Refused(
            f"An account has at most {most:,} subscriptions, in both modes and all sub accounts together. "
            "Delete one that is not needed, or subscribe to * with one."
        )
