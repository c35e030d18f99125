"""Passwords: argon2id hashes, and how a person sets another password."""

import secrets
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import BoundedSemaphore
from typing import TypeVar

import sqlalchemy as sa
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.profiles import RFC_9106_LOW_MEMORY

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import get_network
from quillpost.accounts.rate_limits import service as rate_limits
from quillpost.accounts.rate_limits.service import FullBucketCache, RateLimitBucket
from quillpost.accounts.users import emails as user_emails
from quillpost.accounts.users import rules, second_factor
from quillpost.accounts.users.queries import record_person_entry
from quillpost.accounts.users.rules import check_password, normalize_password
from quillpost.accounts.users.sessions import end_sessions, renew_session
from quillpost.core import outbox, tokens
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.accounts import password_resets, people
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Invalid, Throttled

ARGON2_PARAMETERS = RFC_9106_LOW_MEMORY

RETRY_SECONDS = 5

T = TypeVar("T")


class Hasher:
    """argon2id (RFC 9106, second recommendation: 3 passes over 64 MiB). Few threads hash at a time, so that a crowd at
    the sign-in page takes neither all memory nor all cores. Beyond `max_waiting` it raises `Throttled`."""

    def __init__(self, *, max_threads: int = 2, max_waiting: int = 14) -> None:
        self._pool = ThreadPoolExecutor(max_threads, thread_name_prefix="passwords")
        self._slots = BoundedSemaphore(max_threads + max_waiting)
        self._argon2 = PasswordHasher.from_parameters(ARGON2_PARAMETERS)
        self._dummy_hash = _build_dummy_hash(self._argon2)

    def hash(self, password: str) -> str:
        return self._run_in_pool(lambda: self._argon2.hash(_encode_password(password)))

    def matches(self, password_hash: str | None, password: str) -> bool:
        """Without a stored hash it does as much work, and is False."""
        return (
            self._run_in_pool(lambda: self._verify(password_hash or self._dummy_hash, password))
            and password_hash is not None
        )

    def is_outdated(self, password_hash: str) -> bool:
        """Whether it was made with weaker parameters than today's."""
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


def _encode_password(password: str) -> bytes:
    return normalize_password(password).encode("utf-8", "surrogatepass")


def _build_dummy_hash(argon2: PasswordHasher) -> str:
    """A hash that no password has, made without the work."""
    salt, digest = (b64encode(secrets.token_bytes(n)).rstrip(b"=").decode() for n in (argon2.salt_len, argon2.hash_len))
    cost = f"m={argon2.memory_cost},t={argon2.time_cost},p={argon2.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${digest}"


@dataclass(frozen=True, slots=True)
class SignInContext:
    db: Database
    hasher: Hasher
    encryptor: Encryptor
    full_buckets: FullBucketCache = field(default_factory=FullBucketCache)


LINK_LIFETIME = timedelta(hours=1)

FIND_PERSON = sa.text(
    """
    select p.id from people p
     where lower(p.email) = :email and exists (select from memberships m where m.person_id = p.id)
    """
)
# Without a person it writes nothing, and takes as long.
INSERT_RESET = sa.text(
    """
    insert into password_resets (digest, person_id, created_at, expires_at)
    select :digest, p.id, :now, :expires_at from people p where p.id = :person_id
    """
)


def request_reset(context: SignInContext, email: str, *, base_url: str, address: str, now: datetime) -> None:
    """Send a link, if a person has this e-mail; the same work if none has. At most 3 an hour for an e-mail, and 20
    from a network."""
    normalized_email = rules.normalize_email(email)[: rules.MAX_EMAIL_LENGTH]
    buckets = [
        RateLimitBucket(f"reset:{rate_limits.get_email_buckets(normalized_email)[0].key}", 3, rate_limits.HOUR),
        RateLimitBucket(f"reset:network:{get_network(address)}", 20, rate_limits.HOUR),
    ]
    with context.db.system_transaction() as tx:
        if rate_limits.count_attempt(tx, buckets).wait_seconds:
            return
        person_id = tx.scalar(FIND_PERSON, {"email": normalized_email})
        link = _create_link(tx, person_id, base_url=base_url, now=now)
        actor = Actor(normalized_email, person_id=person_id, address=address)
        record_person_entry(tx, "password.reset_asked", actor, now=now)
        key = f"people:reset:{secrets.token_hex(8)}"
        user_emails.queue_email(
            tx,
            person_id,
            key=key,
            subject="Set another password",
            text=user_emails.format_reset_text(duration="an hour"),
            secret_sealed=context.encryptor.encrypt(link.encode(), context=outbox.encryption_context(key)),
            ends_at=now + LINK_LIFETIME,
            now=now,
        )


