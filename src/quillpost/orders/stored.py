"""Sends that wait for whoever opens their address; each happens once."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

import sqlalchemy as sa

from quillpost.accounts.rules import Caller
from quillpost.database import Tx
from quillpost.database.tables import stored_sends
from quillpost.kit.errors import NotFound


@dataclass(frozen=True, slots=True)
class StoredSend:
    """`body` is what was sent to us, to the letter; the answer is there once it has happened."""

    id: UUID
    sub_account_id: int | None
    piece: str
    body: str
    answer_body: bytes | None
    answer_headers: dict[str, str] | None


def store_send(
    tx: Tx, who: Caller, *, piece: str, sub_account_id: int | None, body: str, now: datetime
) -> UUID:
    stored_id = uuid4()
    tx.execute(
        sa.insert(stored_sends).values(
            id=stored_id,
            account_id=who.account_id,
            sub_account_id=sub_account_id,
            mode=who.mode,
            piece=piece,
            body=body,
            created_at=now,
        )
    )
    return stored_id


def read_stored(tx: Tx, stored_id: UUID, *, piece: str, locked: bool = False) -> StoredSend:
    """The send; `locked`, nobody else carries it out before this transaction ends."""
    query = sa.select(stored_sends).where(stored_sends.c.id == stored_id, stored_sends.c.piece == piece)
    row = tx.execute(query.with_for_update() if locked else query).first()
    if row is None:
        raise NotFound
    body = None if row.answer_body is None else bytes(row.answer_body)
    return StoredSend(row.id, row.sub_account_id, row.piece, row.body, body, row.answer_headers)


def keep_answer(
    tx: Tx, stored_id: UUID, *, order_id: int, body: bytes, headers: dict[str, str], now: datetime
) -> None:
    """In the transaction that makes the order."""
    tx.execute(
        sa.update(stored_sends)
        .where(stored_sends.c.id == stored_id)
        .values(order_id=order_id, answer_body=body, answer_headers=headers, sent_at=now)
    )
