"""How often somebody may guess. Counted before anything is looked at, so that guessing costs the guesser
alone.

Counts run on the database's clock, in windows that begin with the first attempt: one that is refused does
not make the wait longer.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock

import sqlalchemy as sa

from quillpost.accounts.models import network_of
from quillpost.core.database import Tx

QUARTER, HOUR, DAY = 15 * 60, 60 * 60, 24 * 60 * 60

COUNT = sa.text(
    """
    select k.place, c.used, c.resets_in
      from unnest(cast(:keys as text[]), cast(:seconds as integer[]))
           with ordinality as k (key, seconds, place)
     cross join lateral count_call(k.key, k.seconds) c
    """
)
FORGET = sa.text("delete from rate_windows where key = any(cast(:keys as text[]))")
TAKE_BACK = sa.text(
    "update rate_windows set used = used - 1 where key = any(cast(:keys as text[])) and used > 0"
)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Of one kind of attempt, so many in so many seconds. A day's are kept for a day: their keys say so."""

    key: str
    most: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Counted:
    """How long to wait, in seconds, by the key of each bucket that is full. `is_crossing` marks the first
    that was one too many."""

    waits: Mapping[str, int]
    is_crossing: bool

    @property
    def wait(self) -> int:
        """0: there is room in all of them."""
        return max(self.waits.values(), default=0)

    def wait_for(self, buckets: Sequence[Bucket]) -> int:
        return max((self.waits.get(each.key, 0) for each in buckets), default=0)


def count(tx: Tx, buckets: Sequence[Bucket]) -> Counted:
    """One more attempt, in each of the buckets."""
    asked = {"keys": [each.key for each in buckets], "seconds": [each.seconds for each in buckets]}
    rows = [(buckets[row.place - 1], row) for row in tx.execute(COUNT, asked)]
    return Counted(
        waits={bucket.key: row.resets_in for bucket, row in rows if row.used > bucket.most},
        is_crossing=any(row.used == bucket.most + 1 for bucket, row in rows),
    )


def forget(tx: Tx, buckets: Sequence[Bucket]) -> None:
    """It was the right one: what was counted before it does not matter any more."""
    tx.execute(FORGET, {"keys": [each.key for each in buckets]})


def take_back(tx: Tx, buckets: Sequence[Bucket]) -> None:
    """This one attempt does not count: only those that fail do."""
    tx.execute(TAKE_BACK, {"keys": [each.key for each in buckets]})


class Spent:
    """Whose buckets were found full a moment ago. Whoever guesses on is answered from memory, and does not
    keep the database busy; every few seconds one of them is counted again, so that whoever has set another
    password is not kept waiting."""

    def __init__(self, *, seconds: float = 5.0, most: int = 10_000) -> None:
        self._seconds, self._most = seconds, most
        self._until: dict[str, tuple[float, float]] = {}
        self._lock = Lock()

    def note(self, buckets: Sequence[Bucket], wait: int) -> None:
        present = time.monotonic()
        with self._lock:
            if len(self._until) >= self._most:
                self._until.clear()
            self._until[buckets[0].key] = present + min(self._seconds, wait), present + wait

    def wait(self, buckets: Sequence[Bucket]) -> int:
        """0: it is not known to be full."""
        present = time.monotonic()
        asked_again, over = self._until.get(buckets[0].key, (0.0, 0.0))
        return math.ceil(over - present) if present < asked_again else 0

    def forget(self) -> None:
        with self._lock:
            self._until.clear()


def of_email(email: str) -> list[Bucket]:
    """Attempts to sign in with this e-mail, of all browsers that are not known for it. The key does not
    tell the e-mail to whoever reads the database."""
    return _guesses(f"email:{sha256(email.encode('utf-8', 'surrogatepass')).hexdigest()}")


def of_browser(identity: str) -> list[Bucket]:
    """Attempts of a browser that was let in before."""
    return _guesses(f"browser:{identity}")


def of_person(person_id: int, what: str) -> list[Bucket]:
    """What somebody who has shown something already gets wrong: a code, or the password once more."""
    return _guesses(f"{what}:{person_id}")


def of_network(address: str) -> list[Bucket]:
    """Attempts that failed, of whoever is in the same network."""
    return [Bucket(f"sign-in:network:{network_of(address)}", 60, HOUR)]


def _guesses(who: str) -> list[Bucket]:
    return [Bucket(f"sign-in:{who}", 10, QUARTER), Bucket(f"day:sign-in:{who}", 50, DAY)]
