"""The second factor: codes of an authenticator app (TOTP), each valid once, and recovery codes."""

import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyotp
import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.users import emails
from quillpost.accounts.users.queries import record_person_entry
from quillpost.core import tokens
from quillpost.core.database import Tx, read_row
from quillpost.core.database.tables.accounts import people, recovery_codes
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Refused

RECOVERY_CODE_COUNT = 10
STEP_SECONDS = 30
ALLOWED_STEP_OFFSETS = (0, -1, 1)
CODE_DIGITS = 6
SETUP_TIMEOUT = timedelta(hours=1)
"""How long a secret that was shown waits for its first code."""

# Nothing that is mistaken for something else: what a person reads as o, i or l is a figure.
RECOVERY_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
RECOVERY_CODE_LENGTH, RECOVERY_GROUP_LENGTH = 16, 4
CODE_CORRECTIONS = str.maketrans("oil", "011", " -\t")


@dataclass(frozen=True, slots=True)
class Enrollment:
    """For an authenticator app: as text to type, and as the address in a QR code."""

    secret: str
    uri: str


def begin_enrollment(tx: Tx, encryptor: Encryptor, person_id: int, *, issuer: str, now: datetime) -> Enrollment:
    """A new secret, or the same within an hour; it has no effect before `enable_second_factor`. `Refused` if the
    second factor is on. Everything here takes the system transaction."""
    person = _lock_person(tx, person_id)
    if person.totp_since is not None:
        raise Refused("The second factor is on already. Turn it off first.")
    secret = _decrypt_secret(encryptor, person_id, person.get_pending_secret(now))
    if secret is None:
        secret = pyotp.random_base32()
        encrypted_secret = encryptor.encrypt(secret.encode(), context=totp_context(person_id))
        _update_person(tx, person_id, now, totp_sealed=encrypted_secret, totp_begun_at=now, totp_step=None)
    uri = pyotp.TOTP(secret).provisioning_uri(name=person.email, issuer_name=issuer)
    return Enrollment(secret, uri)


def enable_second_factor(
    tx: Tx, encryptor: Encryptor, person_id: int, code: str, actor: Actor, *, now: datetime
) -> list[str] | None:
    """The recovery codes, readable here only; None for a wrong code."""
    person = _lock_person(tx, person_id)
    secret = _decrypt_secret(encryptor, person_id, person.get_pending_secret(now))
    if secret is None:
        return None
    step = _find_step(secret, _normalize_code(code), now)
    if step is None:
        return None
    _update_person(tx, person_id, now, totp_since=now, totp_begun_at=None, totp_step=step)
    record_person_entry(tx, "second_factor.on", actor, now=now)
    return _replace_recovery_codes(tx, person_id)


def disable_second_factor(tx: Tx, person_id: int, actor: Actor, *, now: datetime) -> None:
    """Delete it with its recovery codes, also one that is being set up. If it was on, the person gets an e-mail."""
    person = _lock_person(tx, person_id)
    _update_person(tx, person_id, now, totp_sealed=None, totp_begun_at=None, totp_since=None, totp_step=None)
    tx.execute(sa.delete(recovery_codes).where(recovery_codes.c.person_id == person_id))
    if person.totp_since is not None:
        about = {} if actor.person_id == person_id else {"email": person.email}
        record_person_entry(tx, "second_factor.off", actor, person_id=person_id, about=about, now=now)
        emails.notify_second_factor_off(tx, person_id, now=now)


def cancel_enrollment(tx: Tx, person_id: int) -> None:
    """Delete a secret that is being set up: someone else may have seen it."""
    conditions = people.c.id == person_id, people.c.totp_since.is_(None)
    tx.execute(sa.update(people).where(*conditions).values(totp_sealed=None, totp_begun_at=None))


def create_recovery_codes(tx: Tx, person_id: int, actor: Actor, *, now: datetime) -> list[str]:
    """Replace all earlier ones. `Refused` if the second factor is off."""
    if _lock_person(tx, person_id).totp_since is None:
        raise Refused("Turn the second factor on first.")
    record_person_entry(tx, "second_factor.codes", actor, now=now)
    return _replace_recovery_codes(tx, person_id)


def count_recovery_codes(tx: Tx, person_id: int) -> int:
    """How many are unused."""
    c = recovery_codes.c
    unused = sa.select(sa.func.count()).where(c.person_id == person_id, c.used_at.is_(None))
    return int(tx.execute(unused).scalar_one())


