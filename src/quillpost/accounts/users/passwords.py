"""Passwords: argon2id, a few at a time, never on the event loop."""

import secrets
import unicodedata
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.profiles import RFC_9106_LOW_MEMORY

from quillpost.accounts.users import rules
from quillpost.core.errors import Throttled

PARAMETERS = RFC_9106_LOW_MEMORY
"""3 passes over 64 MiB in 4 lanes."""

SHORTEST, LONGEST = 10, 1_000
CROWD_SECONDS = 5

T = TypeVar("T")


class Hasher:
    """argon2id after RFC 9106's second recommendation (3 passes over 64 MiB). A hash takes memory and time
    by design: so many threads make them, and whoever comes after waits, so that a crowd at the sign-in
    page takes neither all memory nor all cores. Where `waiting` wait already, one is sent away
    (`Throttled`): those who wait hold a thread each, and the rest of the service needs some too."""

    def __init__(self, *, at_once: int = 2, waiting: int = 14) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="passwords")
        self._places = BoundedSemaphore(at_once + waiting)
        self._argon2 = PasswordHasher.from_parameters(PARAMETERS)
        self._nobodys = _made_up(self._argon2)

    def hash(self, password: str) -> str:
        return self._in_turn(lambda: self._argon2.hash(_as_bytes(password)))

    def matches(self, kept: str | None, password: str) -> bool:
        """Whether it is the password. Without a kept hash (nobody, or nobody yet) as much work is done."""
        return self._in_turn(lambda: self._verified(kept or self._nobodys, password)) and kept is not None

    def is_outdated(self, kept: str) -> bool:
        """Whether it was made with weaker parameters than today's: the next sign-in makes it anew."""
        return self._argon2.check_needs_rehash(kept)

    def _verified(self, kept: str, password: str) -> bool:
        try:
            return self._argon2.verify(kept, _as_bytes(password))
        except (VerificationError, InvalidHashError):
            return False

    def _in_turn(self, work: Callable[[], T]) -> T:
        if not self._places.acquire(blocking=False):
            raise Throttled(retry_after=CROWD_SECONDS)
        try:
            return self._pool.submit(work).result()
        finally:
            self._places.release()


def faults_of(password: str, *, email: str, name: str = "") -> list[str]:
    """What is wrong with a new password, in sentences; empty: it will do. (Length 10 to 1,000 characters,
    not in the shipped list of common ones, not the e-mail or name.)"""
    normal = normalised(password)
    if len(normal) < SHORTEST:
        return [f"A password has at least {SHORTEST} characters."]
    if len(normal) > LONGEST:
        return [f"A password has at most {LONGEST:,} characters."]
    if rules.is_common(normal):
        return ["This password is among the first that others would try. Choose another."]
    if rules.is_about(normal, email=email, name=name):
        return ["This password is your name or e-mail, or nearly. Choose another."]
    return []


def normalised(password: str) -> str:
    """The same letters, however a keyboard puts them together (NFKC, as NIST SP 800-63B recommends): one
    device sends é as one character, another as two, and both mean the same password."""
    return unicodedata.normalize("NFKC", password)


def _as_bytes(password: str) -> bytes:
    return normalised(password).encode("utf-8", "surrogatepass")


def _made_up(argon2: PasswordHasher) -> str:
    """The form of a hash that no password has, made without the work that a hash takes."""
    salt, rest = (
        b64encode(secrets.token_bytes(n)).rstrip(b"=").decode() for n in (argon2.salt_len, argon2.hash_len)
    )
    cost = f"m={argon2.memory_cost},t={argon2.time_cost},p={argon2.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${rest}"
