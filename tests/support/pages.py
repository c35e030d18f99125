"""Pages as their readers have them, and an account with an owner, two who are none, and somebody else's, each in a
browser of their own."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from typing import Any, Self

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.audit.service import AuditEntry, list_audit_entries
from quillpost.accounts.queries import insert_token
from quillpost.accounts.users.sessions import create_session
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import oauth_clients, oauth_grants, people, sessions
from quillpost.core.database.tables.base import metadata
from quillpost.web.security import SESSION
from support.factories import CHANGES_WITH_EVERY_CALL, Account, make_account, make_operator, make_sub_account
from support.sign_in import Browser, make_user, sign_in_browser
from support.test_client import TestClient

TAGS = re.compile(r"<[^>]+>")
FIELD_ERROR = re.compile(r'id="([\w-]+?)-fault\d*"[^>]*>([^<]*)')


def source_of(page: Response | str) -> str:
    return page if isinstance(page, str) else page.text


def page_text(page: Response | str) -> str:
    """A page's words as one line."""
    source = source_of(page)
    return " ".join(unescape(TAGS.sub(" ", source[max(source.find("<body"), 0) :])).split())


def form_errors(page: Response | str) -> dict[str, str]:
    """By field, what is wrong with it."""
    found: dict[str, str] = {}
    for name, words in FIELD_ERROR.findall(source_of(page)):
        found[name] = f"{found.get(name, '')} {unescape(words)}".strip()
    return found


def assert_shows(page: Response | str, *words: str, hides: Sequence[str] = (), status: int | None = None) -> None:
    """All these words and none that it hides; and, if one is given, under this status."""
    text = source_of(page)
    assert status is None or (isinstance(page, Response) and page.status_code == status), page
    missing = [each for each in words if each not in text]
    assert missing == [], page_text(text)[:2_000]
    assert_hides(page, *hides)


def assert_hides(page: Response | str, *words: str) -> None:
    text = source_of(page)
    shown = [each for each in words if each in text]
    assert shown == [], page_text(text)[:2_000]


@dataclass
class ParsedPage(HTMLParser):
    """Ids, addresses that tags point to, attributes and words of a page."""

    ids: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    attributes: set[str] = field(default_factory=set)
    inline_code: list[str] = field(default_factory=list)
    words: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._open, self._texts = "", list[str]()

    @classmethod
    def of(cls, page: str) -> Self:
        seen = cls()
        seen.feed(page)
        seen.close()
        seen.words = "".join(seen._texts)
        return seen

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "srcset", "action", "data", "poster"):
                self.addresses.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in ("script", "style") and data.strip():
            self.inline_code.append(data)
        self._texts.append(data)


OWNER, MEMBER, LIMITED, STRANGER = (
    "dana@example.com", "finn@example.com", "lou@example.com", "sam@example.org",
)  # fmt: skip
RUNS_IT = "ops@example.com"
SEEN_WITH_EVERY_VISIT = {"sessions"}
ADDRESS: dict[str, Any] = {
    "return_address": "500 Congress Ave", "return_city": "Austin", "return_state": "TX", "return_postal_code": "78701",
}  # fmt: skip
"""Where live mail comes from."""
COUNTED = [
    table
    for name, table in metadata.tables.items()
    if name not in CHANGES_WITH_EVERY_CALL - {"tokens"} | SEEN_WITH_EVERY_VISIT
]

WrongForm = tuple[Mapping[str, Any], str, str]
"""What is changed in a good form, the field that is wrong then, and what is said of it."""


