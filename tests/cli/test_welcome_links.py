"""The first minute of the first person: a link in the greeting, until somebody has used one."""

from pathlib import Path

import pytest

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.accounts.users import invitations
from quillpost.accounts.users.service import list_members
from quillpost.app.container import Container
from quillpost.cli.welcome import ACCOUNT_EMAIL, Welcome, prepare_welcome
from quillpost.core.database import Tx
from quillpost.core.settings import Settings
from support.browser_sessions import sign_in_browser
from support.test_client import TestClient

PASSWORD = "a card for every neighbour"


@pytest.fixture
def start(container: Container, tmp_path: Path) -> "Starter":
    return Starter(container, tmp_path / "home")


class Starter:
    def __init__(self, container: Container, home: Path) -> None:
        self.parts, self.home = container, home

    def __call__(self) -> Welcome:
        settings = Settings(home=self.home, receiver=True, base_url="http://quillpost.test")
        return prepare_welcome(settings, self.parts.db.conninfo)


def shown(greeting: Welcome, capsys: pytest.CaptureFixture[str]) -> str:
    greeting.print_message()
    return capsys.readouterr().out


def test_the_greeting_has_a_link_until_somebody_has_joined(
    start: Starter, http: TestClient, container: Container, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = start(), start()
    assert first.join_url != second.join_url
    assert f"  Set password {second.join_url}\n" in shown(second, capsys)
    browser = sign_in_browser(http)
    assert browser.get(str(first.join_url)).status_code == 404
    assert ACCOUNT_EMAIL in browser.get(str(second.join_url)).text
    browser.post(str(second.join_url), name="You", password=PASSWORD, again=PASSWORD)
    with container.db.system_transaction() as tx:
        account_id = read_account(tx)
        [member] = list_members(tx, account_id)
    assert (member.email, member.role) == (ACCOUNT_EMAIL, "owner")
    after = start()
    assert after.join_url is None
    assert "  Sign in      http://quillpost.test/sign-in\n" in shown(after, capsys)
    assert after == second


def test_the_first_account_begins_its_audit_log(start: Starter, container: Container) -> None:
    start()
    with container.db.system_transaction() as tx:
        entries = list(reversed(list_audit_entries(tx, read_account(tx))))
    assert [entry.act for entry in entries] == ["account.created", "token.created", "person.invited"]
    assert {entry.actor for entry in entries} == {"the command line"}
    assert dict(entries[1].about, id=1) == {"id": 1, "name": "first steps", "mode": "test"}


def test_however_often_it_starts_there_is_a_link_and_one_line_of_it(
    start: Starter, http: TestClient, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invitations, "MAX_EMAILS_PER_DAY", 2)
    links = [start().join_url for _ in range(4)]
    assert ACCOUNT_EMAIL in sign_in_browser(http).get(str(links[-1])).text
    with container.db.system_transaction() as tx:
        acts = [entry.act for entry in list_audit_entries(tx, read_account(tx))]
    assert acts == ["person.invited", "token.created", "account.created"]


def test_nothing_is_mailed_to_an_address_that_is_nobodys(start: Starter, container: Container) -> None:
    start()
    with container.db.system_transaction() as tx:
        assert tx.exec_driver_sql("select count(*) from notices").scalar() == 0


def read_account(tx: Tx) -> int:
    return int(tx.exec_driver_sql("select id from accounts").scalar_one())
