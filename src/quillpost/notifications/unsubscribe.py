"""Who wants to hear no more of an account's scans, and the link on which they say so.

The link is sealed, not only signed: an address does not stand in it for every proxy's log to read. It does
not end, as an old mail must still be good for unsubscribing.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.core import outbox
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import accounts
from quillpost.core.database.tables.notifications import notice_refusals, notices
from quillpost.core.encryption import DecryptionFailed, Encryptor
from quillpost.core.errors import NotFound
from quillpost.notifications.service import NotificationReader

TOKEN_CONTEXT = "unsubscribe"
MAX_TOKEN_LENGTH = 1_000


def encode_token(encryptor: Encryptor, reader: NotificationReader) -> str:
    encrypted = encryptor.encrypt(orjson.dumps([reader.account_id, reader.address]), context=TOKEN_CONTEXT)
    return urlsafe_b64encode(encrypted).rstrip(b"=").decode("ascii")


def decode_token(encryptor: Encryptor, token: str) -> NotificationReader:
    """Whom the link was made for, or `NotFound`."""
    if len(token) > MAX_TOKEN_LENGTH or not token.isascii():
        raise NotFound
    try:
        encrypted = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        account_id, address = orjson.loads(encryptor.decrypt(encrypted, context=TOKEN_CONTEXT))
    except (ValueError, DecryptionFailed):  # ValueError: not base64
        raise NotFound from None
    return NotificationReader(account_id, address)


def read_sender_name(tx: Tx, reader: NotificationReader) -> str:
    """The account's name, or `NotFound` when there is no such account any more."""
    name = tx.execute(sa.select(accounts.c.name).where(accounts.c.id == reader.account_id)).scalar()
    if name is None:
        raise NotFound
    return str(name)


def has_unsubscribed(tx: Tx, reader: NotificationReader) -> bool:
    return tx.execute(sa.select(sa.literal(1)).where(*_refusal_conditions(reader))).first() is not None


def unsubscribe(tx: Tx, reader: NotificationReader, *, now: datetime) -> None:
    """From now on nothing, and not what waits to be sent either. Said twice, it changes nothing."""
    refusal = {"account_id": reader.account_id, "address": reader.address.lower(), "at": now}
    tx.execute(insert(notice_refusals).values(refusal).on_conflict_do_nothing())
    tx.execute(
        sa.update(notices)
        .where(
            notices.c.account_id == reader.account_id,
            sa.func.lower(notices.c.address) == reader.address.lower(),
            notices.c.status == "pending",
            notices.c.kind == outbox.SCANS_KIND,
        )
        .values(status="unwanted", next_at=None)
    )


def resubscribe(tx: Tx, reader: NotificationReader) -> None:
    """They have changed their mind: they hear of scans from now on."""
    tx.execute(sa.delete(notice_refusals).where(*_refusal_conditions(reader)))


def _refusal_conditions(reader: NotificationReader) -> tuple[sa.ColumnElement[bool], ...]:
    return (notice_refusals.c.account_id == reader.account_id, notice_refusals.c.address == reader.address.lower())
