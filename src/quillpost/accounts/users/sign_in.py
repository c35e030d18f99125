"""Sign in by password, then by the second factor if there is one, both rate limited."""

import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.rate_limits import service as rate_limits
from quillpost.accounts.rate_limits.service import RateLimitBucket
from quillpost.accounts.users import emails as user_emails
from quillpost.accounts.users import rules, second_factor
from quillpost.accounts.users.passwords import Hasher, SignInContext
from quillpost.accounts.users.queries import record_person_entry, record_throttled_entry
from quillpost.accounts.users.sessions import create_session
from quillpost.core import tokens
from quillpost.core.database import Tx
from quillpost.core.database.tables.accounts import people, sessions
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Throttled

SignInOutcome = Literal["in", "code", "wrong", "throttled"]
MAX_WRONG_CODES = 5

# A person without an account has nothing to sign in to.
FIND_PERSON = sa.text(
    """
    select p.id, p.email, p.password_hash, p.password_changed_at,
           p.totp_since is not null as has_second_factor
      from people p
     where lower(p.email) = :email and exists (select from memberships m where m.person_id = p.id)
    """
)
# The person first, then the session: as where another password is set.
LOCK_PENDING_SESSION = sa.text(
    """
    with person as materialized (
        select p.id, p.email, p.password_changed_at from people p
         where p.id = (select person_id from sessions where digest = :digest)
           and exists (select from memberships m where m.person_id = p.id)
           for no key update)
    select s.id as session_id, p.id, p.email, p.password_changed_at
      from sessions s join person p on p.id = s.person_id
     where s.digest = :digest and s.awaits_code and s.expires_at > :now
       for update of s
    """
)


@dataclass(frozen=True, slots=True)
class SignInResult:
    """`cookie` is set for "in" (a whole session) and "code" (one that awaits the second factor); `browser_token` with
    "in"."""

    outcome: SignInOutcome
    cookie: str | None = None
    browser_token: str | None = None
    retry_after: int = 0


@dataclass(frozen=True, slots=True)
class SignInVisitor:
    address: str
    browser: str | None = None
    browser_token: str | None = None


@dataclass(frozen=True, slots=True)
class _SignInPerson:
    """The person with an e-mail; `id` is None if there is none, which is treated alike."""

    email: str
    id: int | None = None
    password_hash: str | None = None
    password_changed_at: datetime | None = None
    has_second_factor: bool = False

    def build_actor(self, visitor: "SignInVisitor") -> Actor:
        return Actor(self.email, person_id=self.id, address=visitor.address)

    def get_buckets(self, context: "SignInContext", visitor: "SignInVisitor", now: datetime) -> list[RateLimitBucket]:
        """A browser known for them counts by itself."""
        browser = self.id and identify_browser(
            context.encryptor,
            visitor.browser_token,
            self.id,
            self.email,
            password_changed_at=self.password_changed_at,
            now=now,
        )
        return rate_limits.get_browser_buckets(browser) if browser else rate_limits.get_email_buckets(self.email)

    def create_browser_token(self, context: "SignInContext", now: datetime) -> str:
        assert self.id is not None
        return create_browser_token(
            context.encryptor, self.id, self.email, password_changed_at=self.password_changed_at, now=now
        )


