"""Another password: by a link that goes to the person's own e-mail, or, signed in, by the present one."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import network_of
from quillpost.accounts.users import emails as letters
from quillpost.accounts.users import rate_limits, rules, second_factor
from quillpost.accounts.users.passwords import faults_of
from quillpost.accounts.users.queries import note_own
from quillpost.accounts.users.rate_limits import Bucket
from quillpost.accounts.users.sessions import end_sessions, renew_session
from quillpost.accounts.users.sign_in import Means
from quillpost.core import outbox, tokens
from quillpost.core.database import Tx
from quillpost.core.database.tables.users import password_resets, people
from quillpost.core.errors import Invalid

LINK_LASTS = timedelta(hours=1)
SAME = "That is your present password. Choose another."

FIND = sa.text(
    """
    select p.id from people p
     where lower(p.email) = :email and exists (select from memberships m where m.person_id = p.id)
    """
)
# Without somebody it writes nothing, and takes as long.
KEEP = sa.text(
    """
    insert into password_resets (digest, person_id, created_at, expires_at)
    select :digest, p.id, :now, :expires_at from people p where p.id = :person_id
    """
)


def ask(means: Means, email: str, *, base_url: str, address: str, now: datetime) -> None:
    """Have a link sent, if somebody has this e-mail; said and done alike if nobody has. At most 3 an hour
    for an e-mail, and 20 from a network; beyond that nothing is sent."""
    given = rules.normalize_email(email)[: rules.LONGEST]
    buckets = [
        Bucket(f"reset:{rate_limits.of_email(given)[0].key}", 3, rate_limits.HOUR),
        Bucket(f"reset:network:{network_of(address)}", 20, rate_limits.HOUR),
    ]
    with means.db.work() as tx:
        if rate_limits.count(tx, buckets).wait:
            return
        person_id = tx.scalar(FIND, {"email": given})
        link = _new_link(tx, person_id, base_url=base_url, now=now)
        actor = Actor(given, person_id=person_id, address=address)
        note_own(tx, "password.reset_asked", actor, now=now)
        key = f"people:reset:{secrets.token_hex(8)}"
        letters.post(
            tx,
            person_id,
            key=key,
            subject="Set another password",
            words=letters.reset_words(lasts="an hour"),
            secret_sealed=means.sealer.seal(link.encode(), context=outbox.context_of(key)),
            ends_at=now + LINK_LASTS,
            now=now,
        )


def link_for(tx: Tx, person_id: int, *, base_url: str, now: datetime) -> str:
    """A link, for the command line, which notes it. Earlier ones end."""
    _end_links(tx, person_id, now)
    return _new_link(tx, person_id, base_url=base_url, now=now)


def whose(tx: Tx, token: str, *, now: datetime) -> str | None:
    """The e-mail of whoever may set another password with it; nobody's if it is used, old or unknown."""
    person = _person_of(tx, token, now)
    return None if person is None else person.email


def reset(means: Means, token: str, password: str, *, address: str, now: datetime) -> bool:
    """Set it, once: all of the person's sessions end, and they are told by e-mail. `Invalid` (password)
    for one that will not do; False where the link is not good any more. The second factor stays."""
    with means.db.work() as tx:
        person = _person_of(tx, token, now)
    if person is None:
        return False
    kept = _hashed(means, password, email=person.email, name=person.name)
    with means.db.work() as tx:
        c = password_resets.c
        claimed = tx.execute(
            sa.update(password_resets)
            .where(c.digest == tokens.digest(token), c.used_at.is_(None), c.expires_at > now)
            .values(used_at=now)
        )
        if not claimed.rowcount:
            return False
        _set_password(tx, person.id, kept, now)
        end_sessions(tx, person.id)
        rate_limits.forget(tx, rate_limits.of_email(rules.normalize_email(person.email)))
        means.spent.forget()
        note_own(tx, "password.reset", Actor(person.email, person_id=person.id, address=address), now=now)
        letters.tell_password_changed(tx, person.id, by_link=True, now=now)
    return True


def change(
    means: Means, person_id: int, password: str, actor: Actor, *, session_id: int, now: datetime
) -> str:
    """Of somebody who is signed in and has just confirmed: all other sessions end, this one has the cookie
    that is returned. Told by e-mail. `Invalid` (password) for one that will not do, or is the present one."""
    c = people.c
    with means.db.work() as tx:
        person = tx.execute(sa.select(c.email, c.name, c.password_hash).where(c.id == person_id)).one()
    if means.hasher.matches(person.password_hash, password):
        raise Invalid({"password": [SAME]})
    kept = _hashed(means, password, email=person.email, name=person.name)
    with means.db.work() as tx:
        _set_password(tx, person_id, kept, now)
        end_sessions(tx, person_id, but=session_id)
        cookie = renew_session(tx, session_id)
        note_own(tx, "password.changed", actor, now=now)
        letters.tell_password_changed(tx, person_id, by_link=False, now=now)
    return cookie


def _new_link(tx: Tx, person_id: int | None, *, base_url: str, now: datetime) -> str:
    token = tokens.mint("reset", secrets.token_bytes(32))
    tx.execute(
        KEEP,
        {
            "digest": tokens.digest(token),
            "person_id": person_id,
            "now": now,
            "expires_at": now + LINK_LASTS,
        },
    )
    return f"{base_url}/reset/{token}"


@dataclass(frozen=True, slots=True)
class _Person:
    id: int
    email: str
    name: str


def _person_of(tx: Tx, token: str, now: datetime) -> _Person | None:
    if not tokens.is_of_kind(token, "reset"):
        return None
    c = password_resets.c
    row = tx.execute(
        sa.select(people.c.id, people.c.email, people.c.name)
        .join(password_resets, c.person_id == people.c.id)
        .where(c.digest == tokens.digest(token), c.used_at.is_(None), c.expires_at > now)
    ).first()
    return None if row is None else _Person(*row)


def _hashed(means: Means, password: str, *, email: str, name: str) -> str:
    if faults := faults_of(password, email=email, name=name):
        raise Invalid({"password": faults})
    return means.hasher.hash(password)


def _set_password(tx: Tx, person_id: int, kept: str, now: datetime) -> None:
    """With another password no link that was sent before is good any more, and whoever was about to set up a
    second factor for this person begins anew: they may have been somebody else."""
    tx.execute(
        sa.update(people)
        .where(people.c.id == person_id)
        .values(password_hash=kept, password_changed_at=now, updated_at=now)
    )
    second_factor.forget_unfinished(tx, person_id)
    _end_links(tx, person_id, now)


def _end_links(tx: Tx, person_id: int, now: datetime) -> None:
    c = password_resets.c
    tx.execute(
        sa.update(password_resets).where(c.person_id == person_id, c.used_at.is_(None)).values(used_at=now)
    )
