"""How many wrong claims may be tried. Guessing 128 bits is in vain: this keeps it from being a burden.

Only wrong claims count, by network and in all, in windows that all servers share. Whoever is beyond a limit
draws on what each server has to spare for all of them: so many looks a second, for whoever comes when there
is one left. The others are refused before the database is asked. So guesses cost no more than that, however
many networks they come from; and whoever holds a piece is let in after a few tries, though a neighbour behind
the same address guesses all day: to shut everybody out would be worse than any guess.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_network
from threading import Lock
from typing import TypeVar

from quillpost.accounts.models import network_of
from quillpost.accounts.service import count_knock
from quillpost.core.database import Database
from quillpost.orders.giftcards.rules import claim_digest

Key = TypeVar("Key")
Value = TypeVar("Value")

DOOR = "gift"
OF_ONE_NETWORK = 30
OF_ALL = 3_000
"""Wrong claims in a minute."""

SITE = 48
"""The bits of an IPv6 address that count: whoever has one network of 64 has tens of thousands of them."""

LOOKS_A_SECOND = 50
"""For all together who are beyond a limit."""

SAVED_UP = 1.0
"""Seconds of which looks that nobody wanted are still there."""

TRY_AGAIN_IN = 2
"""Seconds. Whoever comes sooner has the same chance."""

MOST = 10_000
"""Networks, and right claims, that are remembered at a time. No more than a hundred networks can spend what
one may try before all of them together have spent theirs."""


class Guesses:
    """What one server remembers: who is beyond a limit, and which claims were right, by their digests."""

    def __init__(self, db: Database, *, ticks: Callable[[], float] = time.monotonic) -> None:
        self._db, self._ticks = db, ticks
        self._slow_until: dict[str, float] = {}
        self._all_slow_until = 0.0
        self._looks_spent_until = 0.0
        self._right: dict[bytes, None] = {}
        self._lock = Lock()

    def wait(self, claim: str, address: str) -> int:
        """How many seconds to wait before this claim is tried again; 0: it may be looked for now."""
        now = self._ticks()
        with self._lock:
            if claim_digest(claim) in self._right or not self._is_slow(address, now):
                return 0
            spent_until = max(self._looks_spent_until, now - SAVED_UP) + 1 / LOOKS_A_SECOND
            if spent_until > now:
                return TRY_AGAIN_IN
            self._looks_spent_until = spent_until
            return 0

    def note_right(self, claim: str) -> None:
        """Its holder does not wait again."""
        with self._lock:
            _keep(self._right, claim_digest(claim), None)

    def note_wrong(self, claim: str, address: str) -> None:
        """One more. Beyond the limits it is not counted: what is spent does not get any more so."""
        with self._lock:
            self._right.pop(claim_digest(claim), None)
            if self._is_slow(address, self._ticks()):
                return
        own = count_knock(self._db, DOOR, _site(address), limit=OF_ONE_NETWORK)
        everyones = count_knock(self._db, DOOR, None, limit=OF_ALL)
        now = self._ticks()
        with self._lock:
            if own.is_spent:
                _keep(self._slow_until, _site(address), now + own.resets_in)
            if everyones.is_spent:
                self._all_slow_until = now + everyones.resets_in

    def _is_slow(self, address: str, now: float) -> bool:
        return now < max(self._slow_until.get(_site(address), 0.0), self._all_slow_until)


@lru_cache(maxsize=1_000)
def _site(address: str) -> str:
    """Whom an address stands for here."""
    network = network_of(address)
    with suppress(ValueError):  # what is no address stands for itself
        known = ip_network(network)
        if known.version == 6:
            return str(known.supernet(new_prefix=SITE))
    return network


def _keep(kept: dict[Key, Value], key: Key, value: Value) -> None:
    """Beside the others, the oldest of which make room."""
    kept.pop(key, None)
    while len(kept) >= MOST:
        del kept[next(iter(kept))]
    kept[key] = value
