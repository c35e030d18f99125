"""Answers that are kept for a call made twice; `api/idempotency.py` keeps and gives them."""

from datetime import datetime

import sqlalchemy as sa

from quillpost.database import Database
from quillpost.database.tables import idempotency_keys


def answer_context(account_id: int, path: str, key: str) -> str:
    """What a secret answer is sealed for."""
    return f"idempotency:{account_id}:{path}:{key}"


def forget_expired(db: Database, *, now: datetime) -> None:
    with db.work() as tx:
        tx.execute(sa.delete(idempotency_keys).where(idempotency_keys.c.expires_at < now))
