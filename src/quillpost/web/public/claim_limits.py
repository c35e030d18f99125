"""How many wrong claims may be tried. Guessing 128 bits is in vain: this keeps it from being a burden.

Only wrong claims count, by network and in all, in windows that all servers share. Whoever is beyond a limit
draws on what each server has to spare for all of them: so many looks a second, for whoever comes when there
is one left. The others are refused before the database is asked. So guesses cost no more than that, however
many networks they come from; and whoever holds a piece is let in after a few tries, though a neighbor behind
the same address guesses all day: to shut everybody out would be worse than any guess.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_network
from threading import Lock
from typing import TypeVar

from quillpost.accounts.models import get_network
from quillpost.accounts.service import count_public_call
from quillpost.core.database import Database
from quillpost.orders.giftcards.rules import claim_digest

Key = TypeVar("Key")
Value = TypeVar("Value")

RATE_LIMIT_NAME = "gift"
MAX_PER_NETWORK = 30
MAX_TOTAL = 3_000
"""Wrong claims in a minute."""

IPV6_PREFIX_BITS = 48
"""The bits of an IPv6 address that count: whoever has one network of 64 has tens of thousands of them."""

EXTRA_LOOKUPS_PER_SECOND = 50
"""For all together who are beyond a limit."""

MAX_SAVED_SECONDS = 1.0
"""Seconds of which looks that nobody wanted are still there."""

RETRY_SECONDS = 2
"""Seconds. Whoever comes sooner has the same chance."""

MAX_REMEMBERED = 10_000
"""Networks, and right claims, that are remembered at a time. No more than a hundred networks can spend what
one may try before all of them together have spent theirs."""


class ClaimRateLimit:
    """What one server remembers: who is beyond a limit, and which claims were right, by their digests."""

    def __init__(self, db: Database, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._db, self._monotonic = db, monotonic
        self._limited_until: dict[str, float] = {}
        self._all_limited_until = 0.0
        self._lookups_spent_until = 0.0
        self._valid_digests: dict[bytes, None] = {}
        self._lock = Lock()

    def seconds_to_wait(self, claim: str, address: str) -> int:
        """How many seconds to wait before this claim is tried again; 0: it may be looked for now."""
        now = self._monotonic()
        with self._lock:
            if claim_digest(claim) in self._valid_digests or not self._is_limited(address, now):
                return 0
            spent_until = max(self._lookups_spent_until, now - MAX_SAVED_SECONDS) + 1 / EXTRA_LOOKUPS_PER_SECOND
            if spent_until > now:
                return RETRY_SECONDS
            self._lookups_spent_until = spent_until
            return 0

    def record_valid(self, claim: str) -> None:
        """Its holder does not wait again."""
        with self._lock:
            _remember(self._valid_digests, claim_digest(claim), None)

    def record_invalid(self, claim: str, address: str) -> None:
        """One more. Beyond the limits it is not counted: what is spent does not get any more so."""
        with self._lock:
            self._valid_digests.pop(claim_digest(claim), None)
            if self._is_limited(address, self._monotonic()):
                return
        network_allowance = count_public_call(self._db, RATE_LIMIT_NAME, _network_key(address), limit=MAX_PER_NETWORK)
        total_allowance = count_public_call(self._db, RATE_LIMIT_NAME, None, limit=MAX_TOTAL)
        now = self._monotonic()
        with self._lock:
            if network_allowance.is_exceeded:
                _remember(self._limited_until, _network_key(address), now + network_allowance.resets_in)
            if total_allowance.is_exceeded:
                self._all_limited_until = now + total_allowance.resets_in

    def _is_limited(self, address: str, now: float) -> bool:
        return now < max(self._limited_until.get(_network_key(address), 0.0), self._all_limited_until)


@lru_cache(maxsize=1_000)
def _network_key(address: str) -> str:
    """Whom an address stands for here."""
    network = get_network(address)
    with suppress(ValueError):  # what is no address stands for itself
        parsed = ip_network(network)
        if parsed.version == 6:
            return str(parsed.supernet(new_prefix=IPV6_PREFIX_BITS))
    return network


def _remember(entries: dict[Key, Value], key: Key, value: Value) -> None:
    """Beside the others, the oldest of which make room."""
    entries.pop(key, None)
    while len(entries) >= MAX_REMEMBERED:
        del entries[next(iter(entries))]
    entries[key] = value
