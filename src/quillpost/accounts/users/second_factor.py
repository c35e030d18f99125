"""The second factor: codes of an authenticator app (TOTP), each good once, and recovery codes beside them."""

import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyotp
import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.users import emails
from quillpost.accounts.users.queries import note_own
from quillpost.core import tokens
from quillpost.core.database import Tx
from quillpost.core.database.tables.users import people, recovery_codes
from quillpost.core.encryption import Sealer
from quillpost.core.errors import NotFound, Refused

RECOVERY_CODES = 10
STEP_SECONDS = 30
STEPS_OFF = (0, -1, 1)
"""How far a telephone's clock may be off."""
DIGITS = 6
SET_UP_WITHIN = timedelta(hours=1)
"""How long a secret that was shown waits for its first code. After it another is shown."""

# Nothing that is mistaken for something else: what a person reads as o, i or l is a figure.
LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
CODE_LENGTH, GROUP = 16, 4
READ_AS = str.maketrans("oil", "011", " -\t")


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What an authenticator app is given: as text to type, and as the address that a QR code holds."""

    secret: str
    uri: str


def begin(tx: Tx, sealer: Sealer, person_id: int, *, issuer: str, now: datetime) -> Enrolment:
    """A new secret, of no effect before `turn_on`. Begun again within the hour, it is the same.
    Takes the worker's transaction, as all here do. `Refused` where the second factor is on."""
    person = _locked(tx, person_id)
    if person.totp_since is not None:
        raise Refused("The second factor is on already. Turn it off first.")
    secret = _opened(sealer, person_id, person.being_set_up(now))
    if secret is None:
        secret = pyotp.random_base32()
        sealed = sealer.seal(secret.encode(), context=totp_context(person_id))
        _change(tx, person_id, now, totp_sealed=sealed, totp_begun_at=now, totp_step=None)
    uri = pyotp.TOTP(secret).provisioning_uri(name=person.email, issuer_name=issuer)
    return Enrolment(secret, uri)


def turn_on(
    tx: Tx, sealer: Sealer, person_id: int, code: str, actor: Actor, *, now: datetime
) -> list[str] | None:
    """The recovery codes, readable here and never again; None: that was not the code."""
    person = _locked(tx, person_id)
    secret = _opened(sealer, person_id, person.being_set_up(now))
    if secret is None:
        return None
    step = _step_of(secret, _typed(code), now)
    if step is None:
        return None
    _change(tx, person_id, now, totp_since=now, totp_begun_at=None, totp_step=step)
    note_own(tx, "second_factor.on", actor, now=now)
    return _replace_codes(tx, person_id)


def turn_off(tx: Tx, person_id: int, actor: Actor, *, now: datetime) -> None:
    """Off, with its recovery codes; told by e-mail. Where it is not on, nothing happens but that one which
    is being set up is forgotten."""
    person = _locked(tx, person_id)
    _change(tx, person_id, now, totp_sealed=None, totp_begun_at=None, totp_since=None, totp_step=None)
    tx.execute(sa.delete(recovery_codes).where(recovery_codes.c.person_id == person_id))
    if person.totp_since is not None:
        about = {} if actor.person_id == person_id else {"email": person.email}
        note_own(tx, "second_factor.off", actor, whose=person_id, about=about, now=now)
        emails.tell_second_factor_off(tx, person_id, now=now)


def forget_unfinished(tx: Tx, person_id: int) -> None:
    """One that is being set up: whoever has seen its secret so far does not get to turn it on."""
    unfinished = people.c.id == person_id, people.c.totp_since.is_(None)
    tx.execute(sa.update(people).where(*unfinished).values(totp_sealed=None, totp_begun_at=None))


def new_recovery_codes(tx: Tx, person_id: int, actor: Actor, *, now: datetime) -> list[str]:
    """Others instead of all earlier ones. `Refused` where the second factor is off."""
    if _locked(tx, person_id).totp_since is None:
        raise Refused("Turn the second factor on first.")
    note_own(tx, "second_factor.codes", actor, now=now)
    return _replace_codes(tx, person_id)


