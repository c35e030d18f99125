"""An account with an owner, two who are none, and somebody else's: each in a browser of their own."""

from typing import Any

import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.users.sessions import create_session
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import people
from quillpost.core.database.tables.base import metadata
from quillpost.web.security import SESSION
from support.browser_sessions import Browser, make_user, sign_in_browser
from support.factories import CHANGES_WITH_EVERY_CALL, make_account, make_sub_account
from support.test_client import TestClient

OWNER, MEMBER, LIMITED, STRANGER = (
    "dana@example.com", "finn@example.com", "lou@example.com", "sam@example.org",
)  # fmt: skip
SEEN_WITH_EVERY_VISIT = {"sessions"}


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
        with self.parts.db.system_transaction() as tx:
            return int(tx.execute(sa.select(people.c.id).where(people.c.email == email)).scalar_one())

    def join(self, email: str, account_id: int, **how: Any) -> int:
        """Somebody, perhaps of another account, comes into this one too."""
        return make_user(self.parts, account_id, email, password=None, **how)

    def ping(self, token: str) -> int:
        """How the API answers this token."""
        headers = {"Authorization": f"Bearer {token}"}
        return int(self.http.get("/api/v2/ping", headers=headers).status_code)

    def everything(self) -> dict[str, int]:
        """How many rows there are of each thing, whatever every visit changes aside."""
        kept = [
            table
            for name, table in metadata.tables.items()
            if name not in CHANGES_WITH_EVERY_CALL - {"tokens"} | SEEN_WITH_EVERY_VISIT
        ]
        counts = [sa.select(sa.func.count()).select_from(table).scalar_subquery() for table in kept]
        with self.parts.db.system_transaction() as tx:
            row = tx.execute(sa.select(*counts)).one()
        return {table.name: count for table, count in zip(kept, row, strict=True)}

    def refuses_others(self, *calls: str, another: int | None = None) -> None:
        """Of these pages and forms, such as `GET /settings/tokens`: whoever is not signed in is led to where
        one signs in, teammates are told that they may not, and an owner of another account than the one whose
        is `another` finds nothing, as if it were not there. Nothing of it leaves anything behind."""
        teammates, stranger = (self.member, self.limited), self.stranger
        before = self.everything()
        for call in calls:
            nobody = self._call(self.nobody(), call)
            assert nobody.status_code == 303, call
            assert nobody.headers["Location"].startswith("/sign-in"), call
            for teammate in teammates:
                refused = self._call(teammate, call)
                assert refused.status_code == 403, call
                assert "Only an owner of this account may do this." in refused.text, call
            if f"/{another}/" in f"{call}/":
                assert self._call(stranger, call).status_code == 404, call
        assert self.everything() == before

    def is_as_if_unknown(self, browser: Browser, path: str, number: int) -> bool:
        """Whether the page with this number in its path is answered as one with a number of nothing."""
        unknown = path.replace(f"/{number}", "/999999")
        known, other = browser.get(path), browser.get(unknown)
        return (known.status_code, known.text) == (404, other.text.replace(unknown, path))

    def _call(self, browser: Browser, call: str) -> Response:
        method, path = call.split()
        return (browser.get if method == "GET" else browser.post)(path, follow=False)