def sign_in(
    context: SignInContext, email: str, password: str, visitor: SignInVisitor, *, now: datetime
) -> SignInResult:
    """Unknown e-mail and wrong password take the same work and give the same result. Attempts are counted before the
    password is checked: by e-mail, by known browser, and by network."""
    normalized_email = rules.normalize_email(email)[: rules.MAX_EMAIL_LENGTH]
    email_buckets = rate_limits.get_email_buckets(normalized_email)
    if visitor.browser_token is None and (wait := context.full_buckets.get_wait_seconds(email_buckets)):
        return SignInResult("throttled", retry_after=wait)
    with context.db.system_transaction() as tx:
        row = tx.execute(FIND_PERSON, {"email": normalized_email}).first()
        person = (
            _SignInPerson(normalized_email)
            if row is None
            else _SignInPerson(**row._asdict() | {"email": normalized_email})
        )
        buckets = person.get_buckets(context, visitor, now)
        network = rate_limits.get_network_buckets(visitor.address) if buckets == email_buckets else []
        attempts = rate_limits.count_attempt(tx, [*buckets, *network])
        if attempts.is_first_excess:
            _record_refusal(tx, person, visitor, reason="too many attempts", now=now)
    if blocked_seconds := attempts.get_wait_seconds(email_buckets):
        context.full_buckets.add(email_buckets, blocked_seconds)
    if attempts.wait_seconds:
        return SignInResult("throttled", retry_after=attempts.wait_seconds)
    try:
        is_correct = context.hasher.matches(person.password_hash, password)
        new_hash = _rehash_if_outdated(context.hasher, person, password) if is_correct else None
    except Throttled as error:
        return SignInResult("throttled", retry_after=error.retry_after)
    with context.db.system_transaction() as tx:
        if not is_correct or person.id is None:
            _record_refusal(tx, person, visitor, reason="wrong password", now=now)
            return SignInResult("wrong")
        if not _lock_unchanged_password(tx, person):
            return SignInResult("wrong")
        rate_limits.reset_attempts(tx, buckets)
        rate_limits.undo_attempt(tx, network)
        if new_hash is not None:
            tx.execute(sa.update(people).where(people.c.id == person.id).values(password_hash=new_hash))
        return _start_session(tx, context, person, visitor, now)


def submit_code(
    context: SignInContext, cookie: str, code: str, visitor: SignInVisitor, *, now: datetime
) -> SignInResult:
    """The second factor, or a recovery code, for the session that awaits it. A new session begins. After five wrong
    codes that one ends ("wrong", without cookie)."""
    with context.db.system_transaction() as tx:
        pending = _lock_pending_session(tx, cookie, now)
        if pending is None:
            return SignInResult("wrong")
        session_id, person = pending
        assert person.id is not None
        attempts = rate_limits.count_attempt(tx, rate_limits.get_person_buckets(person.id, "code"))
        if attempts.wait_seconds:
            if attempts.is_first_excess:
                _record_refusal(tx, person, visitor, reason="too many codes", now=now)
            return SignInResult("throttled", cookie=cookie, retry_after=attempts.wait_seconds)
        method = second_factor.use_code(tx, context.encryptor, person.id, code, now=now)
        if method is None:
            _record_refusal(tx, person, visitor, reason="wrong code", now=now)
            return SignInResult("wrong", cookie=cookie if _can_retry_code(tx, session_id) else None)
        if method == "recovery":
            record_person_entry(tx, "second_factor.recovered", person.build_actor(visitor), now=now)
            user_emails.notify_recovery_code_used(
                tx, person.id, remaining=second_factor.count_recovery_codes(tx, person.id), now=now
            )
        rate_limits.reset_attempts(tx, rate_limits.get_person_buckets(person.id, "code"))
        tx.execute(sa.delete(sessions).where(sessions.c.id == session_id))
        return _start_session(tx, context, person, visitor, now, has_entered_code=True)


def confirm_password(context: SignInContext, person_id: int, password: str, visitor: SignInVisitor) -> SignInOutcome:
    """Check the password of a user: "in", "wrong" or "throttled"."""
    buckets, network = (
        rate_limits.get_person_buckets(person_id, "confirm"),
        rate_limits.get_network_buckets(visitor.address),
    )
    with context.db.system_transaction() as tx:
        password_hash = tx.scalar(sa.select(people.c.password_hash).where(people.c.id == person_id))
        wait = rate_limits.count_attempt(tx, [*buckets, *network]).wait_seconds
    if wait:
        return "throttled"
    try:
        is_correct = context.hasher.matches(password_hash, password)
    except Throttled:
        return "throttled"
    if not is_correct:
        return "wrong"
    with context.db.system_transaction() as tx:
        rate_limits.reset_attempts(tx, buckets)
        rate_limits.undo_attempt(tx, network)
    return "in"


def _start_session(
    tx: Tx,
    context: SignInContext,
    person: _SignInPerson,
    visitor: SignInVisitor,
    now: datetime,
    *,
    has_entered_code: bool = False,
) -> SignInResult:
    """A new session: whole, or one that awaits the code."""
    assert person.id is not None
    awaits_code = person.has_second_factor and not has_entered_code
    cookie = create_session(
        tx, person.id, awaits_code=awaits_code, address=visitor.address, browser=visitor.browser, now=now
    )
    if awaits_code:
        return SignInResult("code", cookie=cookie)
    record_person_entry(tx, "sign_in", person.build_actor(visitor), now=now)
    return SignInResult("in", cookie=cookie, browser_token=person.create_browser_token(context, now))


