"""Who wants to hear no more of an account's scans, and the link on which they say so.

The link is sealed, not only signed: an address does not stand in it for every proxy's log to read. It does
not end, as an old mail must still be good for unsubscribing.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.core import outbox
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import accounts
from quillpost.core.database.tables.notifications import notice_refusals, notices
from quillpost.core.encryption import SealBroken, Sealer
from quillpost.core.errors import NotFound

CONTEXT = "unsubscribe"
LONGEST_TOKEN = 1_000


@dataclass(frozen=True, slots=True)
class Reader:
    """Someone at an address, as one account's reader."""

    account_id: int
    address: str


def token_of(sealer: Sealer, reader: Reader) -> str:
    sealed = sealer.seal(orjson.dumps([reader.account_id, reader.address]), context=CONTEXT)
    return urlsafe_b64encode(sealed).rstrip(b"=").decode("ascii")


def reader_of(sealer: Sealer, token: str) -> Reader:
    """Whom the link was made for, or `NotFound`."""
    if len(token) > LONGEST_TOKEN or not token.isascii():
        raise NotFound
    try:
        sealed = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        account_id, address = orjson.loads(sealer.open(sealed, context=CONTEXT))
    except (ValueError, SealBroken):  # ValueError: not base64
        raise NotFound from None
    return Reader(account_id, address)


def sender_name(tx: Tx, reader: Reader) -> str:
    """The account's name, or `NotFound` when there is no such account any more."""
    name = tx.execute(sa.select(accounts.c.name).where(accounts.c.id == reader.account_id)).scalar()
    if name is None:
        raise NotFound
    return str(name)


def has_refused(tx: Tx, reader: Reader) -> bool:
    return tx.execute(sa.select(sa.literal(1)).where(*_theirs(reader))).first() is not None


def refuse(tx: Tx, reader: Reader, *, now: datetime) -> None:
    """From now on nothing, and not what waits to be sent either. Said twice, it changes nothing."""
    refusal = {"account_id": reader.account_id, "address": reader.address.lower(), "at": now}
    tx.execute(insert(notice_refusals).values(refusal).on_conflict_do_nothing())
    tx.execute(
        sa.update(notices)
        .where(
            notices.c.account_id == reader.account_id,
            sa.func.lower(notices.c.address) == reader.address.lower(),
            notices.c.status == "pending",
            notices.c.kind == outbox.SCANS,
        )
        .values(status="unwanted", next_at=None)
    )


def accept(tx: Tx, reader: Reader) -> None:
    """They have changed their mind: they hear of scans from now on."""
    tx.execute(sa.delete(notice_refusals).where(*_theirs(reader)))


def _theirs(reader: Reader) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        notice_refusals.c.account_id == reader.account_id,
        notice_refusals.c.address == reader.address.lower(),
    )
