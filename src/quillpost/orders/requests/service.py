"""Sends that are stored to be sent later."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from quillpost.accounts.models import Caller
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import stored_sends
from quillpost.core.errors import NotFound

STORED_SEND_LIFETIME = timedelta(days=90)
"""Since it was stored, previewed or sent."""


@dataclass(frozen=True, slots=True)
class PendingSend:
    """`body` is the original text; once sent, the answer replaces it."""

    id: UUID
    sub_account_id: int | None
    piece: str
    body: str
    answer_body: bytes | None
    answer_headers: dict[str, str] | None


def store_send(
    tx: Tx,
    caller: Caller,
    *,
    piece: str,
    sub_account_id: int | None,
    body: str,
    now: datetime,
    stored_id: UUID | None = None,
) -> UUID:
    """Its id, new or given; storing the same id twice is one send."""
    stored_id = stored_id or uuid4()
    tx.execute(
        postgresql.insert(stored_sends)
        .values(
            id=stored_id,
            account_id=caller.account_id,
            sub_account_id=sub_account_id,
            mode=caller.mode,
            piece=piece,
            body=body,
            created_at=now,
            expires_at=now + STORED_SEND_LIFETIME,
        )
        .on_conflict_do_nothing(index_elements=["id"])
    )
    return stored_id


def read_stored_send(tx: Tx, stored_id: UUID, *, piece: str, locked: bool = False) -> PendingSend:
    """`locked`, nobody else sends it before this transaction ends."""
    query = sa.select(stored_sends).where(stored_sends.c.id == stored_id, stored_sends.c.piece == piece)
    row = tx.execute(query.with_for_update() if locked else query).first()
    if row is None:
        raise NotFound
    response_body = None if row.answer_body is None else bytes(row.answer_body)
    return PendingSend(row.id, row.sub_account_id, row.piece, row.body, response_body, row.answer_headers)


def store_response(tx: Tx, stored_id: UUID, *, body: bytes, headers: dict[str, str], now: datetime) -> None:
    """In the transaction that creates the order, which has the recipients from here on."""
    tx.execute(
        sa.update(stored_sends)
        .where(stored_sends.c.id == stored_id)
        .values(body="", answer_body=body, answer_headers=headers, sent_at=now, expires_at=now + STORED_SEND_LIFETIME)
    )


def extend_lifetime(tx: Tx, stored_id: UUID, *, now: datetime) -> None:
    tx.execute(
        sa.update(stored_sends).where(stored_sends.c.id == stored_id).values(expires_at=now + STORED_SEND_LIFETIME)
    )


def delete_expired_sends(db: Database, *, retention_days: int = STORED_SEND_LIFETIME.days, now: datetime) -> None:
    """One that is being sent is waited for, and then has more time."""
    with db.system_transaction() as tx:
        expires_before = now + STORED_SEND_LIFETIME - timedelta(days=retention_days)
        tx.execute(sa.delete(stored_sends).where(stored_sends.c.expires_at < expires_before))