def create_reset_link(tx: Tx, person_id: int, *, base_url: str, now: datetime) -> str:
    """A link for the command line, which records it. Earlier ones end."""
    _end_links(tx, person_id, now)
    return _create_link(tx, person_id, base_url=base_url, now=now)


def find_reset_email(tx: Tx, token: str, *, now: datetime) -> str | None:
    """The e-mail of the person whose link it is; None if it is used, expired or unknown."""
    person = _find_person(tx, token, now)
    return None if person is None else person.email


def reset_password(context: SignInContext, token: str, password: str, *, address: str, now: datetime) -> bool:
    """Set it, once; all sessions end. `Invalid` (password); False if the link is no longer valid. The second factor
    stays."""
    with context.db.system_transaction() as tx:
        person = _find_person(tx, token, now)
    if person is None:
        return False
    password_hash = _hash_password(context, password, email=person.email, name=person.name)
    with context.db.system_transaction() as tx:
        c = password_resets.c
        result = tx.execute(
            sa.update(password_resets)
            .where(c.digest == tokens.hash_token(token), c.used_at.is_(None), c.expires_at > now)
            .values(used_at=now)
        )
        if not result.rowcount:
            return False
        _set_password(tx, person.id, password_hash, now)
        end_sessions(tx, person.id)
        rate_limits.reset_attempts(tx, rate_limits.get_email_buckets(rules.normalize_email(person.email)))
        context.full_buckets.clear()
        record_person_entry(tx, "password.reset", Actor(person.email, person_id=person.id, address=address), now=now)
        user_emails.notify_password_changed(tx, person.id, by_link=True, now=now)
    return True


def change_password(
    context: SignInContext, person_id: int, password: str, actor: Actor, *, session_id: int, now: datetime
) -> str:
    """For a user who has just confirmed: other sessions end; the new cookie of this one. `Invalid`
    (password) for an unfit one, or the present one."""
    c = people.c
    with context.db.system_transaction() as tx:
        person = tx.execute(sa.select(c.email, c.name, c.password_hash).where(c.id == person_id)).one()
    if context.hasher.matches(person.password_hash, password):
        raise Invalid({"password": ["That is your present password. Choose another."]})
    password_hash = _hash_password(context, password, email=person.email, name=person.name)
    with context.db.system_transaction() as tx:
        _set_password(tx, person_id, password_hash, now)
        end_sessions(tx, person_id, except_id=session_id)
        cookie = renew_session(tx, session_id)
        record_person_entry(tx, "password.changed", actor, now=now)
        user_emails.notify_password_changed(tx, person_id, by_link=False, now=now)
    return cookie


def _create_link(tx: Tx, person_id: int | None, *, base_url: str, now: datetime) -> str:
    token = tokens.mint_secret("reset", secrets.token_bytes(32))
    tx.execute(
        INSERT_RESET,
        {"digest": tokens.hash_token(token), "person_id": person_id, "now": now, "expires_at": now + LINK_LIFETIME},
    )
    return f"{base_url}/reset/{token}"


def _find_person(tx: Tx, token: str, now: datetime) -> sa.Row[int, str, str] | None:
    if not tokens.is_of_kind(token, "reset"):
        return None
    c = password_resets.c
    return tx.execute(
        sa.select(people.c.id, people.c.email, people.c.name)
        .join(password_resets, c.person_id == people.c.id)
        .where(c.digest == tokens.hash_token(token), c.used_at.is_(None), c.expires_at > now)
    ).first()


def _hash_password(context: SignInContext, password: str, *, email: str, name: str) -> str:
    if errors := check_password(password, email=email, name=name):
        raise Invalid({"password": errors})
    return context.hasher.hash(password)


def _set_password(tx: Tx, person_id: int, password_hash: str, now: datetime) -> None:
    """Earlier links end, and so does a second factor being set up: that may have been someone else."""
    tx.execute(
        sa.update(people)
        .where(people.c.id == person_id)
        .values(password_hash=password_hash, password_changed_at=now, updated_at=now)
    )
    second_factor.cancel_enrollment(tx, person_id)
    _end_links(tx, person_id, now)


def _end_links(tx: Tx, person_id: int, now: datetime) -> None:
    c = password_resets.c
    tx.execute(sa.update(password_resets).where(c.person_id == person_id, c.used_at.is_(None)).values(used_at=now))
