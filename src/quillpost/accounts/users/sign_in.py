"""Signing in: the password, then the second factor where there is one, each guessed at only so often."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.users import emails as letters
from quillpost.accounts.users import queries, rate_limits, rules, second_factor
from quillpost.accounts.users.passwords import Hasher
from quillpost.accounts.users.queries import note_own, note_seldom
from quillpost.accounts.users.rate_limits import Bucket, Spent
from quillpost.accounts.users.sessions import open_session
from quillpost.core import tokens
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.users import people, sessions
from quillpost.core.encryption import Sealer
from quillpost.core.errors import Throttled

Outcome = Literal["in", "code", "wrong", "throttled"]

MOST_CODES = 5
"""Wrong codes for one session that awaits one."""

# Somebody who is in no account has nothing to sign in to.
FIND = sa.text(
    """
    select p.id, p.email, p.password_hash, p.password_changed_at,
           p.totp_since is not null as has_second_factor
      from people p
     where lower(p.email) = :email and exists (select from memberships m where m.person_id = p.id)
    """
)
# The person first, then the session: in the order of whoever sets another password.
HALF_OPEN = sa.text(
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
class Attempt:
    """What came of it. `cookie` is set where it is "in" (a whole session) or "code" (one that awaits the
    second factor); `known` is set with "in": what the browser keeps to be told from strangers who guess."""

    outcome: Outcome
    cookie: str | None = None
    known: str | None = None
    retry_after: int = 0


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whoever tries: where from, with which browser, and what it kept from an earlier sign-in."""

    address: str
    browser: str | None = None
    known: str | None = None


@dataclass(frozen=True, slots=True)
class Means:
    """All that signing in takes."""

    db: Database
    hasher: Hasher
    sealer: Sealer
    spent: Spent = field(default_factory=Spent)


@dataclass(frozen=True, slots=True)
class _Somebody:
    """Whom an e-mail stands for: nobody, perhaps, who is treated alike."""

    email: str
    id: int | None = None
    password_hash: str | None = None
    password_changed_at: datetime | None = None
    has_second_factor: bool = False

    def actor(self, visitor: "Visitor") -> Actor:
        return Actor(self.email, person_id=self.id, address=visitor.address)

    def buckets(self, means: "Means", visitor: "Visitor", now: datetime) -> list[Bucket]:
        """Where this attempt counts: a browser that is known for them counts by itself alone."""
        browser = self.id and queries.identity(
            means.sealer,
            visitor.known,
            self.id,
            self.email,
            password_changed_at=self.password_changed_at,
            now=now,
        )
        return rate_limits.of_browser(browser) if browser else rate_limits.of_email(self.email)

    def known(self, means: "Means", now: datetime) -> str:
        assert self.id is not None
        return queries.remember(
            means.sealer, self.id, self.email, password_changed_at=self.password_changed_at, now=now
        )


def sign_in(means: Means, email: str, password: str, visitor: Visitor, *, now: datetime) -> Attempt:
    """Whether nobody has this e-mail, or the password is another: the answer, the words and the work are
    the same. Attempts are counted before the password is looked at: by e-mail for browsers that are not
    known for it (10 in 15 minutes, 50 a day), by known browser, and by network."""
    given = rules.normalize_email(email)[: rules.LONGEST]
    strangers = rate_limits.of_email(given)
    if visitor.known is None and (wait := means.spent.wait(strangers)):
        return Attempt("throttled", retry_after=wait)
    with means.db.work() as tx:
        row = tx.execute(FIND, {"email": given}).first()
        who = _Somebody(given) if row is None else _Somebody(**row._asdict() | {"email": given})
        buckets = who.buckets(means, visitor, now)
        network = rate_limits.of_network(visitor.address) if buckets == strangers else []
        counted = rate_limits.count(tx, [*buckets, *network])
        if counted.is_crossing:
            _note_refusal(tx, who, visitor, why="too many attempts", now=now)
    if full := counted.wait_for(strangers):
        means.spent.note(strangers, full)
    if counted.wait:
        return Attempt("throttled", retry_after=counted.wait)
    try:
        is_right = means.hasher.matches(who.password_hash, password)
        anew = _made_anew(means.hasher, who, password) if is_right else None
    except Throttled as crowd:
        return Attempt("throttled", retry_after=crowd.retry_after)
    with means.db.work() as tx:
        if not is_right or who.id is None:
            _note_refusal(tx, who, visitor, why="wrong password", now=now)
            return Attempt("wrong")
        if not _is_still(tx, who):
            return Attempt("wrong")
        rate_limits.forget(tx, buckets)
        rate_limits.take_back(tx, network)
        if anew is not None:
            tx.execute(sa.update(people).where(people.c.id == who.id).values(password_hash=anew))
        return _let_in(tx, means, who, visitor, now)


