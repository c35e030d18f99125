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

ARGON2_PARAMETERS = RFC_9106_LOW_MEMORY
"""3 passes over 64 MiB in 4 lanes."""

MIN_PASSWORD_LENGTH, MAX_PASSWORD_LENGTH = 10, 1_000
RETRY_SECONDS = 5

T = TypeVar("T")


class Hasher:
    """argon2id after RFC 9106's second recommendation (3 passes over 64 MiB). A hash takes memory and time
    by design: so many threads make them, and whoever comes after waits, so that a crowd at the sign-in
    page takes neither all memory nor all cores. Where `waiting` wait already, one is sent away
    (`Throttled`): those who wait hold a thread each, and the rest of the service needs some too."""

    def __init__(self, *, max_threads: int = 2, max_waiting: int = 14) -> None:
        self._pool = ThreadPoolExecutor(max_threads, thread_name_prefix="passwords")
        self._slots = BoundedSemaphore(max_threads + max_waiting)
        self._argon2 = PasswordHasher.from_parameters(ARGON2_PARAMETERS)
        self._dummy_hash = _build_dummy_hash(self._argon2)

    def hash(self, password: str) -> str:
        return self._run_in_pool(lambda: self._argon2.hash(_encode_password(password)))

    def matches(self, password_hash: str | None, password: str) -> bool:
        """Whether it is the password. Without a kept hash (nobody, or nobody yet) as much work is done."""
        return (
            self._run_in_pool(lambda: self._verify(password_hash or self._dummy_hash, password))
            and password_hash is not None
        )

    def is_outdated(self, password_hash: str) -> bool:
        """Whether it was made with weaker parameters than today's: the next sign-in makes it anew."""
        return self._argon2.check_needs_rehash(password_hash)

    def _verify(self, password_hash: str, password: str) -> bool:
        try:
            return self._argon2.verify(password_hash, _encode_password(password))
        except (VerificationError, InvalidHashError):
            return False

    def _run_in_pool(self, work: Callable[[], T]) -> T:
        if not self._slots.acquire(blocking=False):
            raise Throttled(retry_after=RETRY_SECONDS)
        try:
            return self._pool.submit(work).result()
        finally:
            self._slots.release()


def check_password(password: str, *, email: str, name: str = "") -> list[str]:
    """What is wrong with a new password, in sentences; empty: it will do. (Length 10 to 1,000 characters,
    not in the shipped list of common ones, not the e-mail or name.)"""
    normalized = normalize_password(password)
    if len(normalized) < MIN_PASSWORD_LENGTH:
        return [f"A password has at least {MIN_PASSWORD_LENGTH} characters."]
    if len(normalized) > MAX_PASSWORD_LENGTH:
        return [f"A password has at most {MAX_PASSWORD_LENGTH:,} characters."]
    if rules.is_common_password(normalized):
        return ["This password is among the first that others would try. Choose another."]
    if rules.is_personal_password(normalized, email=email, name=name):
        return ["This password is your name or e-mail, or nearly. Choose another."]
    return []


def normalize_password(password: str) -> str:
    """The same letters, however a keyboard puts them together (NFKC, as NIST SP 800-63B recommends): one
    device sends é as one character, another as two, and both mean the same password."""
    return unicodedata.normalize("NFKC", password)


def _encode_password(password: str) -> bytes:
    return normalize_password(password).encode("utf-8", "surrogatepass")


def _build_dummy_hash(argon2: PasswordHasher) -> str:
    """The form of a hash that no password has, made without the work that a hash takes."""
    salt, digest = (b64encode(secrets.token_bytes(n)).rstrip(b"=").decode() for n in (argon2.salt_len, argon2.hash_len))
    cost = f"m={argon2.memory_cost},t={argon2.time_cost},p={argon2.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${digest}"
