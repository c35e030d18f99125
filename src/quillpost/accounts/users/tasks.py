"""The job that deletes expired sessions, links and codes."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.accounts.users.sessions import IDLE_TIMEOUT
from quillpost.core.database import Database

RETENTION_PERIOD = timedelta(days=30)
UNUSED_GRANT_RETENTION = timedelta(days=1)
BATCH_SIZE = 1_000

EXPIRED_CONDITIONS = {
    "sessions": "expires_at < :now or seen_at < :idle",
    "password_resets": "expires_at < :before",
    "invitations": "least(expires_at, accepted_at, revoked_at) < :before",
    "oauth_codes": "expires_at < :before",
    "refresh_tokens": "expires_at < :before",
    "oauth_grants": "connected_at is null and created_at < :unconnected",
    "tokens": "expires_at < :before or (session_id is not null and expires_at < :now)",
    # People whose last account is gone, or the sub account that they were limited to.
    "people": "not exists (select from memberships m where m.person_id = people.id)",
}


def delete_expired_access(db: Database, *, now: datetime) -> None:
    """A thousand rows at a time, so that no one waits for it."""
    params = {
        "now": now,
        "idle": now - IDLE_TIMEOUT,
        "before": now - RETENTION_PERIOD,
        "unconnected": now - UNUSED_GRANT_RETENTION,
        "step": BATCH_SIZE,
    }
    for table, condition in EXPIRED_CONDITIONS.items():
        statement = sa.text(
            f"delete from {table} where ctid = any(array(select ctid from {table} where {condition} limit :step))"
        )
        statement_params = {name: params[name] for name in ("step", *params) if f":{name}" in str(statement)}
        while True:
            with db.system_transaction() as tx:
                if tx.execute(statement, statement_params).rowcount < BATCH_SIZE:
                    break