def use_code(tx: Tx, encryptor: Encryptor, person_id: int, code: str, *, now: datetime) -> str | None:
    """ "code" or "recovery" if it is valid; one conditional UPDATE claims it."""
    normalized_code = _normalize_code(code)
    if is_recovery_code(code):
        return "recovery" if _claim_recovery_code(tx, person_id, normalized_code, now) else None
    c = people.c
    encrypted_secret = tx.scalar(sa.select(c.totp_sealed).where(c.id == person_id, c.totp_since.is_not(None)))
    secret = _decrypt_secret(encryptor, person_id, encrypted_secret)
    step = None if secret is None else _find_step(secret, normalized_code, now)
    if step is None:
        return None
    unused = sa.or_(c.totp_step.is_(None), c.totp_step < step)
    result = tx.execute(
        sa.update(people).where(c.id == person_id, c.totp_since.is_not(None), unused).values(totp_step=step)
    )
    return "code" if result.rowcount else None


def is_recovery_code(code: str) -> bool:
    return len(_normalize_code(code)) == RECOVERY_CODE_LENGTH


def _find_step(secret: str, code: str, now: datetime) -> int | None:
    if len(code) != CODE_DIGITS or not (code.isascii() and code.isdigit()):
        return None
    totp, current_step = pyotp.TOTP(secret), int(now.timestamp()) // STEP_SECONDS
    for offset in ALLOWED_STEP_OFFSETS:
        if hmac.compare_digest(totp.generate_otp(current_step + offset), code):
            return current_step + offset
    return None


def _claim_recovery_code(tx: Tx, person_id: int, code: str, now: datetime) -> bool:
    c = recovery_codes.c
    conditions = c.person_id == person_id, c.digest == tokens.hash_token(code), c.used_at.is_(None)
    is_enabled = sa.exists().where(people.c.id == person_id, people.c.totp_since.is_not(None))
    return bool(tx.execute(sa.update(recovery_codes).where(*conditions, is_enabled).values(used_at=now)).rowcount)


def _replace_recovery_codes(tx: Tx, person_id: int) -> list[str]:
    tx.execute(sa.delete(recovery_codes).where(recovery_codes.c.person_id == person_id))
    codes = [
        "".join(secrets.choice(RECOVERY_ALPHABET) for _ in range(RECOVERY_CODE_LENGTH))
        for _ in range(RECOVERY_CODE_COUNT)
    ]
    tx.execute(
        sa.insert(recovery_codes), [{"person_id": person_id, "digest": tokens.hash_token(code)} for code in codes]
    )
    return [
        "-".join(
            code[start : start + RECOVERY_GROUP_LENGTH]
            for start in range(0, RECOVERY_CODE_LENGTH, RECOVERY_GROUP_LENGTH)
        )
        for code in codes
    ]


def _normalize_code(code: str) -> str:
    return code.strip().lower().translate(CODE_CORRECTIONS)


@dataclass(frozen=True, slots=True)
class _SecondFactorPerson:
    email: str
    totp_sealed: bytes | None
    totp_since: datetime | None
    totp_begun_at: datetime | None

    def get_pending_secret(self, now: datetime) -> bytes | None:
        """The secret that waits for its first code."""
        if self.totp_since is not None or self.totp_begun_at is None:
            return None
        return self.totp_sealed if now - self.totp_begun_at < SETUP_TIMEOUT else None


def _lock_person(tx: Tx, person_id: int) -> _SecondFactorPerson:
    c = people.c
    query = sa.select(c.email, c.totp_sealed, c.totp_since, c.totp_begun_at).where(c.id == person_id)
    return _SecondFactorPerson(*read_row(tx, query.with_for_update(key_share=True)))


def _update_person(tx: Tx, person_id: int, now: datetime, **columns: object) -> None:
    tx.execute(sa.update(people).where(people.c.id == person_id).values(updated_at=now, **columns))


def _decrypt_secret(encryptor: Encryptor, person_id: int, encrypted_secret: bytes | None) -> str | None:
    return (
        None
        if encrypted_secret is None
        else encryptor.decrypt(encrypted_secret, context=totp_context(person_id)).decode()
    )


def totp_context(person_id: int) -> str:
    return f"people:{person_id}:totp"
