"""Barcode serials: each mailer's pieces are counted without end, and a serial is what fits of the count.

So it is known which counts may still be in the mail, and none returns on another piece before its time.
"""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.fulfillment.rules import SERIALS_REST, serial_digits

# Whoever takes from the count has it alone until the transaction ends.
TAKE_TURNS = sa.text(
    """
    insert into mailers (mailer_id) values (:mailer_id)
    on conflict (mailer_id) do update set mailer_id = excluded.mailer_id
    returning next_serial
    """
)

# Counts of batches that are not in the mail yet, or not long enough.
LOWEST_IN_USE = sa.text(
    """
    select min(first_serial) from batches
     where mailer_id = :mailer_id and first_serial is not null
       and (mailed_at is null or mailed_at > :resting_since)
    """
)


@dataclass(frozen=True, slots=True)
class Serials:
    """The next of the mailer's count, and how many from there on are free; of those wanted, at least."""

    next: int
    free: int


def take_turns(tx: Tx, mailer_id: str, *, wanted: int, now: datetime) -> Serials:
    """The mailer's free serials, for this transaction alone. Whoever uses some moves the count on."""
    next_serial = int(tx.execute(TAKE_TURNS, {"mailer_id": mailer_id}).scalar_one())
    all_serials: int = 10 ** serial_digits(mailer_id)
    if next_serial + wanted <= all_serials:
        return Serials(next_serial, wanted)  # the count has not gone round once: every serial is new
    asked = {"mailer_id": mailer_id, "resting_since": now - SERIALS_REST}
    lowest = tx.execute(LOWEST_IN_USE, asked).scalar()
    in_use = 0 if lowest is None else next_serial - int(lowest)
    return Serials(next_serial, max(all_serials - in_use, 0))