def left(tx: Tx, person_id: int) -> int:
    """How many recovery codes are unused."""
    c = recovery_codes.c
    unused = sa.select(sa.func.count()).where(c.person_id == person_id, c.used_at.is_(None))
    return int(tx.execute(unused).scalar_one())


def use(tx: Tx, sealer: Sealer, person_id: int, code: str, *, now: datetime) -> str | None:
    """ "code" or "recovery" if it is good, and never again after that: one conditional UPDATE claims it."""
    typed = _typed(code)
    if is_recovery_code(code):
        return "recovery" if _claim_recovery(tx, person_id, typed, now) else None
    c = people.c
    sealed = tx.scalar(sa.select(c.totp_sealed).where(c.id == person_id, c.totp_since.is_not(None)))
    secret = _opened(sealer, person_id, sealed)
    step = None if secret is None else _step_of(secret, typed, now)
    if step is None:
        return None
    unused = sa.or_(c.totp_step.is_(None), c.totp_step < step)
    claimed = tx.execute(
        sa.update(people).where(c.id == person_id, c.totp_since.is_not(None), unused).values(totp_step=step)
    )
    return "code" if claimed.rowcount else None


def is_recovery_code(code: str) -> bool:
    """Whether what was typed looks like one, whosever it may be."""
    return len(_typed(code)) == CODE_LENGTH


def _step_of(secret: str, code: str, now: datetime) -> int | None:
    """The half minute whose code it is."""
    if len(code) != DIGITS or not (code.isascii() and code.isdigit()):
        return None
    totp, present = pyotp.TOTP(secret), int(now.timestamp()) // STEP_SECONDS
    for off in STEPS_OFF:
        if hmac.compare_digest(totp.generate_otp(present + off), code):
            return present + off
    return None


def _claim_recovery(tx: Tx, person_id: int, code: str, now: datetime) -> bool:
    c = recovery_codes.c
    this = c.person_id == person_id, c.digest == tokens.digest(code), c.used_at.is_(None)
    is_on = sa.exists().where(people.c.id == person_id, people.c.totp_since.is_not(None))
    return bool(tx.execute(sa.update(recovery_codes).where(*this, is_on).values(used_at=now)).rowcount)


def _replace_codes(tx: Tx, person_id: int) -> list[str]:
    tx.execute(sa.delete(recovery_codes).where(recovery_codes.c.person_id == person_id))
    made = ["".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH)) for _ in range(RECOVERY_CODES)]
    tx.execute(
        sa.insert(recovery_codes),
        [{"person_id": person_id, "digest": tokens.digest(code)} for code in made],
    )
    return ["-".join(code[at : at + GROUP] for at in range(0, CODE_LENGTH, GROUP)) for code in made]


def _typed(code: str) -> str:
    """What is meant, however it was typed."""
    return code.strip().lower().translate(READ_AS)


@dataclass(frozen=True, slots=True)
class _Person:
    email: str
    totp_sealed: bytes | None
    totp_since: datetime | None
    totp_begun_at: datetime | None

    def being_set_up(self, now: datetime) -> bytes | None:
        """The secret that waits for its first code."""
        if self.totp_since is not None or self.totp_begun_at is None:
            return None
        return self.totp_sealed if now - self.totp_begun_at < SET_UP_WITHIN else None


def _locked(tx: Tx, person_id: int) -> _Person:
    """Nobody else changes their second factor before this transaction ends."""
    c = people.c
    row = tx.execute(
        sa.select(c.email, c.totp_sealed, c.totp_since, c.totp_begun_at)
        .where(c.id == person_id)
        .with_for_update(key_share=True)
    ).first()
    if row is None:
        raise NotFound
    return _Person(*row)


def _change(tx: Tx, person_id: int, now: datetime, **columns: object) -> None:
    tx.execute(sa.update(people).where(people.c.id == person_id).values(updated_at=now, **columns))


def _opened(sealer: Sealer, person_id: int, sealed: bytes | None) -> str | None:
    return None if sealed is None else sealer.open(sealed, context=totp_context(person_id)).decode()


def totp_context(person_id: int) -> str:
    return f"people:{person_id}:totp"
