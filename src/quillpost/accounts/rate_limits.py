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
from cachetools import TLRUCache

from quillpost.accounts.models import RateLimitStatus, get_network
from quillpost.core import tokens
from quillpost.core.database import Database, Tx

QUARTER_HOUR, HOUR, DAY = 15 * 60, 60 * 60, 24 * 60 * 60

COUNT_ATTEMPTS = sa.text(
    """
    select k.position, c.used, c.resets_in
      from unnest(cast(:keys as text[]), cast(:seconds as integer[]))
           with ordinality as k (key, seconds, position)
     cross join lateral count_call(k.key, k.seconds) c
    """
)
DELETE_WINDOWS = sa.text("delete from rate_windows where key = any(cast(:keys as text[]))")
UNDO_ATTEMPTS = sa.text("update rate_windows set used = used - 1 where key = any(cast(:keys as text[])) and used > 0")


@dataclass(frozen=True, slots=True)
class RateLimitBucket:
    """Of one kind of attempt, so many in so many seconds. A day's are kept for a day: their keys say so."""

    key: str
    limit: int
    seconds: int


@dataclass(frozen=True, slots=True)
class AttemptCount:
    """How long to wait, in seconds, by the key of each bucket that is full. `is_first_excess` marks the first
    that was one too many."""

    wait_seconds_by_key: Mapping[str, int]
    is_first_excess: bool

    @property
    def wait_seconds(self) -> int:
        """0: there is room in all of them."""
        return max(self.wait_seconds_by_key.values(), default=0)

    def get_wait_seconds(self, buckets: Sequence[RateLimitBucket]) -> int:
        return max((self.wait_seconds_by_key.get(bucket.key, 0) for bucket in buckets), default=0)


def count_attempt(tx: Tx, buckets: Sequence[RateLimitBucket]) -> AttemptCount:
    """One more attempt, in each of the buckets."""
    params = {"keys": [each.key for each in buckets], "seconds": [each.seconds for each in buckets]}
    rows = [(buckets[row.position - 1], row) for row in tx.execute(COUNT_ATTEMPTS, params)]
    return AttemptCount(
        wait_seconds_by_key={bucket.key: row.resets_in for bucket, row in rows if row.used > bucket.limit},
        is_first_excess=any(row.used == bucket.limit + 1 for bucket, row in rows),
    )


def reset_attempts(tx: Tx, buckets: Sequence[RateLimitBucket]) -> None:
    """It was the right one: what was counted before it does not matter any more."""
    tx.execute(DELETE_WINDOWS, {"keys": [bucket.key for bucket in buckets]})


def undo_attempt(tx: Tx, buckets: Sequence[RateLimitBucket]) -> None:
    """This one attempt does not count: only those that fail do."""
    tx.execute(UNDO_ATTEMPTS, {"keys": [bucket.key for bucket in buckets]})


class FullBucketCache:
    """Whose buckets were found full a moment ago. Whoever guesses on is answered from memory, and does not
    keep the database busy; every few seconds one of them is counted again, so that whoever has set another
    password is not kept waiting."""

    def __init__(self, *, recheck_seconds: float = 5.0, max_entries: int = 10_000) -> None:
        self._blocked_until: TLRUCache[str, float] = TLRUCache(
            max_entries, ttu=lambda _key, ends_at, now: min(now + recheck_seconds, ends_at)
        )
        self._lock = Lock()

    def add(self, buckets: Sequence[RateLimitBucket], wait_seconds: int) -> None:
        with self._lock:
            self._blocked_until[buckets[0].key] = time.monotonic() + wait_seconds

    def get_wait_seconds(self, buckets: Sequence[RateLimitBucket]) -> int:
        """0: it is not known to be full."""
        with self._lock:
            ends_at = self._blocked_until.get(buckets[0].key)
        return 0 if ends_at is None else math.ceil(ends_at - time.monotonic())

    def clear(self) -> None:
        with self._lock:
            self._blocked_until.clear()


def get_email_buckets(email: str) -> list[RateLimitBucket]:
    """Attempts to sign in with this e-mail, of all browsers that are not known for it. The key does not
    tell the e-mail to whoever reads the database."""
    return _build_guess_buckets(f"email:{sha256(email.encode('utf-8', 'surrogatepass')).hexdigest()}")


def get_browser_buckets(identity: str) -> list[RateLimitBucket]:
    """Attempts of a browser that was let in before."""
    return _build_guess_buckets(f"browser:{identity}")


def get_person_buckets(person_id: int, kind: str) -> list[RateLimitBucket]:
    """What somebody who has shown something already gets wrong: a code, or the password once more."""
    return _build_guess_buckets(f"{kind}:{person_id}")


def get_network_buckets(address: str) -> list[RateLimitBucket]:
    """Attempts that failed, of whoever is in the same network."""
    return [RateLimitBucket(f"sign-in:network:{get_network(address)}", 60, HOUR)]


def _build_guess_buckets(subject: str) -> list[RateLimitBucket]:
    return [RateLimitBucket(f"sign-in:{subject}", 10, QUARTER_HOUR), RateLimitBucket(f"day:sign-in:{subject}", 50, DAY)]


WINDOW_SECONDS = 60

COUNT_CALL = sa.text("select * from count_call(:key, :seconds)")

DELETE_EXPIRED_WINDOWS = sa.text(
    """
    delete from rate_windows
     where started_at < now() - case when key like 'day:%' then interval '1 day' else interval '1 hour' end
    """
)


def count_anonymous_call(db: Database, address: str, *, limit: int) -> RateLimitStatus:
    """One more call from a network address that shows no good token."""
    return _count_call(db, f"address:{get_network(address)}", limit)


def count_list_call(db: Database, list_id: int, *, limit: int) -> RateLimitStatus:
    """One more call by the key of this mailing list, whichever key that is now."""
    return _count_call(db, f"list:{list_id}", limit)


def count_embed_call(db: Database, token_id: int, *, limit: int) -> RateLimitStatus:
    """One more request of a composer within another product's page, by the token that has opened it."""
    return _count_call(db, f"embed:{token_id}", limit)


def count_embed_guest_call(db: Database, embed_token: str, *, limit: int) -> RateLimitStatus:
    """The same by the pass that opens it: of one guest among those of a token."""
    return _count_call(db, f"guest:{tokens.hash_token(embed_token).hex()}", limit)


def count_stored_send(db: Database, embed_token: str, *, limit: int) -> RateLimitStatus:
    """One more send that a guest has stored, in the hour that a pass is good for."""
    return _count_call(db, f"guest-kept:{tokens.hash_token(embed_token).hex()}", limit, seconds=3_600)


def count_public_call(db: Database, endpoint: str, address: str | None, *, limit: int) -> RateLimitStatus:
    """One more call at a door that is open to everyone: from this network address, or from all of them."""
    return _count_call(db, f"{endpoint}:{'all' if address is None else get_network(address)}", limit)


def _count_call(db: Database, key: str, limit: int, *, seconds: int = WINDOW_SECONDS) -> RateLimitStatus:
    with db.anonymous_transaction() as tx:
        row = tx.execute(COUNT_CALL, {"key": key, "seconds": seconds}).one()
    return RateLimitStatus(limit, row.used, row.resets_in)


def delete_expired_rate_limits(db: Database) -> None:
    """Remove the counts of windows long gone: of an hour at most, or of a day, which their keys say."""
    with db.system_transaction() as tx:
        tx.execute(DELETE_EXPIRED_WINDOWS)