def _lock_unchanged_password(tx: Tx, person: _SignInPerson) -> bool:
    """Whether it is still their password, until this transaction ends."""
    c = people.c
    query = sa.select(c.id).where(c.id == person.id, c.password_hash == person.password_hash)
    return tx.execute(query.with_for_update(key_share=True)).first() is not None


def _lock_pending_session(tx: Tx, cookie: str, now: datetime) -> tuple[int, _SignInPerson] | None:
    """The session that awaits a code, and its person, both locked."""
    if not tokens.is_of_kind(cookie, "session"):
        return None
    row = tx.execute(LOCK_PENDING_SESSION, {"digest": tokens.hash_token(cookie), "now": now}).first()
    if row is None:
        return None
    return row.session_id, _SignInPerson(
        rules.normalize_email(row.email), row.id, password_changed_at=row.password_changed_at, has_second_factor=True
    )


def _can_retry_code(tx: Tx, session_id: int) -> bool:
    bucket = RateLimitBucket(f"sign-in:session:{session_id}", MAX_WRONG_CODES - 1, rate_limits.QUARTER_HOUR)
    if not rate_limits.count_attempt(tx, [bucket]).wait_seconds:
        return True
    tx.execute(sa.delete(sessions).where(sessions.c.id == session_id))
    return False


def _rehash_if_outdated(hasher: Hasher, person: _SignInPerson, password: str) -> str | None:
    is_outdated = person.password_hash is not None and hasher.is_outdated(person.password_hash)
    return hasher.hash(password) if is_outdated else None


def _record_refusal(tx: Tx, person: _SignInPerson, visitor: SignInVisitor, *, reason: str, now: datetime) -> None:
    key = f"refused:{rate_limits.get_email_buckets(person.email)[0].key}"
    record_throttled_entry(tx, "sign_in.refused", person.build_actor(visitor), key, about={"why": reason}, now=now)


BROWSER_TOKEN_LIFETIME = timedelta(days=365)
NONCE_BYTES = 12
ID_BYTES, DAY_BYTES, MAC_BYTES = 8, 4, 32
HEADER_BYTES = ID_BYTES + DAY_BYTES + NONCE_BYTES


def create_browser_token(
    encryptor: Encryptor, person_id: int, email: str, *, password_changed_at: datetime | None, now: datetime
) -> str:
    """A token that tells this browser from strangers who guess, so that they cannot lock its person out. It is valid
    for one e-mail of one person, until the password changes, and for a year."""
    day = (now + BROWSER_TOKEN_LIFETIME).date().toordinal()
    header = person_id.to_bytes(ID_BYTES) + day.to_bytes(DAY_BYTES) + secrets.token_bytes(NONCE_BYTES)
    return tokens.mint_secret("known", header + _compute_macs(encryptor, header, email, password_changed_at)[0])


def identify_browser(
    encryptor: Encryptor,
    browser_token: str | None,
    person_id: int,
    email: str,
    *,
    password_changed_at: datetime | None,
    now: datetime,
) -> str | None:
    """Which of the person's known browsers it is, if any."""
    if browser_token is None or not tokens.is_of_kind(browser_token, "known"):
        return None
    payload = tokens.decode_randomness(browser_token, HEADER_BYTES + MAC_BYTES)
    if payload is None:
        return None
    header, mac = payload[:HEADER_BYTES], payload[HEADER_BYTES:]
    is_authentic = any(
        hmac.compare_digest(mac, expected_mac)
        for expected_mac in _compute_macs(encryptor, header, email, password_changed_at)
    )
    day = int.from_bytes(header[ID_BYTES : ID_BYTES + DAY_BYTES])
    if not is_authentic or int.from_bytes(header[:ID_BYTES]) != person_id or day < now.date().toordinal():
        return None
    return header[-NONCE_BYTES:].hex()


def _compute_macs(encryptor: Encryptor, header: bytes, email: str, password_changed_at: datetime | None) -> list[bytes]:
    """By the current key and the former ones, so that a browser stays known when the key changes."""
    changed_at = "" if password_changed_at is None else f"{password_changed_at.timestamp():.6f}"
    message = header + f"{changed_at}|{email}".encode()
    return [hmac.digest(key, message, "sha256") for key in encryptor.derive_keys("known browsers")]