def give_code(means: Means, cookie: str, code: str, visitor: Visitor, *, now: datetime) -> Attempt:
    """The second factor, or a recovery code, for the session that awaits it. Another session begins: the
    cookie of the half-open one is worth nothing any more. After five wrong codes that one ends ("wrong",
    without cookie)."""
    with means.db.work() as tx:
        found = _half_open(tx, cookie, now)
        if found is None:
            return Attempt("wrong")
        session_id, who = found
        assert who.id is not None
        counted = rate_limits.count(tx, rate_limits.of_person(who.id, "code"))
        if counted.wait:
            if counted.is_crossing:
                _note_refusal(tx, who, visitor, why="too many codes", now=now)
            return Attempt("throttled", cookie=cookie, retry_after=counted.wait)
        how = second_factor.use(tx, means.sealer, who.id, code, now=now)
        if how is None:
            _note_refusal(tx, who, visitor, why="wrong code", now=now)
            return Attempt("wrong", cookie=cookie if _may_try_again(tx, session_id) else None)
        if how == "recovery":
            note_own(tx, "second_factor.recovered", who.actor(visitor), now=now)
            letters.tell_recovery_code_used(tx, who.id, left=second_factor.left(tx, who.id), now=now)
        rate_limits.forget(tx, rate_limits.of_person(who.id, "code"))
        tx.execute(sa.delete(sessions).where(sessions.c.id == session_id))
        return _let_in(tx, means, who, visitor, now, is_whole=True)


def confirm_password(means: Means, person_id: int, password: str, visitor: Visitor) -> Outcome:
    """Whether somebody who is signed in is still the one: "in", "wrong" or "throttled"."""
    buckets, network = rate_limits.of_person(person_id, "confirm"), rate_limits.of_network(visitor.address)
    with means.db.work() as tx:
        kept = tx.scalar(sa.select(people.c.password_hash).where(people.c.id == person_id))
        wait = rate_limits.count(tx, [*buckets, *network]).wait
    if wait:
        return "throttled"
    try:
        is_right = means.hasher.matches(kept, password)
    except Throttled:
        return "throttled"
    if not is_right:
        return "wrong"
    with means.db.work() as tx:
        rate_limits.forget(tx, buckets)
        rate_limits.take_back(tx, network)
    return "in"


def _let_in(
    tx: Tx, means: Means, who: _Somebody, visitor: Visitor, now: datetime, *, is_whole: bool = False
) -> Attempt:
    """A new session: whole, or one that awaits the code. Nothing that the browser showed before is used
    again."""
    assert who.id is not None
    awaits_code = who.has_second_factor and not is_whole
    cookie = open_session(
        tx, who.id, awaits_code=awaits_code, address=visitor.address, browser=visitor.browser, now=now
    )
    if awaits_code:
        return Attempt("code", cookie=cookie)
    note_own(tx, "sign_in", who.actor(visitor), now=now)
    return Attempt("in", cookie=cookie, known=who.known(means, now))


def _is_still(tx: Tx, who: _Somebody) -> bool:
    """Whether that is their password still, until this transaction ends: whoever changes it meanwhile ends
    all sessions, and this one too."""
    c = people.c
    same = sa.select(c.id).where(c.id == who.id, c.password_hash == who.password_hash)
    return tx.execute(same.with_for_update(key_share=True)).first() is not None


def _half_open(tx: Tx, cookie: str, now: datetime) -> tuple[int, _Somebody] | None:
    """The session that awaits a code, and whose it is. Whoever comes for the same person meanwhile waits."""
    if not tokens.is_of_kind(cookie, "session"):
        return None
    row = tx.execute(HALF_OPEN, {"digest": tokens.digest(cookie), "now": now}).first()
    if row is None:
        return None
    return row.session_id, _Somebody(
        rules.normalize_email(row.email),
        row.id,
        password_changed_at=row.password_changed_at,
        has_second_factor=True,
    )


def _may_try_again(tx: Tx, session_id: int) -> bool:
    """One more wrong code for this session: after so many it ends."""
    tried = Bucket(f"sign-in:session:{session_id}", MOST_CODES - 1, rate_limits.QUARTER)
    if not rate_limits.count(tx, [tried]).wait:
        return True
    tx.execute(sa.delete(sessions).where(sessions.c.id == session_id))
    return False


def _made_anew(hasher: Hasher, who: _Somebody, password: str) -> str | None:
    outdated = who.password_hash is not None and hasher.is_outdated(who.password_hash)
    return hasher.hash(password) if outdated else None


def _note_refusal(tx: Tx, who: _Somebody, visitor: Visitor, *, why: str, now: datetime) -> None:
    key = f"refused:{rate_limits.of_email(who.email)[0].key}"
    note_seldom(tx, "sign_in.refused", who.actor(visitor), key, about={"why": why}, now=now)