class AccountPages:
    """Whoever a test asks for is signed in by then."""

    def __init__(self, container: Container, http: TestClient) -> None:
        self.parts, self.http = container, http
        self.account = make_account(container, http, "owner@example.com")
        self.others = make_account(container, http, "stranger@example.com")
        self.branch = make_sub_account(container, self.account, "Dallas")
        self._signed_in: dict[str, Browser] = {}
        self.owner = self.browser(OWNER, self.account.id)

    def browser(self, email: str, account_id: int, **how: Any) -> Browser:
        """Somebody's, who has given their password just now."""
        if email in self._signed_in:
            return self._signed_in[email]
        person_id = self.join(email, account_id, **how)
        with self.parts.db.system_transaction() as tx:
            cookie = create_session(
                tx, person_id, awaits_code=False, address=None, browser=None, now=self.parts.clock()
            )
        browser = self._signed_in[email] = sign_in_browser(self.http)
        browser.client.cookies.set(SESSION, cookie)
        assert browser.get("/settings/apps").status_code == 200
        return browser

    @property
    def member(self) -> Browser:
        """A teammate who sends, for the whole account."""
        return self.browser(MEMBER, self.account.id, role="member")

    @property
    def limited(self) -> Browser:
        """A teammate who sends for one sub account."""
        return self.browser(LIMITED, self.account.id, role="member", sub_account_id=self.branch)

    @property
    def stranger(self) -> Browser:
        """An owner, of another account."""
        return self.browser(STRANGER, self.others.id)

    def nobody(self) -> Browser:
        """Somebody who has not signed in."""
        return sign_in_browser(self.http)

    def person(self, email: str) -> int:
        """The id of somebody who is there by now."""
        return int(self.value(sa.select(people.c.id).where(people.c.email == email)))

    def join(self, email: str, account_id: int, **how: Any) -> int:
        """Somebody, perhaps of another account, comes into this one too."""
        return make_user(self.parts, account_id, email, password=None, **how)

    def connect_app(
        self, account: Account, email: str, name: str = "Zapier", *, mode: str = "test",
        sub_account_id: int | None = None, scopes: list[str] | None = None,
    ) -> tuple[int, str]:  # fmt: skip
        """A connected app of somebody's, whose client the stranger has registered; the connection's number and
        its token."""
        now, person_id = self.parts.clock(), self.person(email)
        known = sa.select(oauth_clients.c.id).where(
            oauth_clients.c.name == name, oauth_clients.c.account_id == self.others.id
        )
        client = sa.insert(oauth_clients).values(
            account_id=self.others.id, client_id=f"{name} of {self.others.id}", name=name, is_public=True,
            website="https://app.example.com/", redirect_uris=["https://app.example.com/back"], created_at=now,
            updated_at=now,
        )  # fmt: skip
        place: dict[str, Any] = {
            "mode": mode,
            "scopes": scopes,
            "sub_account_id": sub_account_id,
            "person_id": person_id,
        }
        with self.parts.db.system_transaction() as tx:
            client_id = tx.scalar(known) or tx.scalar(client.returning(oauth_clients.c.id))
            grant = sa.insert(oauth_grants).values(
                account_id=account.id, client_id=client_id, created_at=now, connected_at=now, **place
            )
            grant_id = int(tx.execute(grant.returning(oauth_grants.c.id)).scalar_one())
            return grant_id, insert_token(tx, account.id, name=name, grant_id=grant_id, now=now, **place)[1]

    def ping(self, token: str) -> int:
        """How the API answers this token."""
        headers = {"Authorization": f"Bearer {token}"}
        return int(self.http.get("/api/v2/ping", headers=headers).status_code)

    def execute(self, *statements: sa.Executable) -> None:
        with self.parts.db.system_transaction() as tx:
            for statement in statements:
                tx.execute(statement)

    def rows(self, query: sa.Executable) -> list[sa.Row[Any]]:
        with self.parts.db.system_transaction() as tx:
            return list(tx.execute(query).all())

    def value(self, query: sa.Executable) -> Any:
        """The only value of the only row."""
        [[value]] = self.rows(query)
        return value

    def log(self, account: Account | None = None) -> list[AuditEntry]:
        """What the log of the account tells, the newest first."""
        with self.parts.db.system_transaction() as tx:
            return list(list_audit_entries(tx, (account or self.account).id, limit=1_000))

    def acts(self, account: Account | None = None) -> list[str]:
        return [entry.act for entry in self.log(account) if entry.act != "sign_in"]

    def everything(self) -> dict[str, int]:
        """How many rows there are of each thing, whatever every visit changes aside."""
        counts = [sa.select(sa.func.count()).select_from(table).scalar_subquery() for table in COUNTED]
        [row] = self.rows(sa.select(*counts))
        return {table.name: count for table, count in zip(COUNTED, row, strict=True)}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Nothing that is done meanwhile leaves anything behind."""
        before = self.everything()
        yield
        assert self.everything() == before

    def refuses_forms(
        self, subtests: pytest.Subtests, path: str, good: Mapping[str, Any], wrong: Iterable[WrongForm],
        by: Browser | None = None,
    ) -> None:  # fmt: skip
        """Each of these comes back with what is wrong beside its field, and nothing of it is stored."""
        with self.unchanged():
            for changes, field, words in wrong:
                with subtests.test(f"{path} {str(changes)[:120]}"):
                    answer = (by or self.owner).post(path, **{**good, **changes})
                    assert answer.status_code == 422
                    errors = form_errors(answer)
                    assert (field, words in errors.get(field, "")) in [(name, True) for name in errors]

    def is_as_if_unknown(self, browser: Browser, path: str, number: int) -> bool:
        """Whether the page with this number in its path is answered as one with a number of nothing."""
        unknown = path.replace(f"/{number}", "/999999")
        known, other = browser.get(path), browser.get(unknown)
        return (known.status_code, known.text) == (404, other.text.replace(unknown, path))


class PrintRoomPages(AccountPages):
    """The account, and somebody who runs the service."""

    def __init__(self, container: Container, http: TestClient) -> None:
        super().__init__(container, http)
        self.runs = make_operator(container, http)
        self.ops: Browser = self.browser(RUNS_IT, self.runs.id)

    def look_at(self, mode: str) -> None:
        """The operator, in this mode."""
        self.execute(sa.update(sessions).where(sessions.c.person_id == self.person(RUNS_IT)).values(mode=mode))
        self.ops._csrf = None  # it is of the other mode

    def words(self, path: str) -> str:
        """What the operator reads there."""
        shown = self.ops.get(path)
        assert shown.status_code == 200, (path, shown.status_code, shown.text[:500])
        return page_text(shown)

    def operator_acts(self) -> list[str]:
        return self.acts(self.runs)
