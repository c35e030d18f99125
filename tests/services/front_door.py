"""Somebody who signs in, what it took the service, and what it left behind."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any, TypeVar

import pyotp
import pytest
import sqlalchemy as sa
from argon2 import _password_hasher, low_level
from argon2.exceptions import VerifyMismatchError
from signed_in import PASSWORD

from quillpost.accounts.audit.service import Actor, Entry, read_log
from quillpost.accounts.users import second_factor
from quillpost.accounts.users.sessions import SignedIn, find_session
from quillpost.accounts.users.sign_in import Attempt, Visitor, sign_in
from quillpost.app.container import Parts

DANA = "dana@example.com"
HOME = Visitor("192.0.2.7", browser="Firefox")
ELSEWHERE = Visitor("198.51.100.9", browser="Chrome")

T = TypeVar("T")


def come(parts: Parts, email: str = DANA, password: str = PASSWORD, visitor: Visitor = HOME) -> Attempt:
    return sign_in(parts.people, email, password, visitor, now=parts.clock())


def reader(parts: Parts, cookie: str | None) -> SignedIn | None:
    assert cookie is not None
    return find_session(parts.db, cookie, address="192.0.2.7", now=parts.clock())


def reading(parts: Parts, email: str = DANA) -> SignedIn:
    """Somebody who has signed in."""
    who = reader(parts, come(parts, email).cookie)
    assert who is not None
    return who


def actor_of(person_id: int, email: str = DANA) -> Actor:
    return Actor(email, person_id=person_id, address="192.0.2.7")


def enrolled(parts: Parts, person_id: int, email: str = DANA) -> tuple[str, list[str]]:
    """With a second factor: its secret, and the recovery codes."""
    with parts.db.work() as tx:
        secret = second_factor.begin(tx, parts.sealer, person_id, issuer="Q", now=parts.clock()).secret
        code = pyotp.TOTP(secret).at(parts.clock())
        codes = second_factor.turn_on(
            tx, parts.sealer, person_id, code, actor_of(person_id, email), now=parts.clock()
        )
    assert codes is not None
    return secret, codes


def log_of(parts: Parts, account_id: int) -> list[Entry]:
    """The account's audit log, the oldest line first."""
    with parts.db.work() as tx:
        return list(reversed(read_log(tx, account_id, most=1_000)))


def acts_of(parts: Parts, account_id: int) -> list[str]:
    return [entry.act for entry in log_of(parts, account_id)]


def let_pass(parts: Parts, **time: int) -> None:
    """Time for the counts, which run on the database's clock."""
    with parts.db.work() as tx:
        tx.execute(
            sa.text("update rate_windows set started_at = started_at - make_interval(mins => :minutes)"),
            {"minutes": time.get("minutes", 0) + 60 * time.get("hours", 0)},
        )
    parts.people.spent.forget()


def both_at_once(do: Callable[[], T]) -> list[T]:
    """What comes of it when two do it at the same moment."""
    ready = Barrier(2)

    def go(_: int) -> T:
        ready.wait(10)
        return do()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(go, range(2)))


@contextmanager
def hashes_counted() -> Iterator[list[str]]:
    """The password hashes that are computed meanwhile, to the end."""
    computed: list[str] = []
    verify, make = low_level.verify_secret, low_level.hash_secret

    def counted_verify(*given: Any, **how: Any) -> Any:
        try:
            is_right = verify(*given, **how)
        except VerifyMismatchError:  # any other fault is found without the work
            computed.append("verified")
            raise
        computed.append("verified")
        return is_right

    def counted_hash(*given: Any, **how: Any) -> bytes:
        computed.append("made")
        return make(*given, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_password_hasher, "verify_secret", counted_verify)
        patch.setattr(_password_hasher, "hash_secret", counted_hash)
        yield computed


@contextmanager
def statements_counted(parts: Parts) -> Iterator[list[str]]:
    """The statements that the service's own role runs meanwhile."""
    ran: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        ran.append(statement)

    engine = parts.db._worker
    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield ran
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)
