"""People who sign in, what it takes the service, and a browser that does as theirs would."""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from html import unescape
from threading import Barrier
from typing import Any, TypeVar

import pyotp
import pytest
import sqlalchemy as sa
from argon2 import _password_hasher, low_level
from argon2.exceptions import VerifyMismatchError
from httpx2 import Response

from quillpost.accounts import service
from quillpost.accounts.audit.service import Actor, AuditEntry, list_audit_entries
from quillpost.accounts.models import Role
from quillpost.accounts.users import second_factor
from quillpost.accounts.users.sessions import SignedInUser, find_session
from quillpost.accounts.users.sign_in import SignInResult, SignInVisitor, sign_in
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import memberships, people
from quillpost.core.errors import Unauthenticated
from quillpost.web.security import create_one_time_key
from support.rows import scalar
from support.test_client import TestClient

PASSWORD = "plum orchard weather vane"
ACCEPTS = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CSRF = re.compile(r'name="csrf" value="([^"]+)"')

Filled = str | int | Sequence[str] | None


def make_user(
    container: Container,
    account_id: int,
    email: str,
    *,
    role: Role = "owner",
    sub_account_id: int | None = None,
    password: str | None = PASSWORD,
    name: str = "Dana Whitfield",
) -> int:
    """Somebody who belongs to the account, as if they had joined by a link. Made for a second account, the
    same person is in both."""
    now = container.clock()
    kept = None if password is None else container.sign_in_context.hasher.hash(password)
    with container.db.system_transaction() as tx:
        person_id = tx.scalar(sa.select(people.c.id).where(sa.func.lower(people.c.email) == email.lower()))
        if person_id is None:
            made = sa.insert(people).values(email=email, name=name, password_hash=kept, created_at=now, updated_at=now)
            person_id = tx.execute(made.returning(people.c.id)).scalar_one()
        tx.execute(
            sa.insert(memberships).values(
                account_id=account_id, sub_account_id=sub_account_id, person_id=person_id, role=role, created_at=now
            )
        )
    return int(person_id)


@dataclass
class Browser:
    """One browser, with cookies of its own. `shown` is the page that it shows at present."""

    client: TestClient
    shown: Response | None = None
    _csrf: tuple[frozenset[tuple[str, str | None]], str] | None = field(default=None, repr=False)

    def get(self, path: str, *, follow: bool = True, **how: Any) -> Response:
        headers = {"Accept": ACCEPTS, "Sec-Fetch-Site": "same-origin"} | how.pop("headers", {})
        return self._seen(self.client.get(path, headers=headers, follow_redirects=follow, **how))

    def post(
        self, path: str, /, *, follow: bool = True, headers: dict[str, str] | None = None, **fields: Filled
    ) -> Response:
        """Send a form, with the csrf word of our pages unless another is given (None: without any), and as
        one that was not sent before."""
        if "csrf" not in fields:
            fields["csrf"] = self.csrf()
        fields.setdefault("once", create_one_time_key())
        all_headers = {"Accept": ACCEPTS, "Sec-Fetch-Site": "same-origin", "Origin": self.origin} | (headers or {})
        data = {
            name: value if isinstance(value, (str, int)) else list(value)
            for name, value in fields.items()
            if value is not None
        }
        answer = self.client.post(path, data=data, headers=all_headers, follow_redirects=follow)
        return self._seen(answer)

    def sign_in(self, email: str, password: str = PASSWORD, *, follow: bool = True) -> Response:
        return self.post("/sign-in", email=email, password=password, follow=follow)

    def csrf(self) -> str:
        """The word that forms of ours carry for this browser, as it is now."""
        if self._csrf is None or self._csrf[0] != self._cookies():
            self.get("/sign-in")
        assert self._csrf is not None, "No page showed a form of ours."
        return self._csrf[1]

    @property
    def origin(self) -> str:
        return str(self.client.base_url).rstrip("/")

    def cookie(self, name: str) -> str | None:
        """The value of a cookie of ours, whether or not its name says that it is this host's alone."""
        found = [c.value for c in self.client.cookies.jar if c.name in (name, f"__Host-{name}")]
        return found[0] if found else None

    def _cookies(self) -> frozenset[tuple[str, str | None]]:
        return frozenset((cookie.name, cookie.value) for cookie in self.client.cookies.jar)

    def _seen(self, answer: Response) -> Response:
        self.shown = answer
        if found := CSRF.search(answer.text):
            self._csrf = self._cookies(), unescape(found[1])
        return answer


def sign_in_browser(http: TestClient, *, base_url: str | None = None, address: str = "192.0.2.1") -> Browser:
    """A new browser that visits the same service, somewhere on the net."""
    client = TestClient(
        http.app, base_url=base_url or str(http.base_url), raise_server_exceptions=False, client=(address, 50_000)
    )
    return Browser(client)


def send_emails(http: TestClient, container: Container) -> None:
    """As if a mail server were set up: our pages say so, and nothing else changes."""
    app: Any = http.app
    app.state.container = replace(container, has_mail_server=True)


def turn_on_second_factor(container: Container, email: str) -> pyotp.TOTP:
    """Turn somebody's second factor on; what their app would hold."""
    person_id = scalar(container, sa.select(people.c.id).where(people.c.email == email))
    return pyotp.TOTP(enroll_second_factor(container, person_id, email)[0])


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
