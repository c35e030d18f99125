"""Barcode serials: each mailer's pieces are counted without end, and a serial is what fits of the count.

So it is known which counts may still be in the mail, and none returns on another piece before its time.
"""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.fulfillment.rules import SERIAL_REUSE_AFTER, count_serial_digits

# Whoever takes from the count has it alone until the transaction ends.
LOCK_MAILER = sa.text(
    """
    insert into mailers (mailer_id) values (:mailer_id)
    on conflict (mailer_id) do update set mailer_id = excluded.mailer_id
    returning next_serial
    """
)

# Counts of batches that are not in the mail yet, or not long enough.
LOWEST_SERIAL_IN_USE = sa.text(
    """
    select min(first_serial) from batches
     where mailer_id = :mailer_id and first_serial is not null
       and (mailed_at is null or mailed_at > :resting_since)
    """
)


@dataclass(frozen=True, slots=True)
class SerialRange:
    """The next of the mailer's count, and how many from there on are free; of those wanted, at least."""

    next: int
    free: int


def lock_serials(tx: Tx, mailer_id: str, *, count: int, now: datetime) -> SerialRange:
    """The mailer's free serials, for this transaction alone. Whoever uses some moves the count on."""
    next_serial = int(tx.execute(LOCK_MAILER, {"mailer_id": mailer_id}).scalar_one())
    serial_count: int = 10 ** count_serial_digits(mailer_id)
    if next_serial + count <= serial_count:
        return SerialRange(next_serial, count)  # the count has not gone round once: every serial is new
    params = {"mailer_id": mailer_id, "resting_since": now - SERIAL_REUSE_AFTER}
    lowest_in_use = tx.execute(LOWEST_SERIAL_IN_USE, params).scalar()
    in_use = 0 if lowest_in_use is None else next_serial - int(lowest_in_use)
    return SerialRange(next_serial, max(serial_count - in_use, 0))
