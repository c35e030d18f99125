"""How often a caller may guess. Counted before anything is looked at, so that guessing costs only the
guesser.

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
    """So many attempts in so many seconds. Keys of a whole day begin with `day:`."""

    key: str
    limit: int
    seconds: int


@dataclass(frozen=True, slots=True)
class AttemptCount:
    """Seconds to wait by the key of each full bucket. `is_first_excess`: this attempt was the first one too many."""

    wait_seconds_by_key: Mapping[str, int]
    is_first_excess: bool

    @property
    def wait_seconds(self) -> int:
        """0 if there is room in all of them."""
        return max(self.wait_seconds_by_key.values(), default=0)

    def get_wait_seconds(self, buckets: Sequence[RateLimitBucket]) -> int:
        return max((self.wait_seconds_by_key.get(bucket.key, 0) for bucket in buckets), default=0)


def count_attempt(tx: Tx, buckets: Sequence[RateLimitBucket]) -> AttemptCount:
    """Count one attempt in each bucket."""
    params = {"keys": [each.key for each in buckets], "seconds": [each.seconds for each in buckets]}
    rows = [(buckets[row.position - 1], row) for row in tx.execute(COUNT_ATTEMPTS, params)]
    return AttemptCount(
        wait_seconds_by_key={bucket.key: row.resets_in for bucket, row in rows if row.used > bucket.limit},
        is_first_excess=any(row.used == bucket.limit + 1 for bucket, row in rows),
    )


def reset_attempts(tx: Tx, buckets: Sequence[RateLimitBucket]) -> None:
    tx.execute(DELETE_WINDOWS, {"keys": [bucket.key for bucket in buckets]})


def undo_attempt(tx: Tx, buckets: Sequence[RateLimitBucket]) -> None:
    """Only failures count: take this attempt back."""
    tx.execute(UNDO_ATTEMPTS, {"keys": [bucket.key for bucket in buckets]})


class FullBucketCache:
    """Buckets that were full a moment ago, so that further guesses do not reach the database. Each is rechecked every
    few seconds, so that a reset password works soon."""

    def __init__(self, *, recheck_seconds: float = 5.0, max_entries: int = 10_000) -> None:
        self._blocked_until: TLRUCache[str, float] = TLRUCache(
            max_entries, ttu=lambda _key, ends_at, now: min(now + recheck_seconds, ends_at)
        )
        self._lock = Lock()

    def add(self, buckets: Sequence[RateLimitBucket], wait_seconds: int) -> None:
        with self._lock:
            self._blocked_until[buckets[0].key] = time.monotonic() + wait_seconds

    def get_wait_seconds(self, buckets: Sequence[RateLimitBucket]) -> int:
        """0 if it is not known to be full."""
        with self._lock:
            ends_at = self._blocked_until.get(buckets[0].key)
        return 0 if ends_at is None else math.ceil(ends_at - time.monotonic())

    def clear(self) -> None:
        with self._lock:
            self._blocked_until.clear()


def get_email_buckets(email: str) -> list[RateLimitBucket]:
    """Sign-ins with this e-mail by browsers not known for it. The key does not reveal the e-mail."""
    return _build_guess_buckets(f"email:{sha256(email.encode('utf-8', 'surrogatepass')).hexdigest()}")


def get_browser_buckets(identity: str) -> list[RateLimitBucket]:
    return _build_guess_buckets(f"browser:{identity}")


def get_person_buckets(person_id: int, kind: str) -> list[RateLimitBucket]:
    """Wrong codes or passwords of a person who has proved one factor."""
    return _build_guess_buckets(f"{kind}:{person_id}")


def get_network_buckets(address: str) -> list[RateLimitBucket]:
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
    """Count a call from an address without a valid token."""
    return _count_call(db, f"address:{get_network(address)}", limit)


def count_list_call(db: Database, list_id: int, *, limit: int) -> RateLimitStatus:
    """Count a call with this mailing list's key."""
    return _count_call(db, f"list:{list_id}", limit)


def count_embed_call(db: Database, token_id: int, *, limit: int) -> RateLimitStatus:
    """Count a request of an embedded composer, by the token that opened it."""
    return _count_call(db, f"embed:{token_id}", limit)


def count_embed_guest_call(db: Database, embed_token: str, *, limit: int) -> RateLimitStatus:
    """Count a request of one guest of an embedded composer."""
    return _count_call(db, f"guest:{tokens.hash_token(embed_token).hex()}", limit)


def count_stored_send(db: Database, embed_token: str, *, limit: int) -> RateLimitStatus:
    """Count a send that a guest stored, per hour."""
    return _count_call(db, f"guest-kept:{tokens.hash_token(embed_token).hex()}", limit, seconds=3_600)


def count_public_call(db: Database, endpoint: str, address: str | None, *, limit: int) -> RateLimitStatus:
    """Count a call to a public endpoint: from this address, or from all if None."""
    return _count_call(db, f"{endpoint}:{'all' if address is None else get_network(address)}", limit)


def _count_call(db: Database, key: str, limit: int, *, seconds: int = WINDOW_SECONDS) -> RateLimitStatus:
    with db.anonymous_transaction() as tx:
        row = tx.execute(COUNT_CALL, {"key": key, "seconds": seconds}).one()
    return RateLimitStatus(limit, row.used, row.resets_in)


def delete_expired_rate_limits(db: Database) -> None:
    with db.system_transaction() as tx:
        tx.execute(DELETE_EXPIRED_WINDOWS)
