"""An operator at the print room's pages, and others who must not be there."""

import re
from html import unescape

import sqlalchemy as sa

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import sessions
from support.account_pages import AccountPages
from support.browser_sessions import Browser
from support.factories import Account, make_operator
from support.test_client import TestClient

RUNS_IT = "ops@example.com"
TAGS = re.compile(r"<[^>]+>")


def page_text(text: str) -> str:
    """A page's words as one line."""
    return " ".join(unescape(TAGS.sub(" ", text)).split())


class PrintRoomPages(AccountPages):
    """The house, and somebody who runs the service."""

    def __init__(self, container: Container, http: TestClient) -> None:
        super().__init__(container, http)
        self.runs = make_operator(container, http)
        self.ops: Browser = self.browser(RUNS_IT, self.runs.id)

    def look_at(self, mode: str, browser: Browser | None = None) -> Browser:
        """The operator, in this mode."""
        with self.parts.db.system_transaction() as tx:
            tx.execute(sa.update(sessions).values(mode=mode))
        looks = browser or self.ops
        looks._csrf = None  # it is of the other mode
        return looks

    def words(self, path: str) -> str:
        """What the operator reads there."""
        shown = self.ops.get(path)
        assert shown.status_code == 200, (path, shown.status_code, shown.text[:500])
        return page_text(shown.text)

    def acts(self, account: Account | None = None) -> list[str]:
        """What the log of the operator's account tells, or of another, the newest first."""
        with self.parts.db.system_transaction() as tx:
            found = list_audit_entries(tx, (account or self.runs).id)
        return [entry.act for entry in found if entry.act != "sign_in"]
