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

from quillpost.accounts import service
from quillpost.accounts.audit.service import Actor, AuditEntry, list_audit_entries
from quillpost.accounts.users import second_factor
from quillpost.accounts.users.sessions import SignedInUser, find_session
from quillpost.accounts.users.sign_in import SignInResult, SignInVisitor, sign_in
from quillpost.app.container import Container
from quillpost.core.errors import Unauthenticated
from support.browser_sessions import PASSWORD

DANA = "dana@example.com"
HOME = SignInVisitor("192.0.2.7", browser="Firefox")
ELSEWHERE = SignInVisitor("198.51.100.9", browser="Chrome")

T = TypeVar("T")


def sign_in_as(
    container: Container, email: str = DANA, password: str = PASSWORD, visitor: SignInVisitor = HOME
) -> SignInResult:
    return sign_in(container.sign_in_context, email, password, visitor, now=container.clock())


def find_user(container: Container, cookie: str | None) -> SignedInUser | None:
    assert cookie is not None
    return find_session(container.db, cookie, address="192.0.2.7", now=container.clock())


def sign_in_user(container: Container, email: str = DANA) -> SignedInUser:
    """Somebody who has signed in."""
    user = find_user(container, sign_in_as(container, email).cookie)
    assert user is not None
    return user


def is_good(container: Container, token: str) -> bool:
    """Whether calls with the token are let in."""
    try:
        service.authenticate(container.db, token, limit=1_000, now=container.clock())
    except Unauthenticated:
        return False
    return True


def actor_of(person_id: int, email: str = DANA) -> Actor:
    return Actor(email, person_id=person_id, address="192.0.2.7")


def enroll_second_factor(container: Container, person_id: int, email: str = DANA) -> tuple[str, list[str]]:
    """With a second factor: its secret, and the recovery codes."""
    with container.db.system_transaction() as tx:
        secret = second_factor.begin_enrollment(
            tx, container.encryptor, person_id, issuer="Q", now=container.clock()
        ).secret
        code = pyotp.TOTP(secret).at(container.clock())
        codes = second_factor.enable_second_factor(
            tx, container.encryptor, person_id, code, actor_of(person_id, email), now=container.clock()
        )
    assert codes is not None
    return secret, codes


def audit_log(container: Container, account_id: int) -> list[AuditEntry]:
    """The account's audit log, the oldest line first."""
    with container.db.system_transaction() as tx:
        return list(reversed(list_audit_entries(tx, account_id, limit=1_000)))


def audited_acts(container: Container, account_id: int) -> list[str]:
    return [entry.act for entry in audit_log(container, account_id)]


def shift_rate_windows(container: Container, **time: int) -> None:
    """Time for the counts, which run on the database's clock."""
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.text("update rate_windows set started_at = started_at - make_interval(mins => :minutes)"),
            {"minutes": time.get("minutes", 0) + 60 * time.get("hours", 0)},
        )
    container.sign_in_context.full_buckets.clear()


def run_twice_at_once(do: Callable[[], T]) -> list[T]:
    """What comes of it when two do it at the same moment."""
    ready = Barrier(2)

    def go(_: int) -> T:
        ready.wait(10)
        return do()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(go, range(2)))


@contextmanager
def count_hashes() -> Iterator[list[str]]:
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
def count_statements(container: Container) -> Iterator[list[str]]:
    """The statements that the service's own role runs meanwhile."""
    ran: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        ran.append(statement)

    engine = container.db._worker
    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield ran
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)
