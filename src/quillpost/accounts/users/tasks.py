"""What becomes of sessions, links and codes that nobody can use any more."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.accounts.users.sessions import IDLE
from quillpost.core.database import Database

KEPT = timedelta(days=30)
"""How long what is over is still there to be looked up, or to be told from what never was."""
NEVER_CONNECTED = timedelta(days=1)
STEP = 1_000

FORGET = {
    "sessions": "expires_at < :now or seen_at < :idle",
    "password_resets": "expires_at < :before",
    "invitations": "least(expires_at, accepted_at, revoked_at) < :before",
    "oauth_codes": "expires_at < :before",
    "refresh_tokens": "expires_at < :before",
    "oauth_grants": "connected_at is null and created_at < :unconnected",
    "tokens": "expires_at < :before or (session_id is not null and expires_at < :now)",
    # Somebody whose last account is gone, or the sub account that they were limited to.
    "people": "not exists (select from memberships m where m.person_id = people.id)",
}


def forget_ended(db: Database, *, now: datetime) -> None:
    """A job: a thousand rows at a time, so that nobody waits for it. One that comes again finds nothing."""
    asked = {
        "now": now,
        "idle": now - IDLE,
        "before": now - KEPT,
        "unconnected": now - NEVER_CONNECTED,
        "step": STEP,
    }
    for table, over in FORGET.items():
        forget = sa.text(
            f"delete from {table} where ctid = any(array(select ctid from {table} where {over} limit :step))"
        )
        needed = {name: asked[name] for name in ("step", *asked) if f":{name}" in str(forget)}
        while True:
            with db.work() as tx:
                if tx.execute(forget, needed).rowcount < STEP:
                    break
