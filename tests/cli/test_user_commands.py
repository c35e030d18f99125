"""`quillpost people`: invited, listed, helped and removed by whoever has the machine in hand."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import list_audit_entries
from quillpost.accounts.queries import insert_token
from quillpost.accounts.users import second_factor
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import people, sessions
from quillpost.core.database.tables.notifications import notices
from support.browser_sessions import make_user, sign_in_browser
from support.cli_results import CommandResult, Quillpost
from support.factories import Account, make_sub_account

EMAIL, DANA = "owner@example.com", "dana@example.com"
PASSWORD = "a card for every neighbour"

People = Callable[..., CommandResult]


@pytest.fixture
def command(owner: Account, quillpost: Quillpost, conninfo: str, tmp_path: Path) -> People:
    """With the key of the service that the test calls: it seals what goes by mail."""

    def run(*words: object, **settings: object) -> CommandResult:
        given = {"home": tmp_path / "home", "database_url": conninfo, "base_url": "http://quillpost.test"}
        return quillpost("people", *words, **given | settings)

    return run


def invite(command: People, email: str = DANA, role: str = "owner", *more: object) -> CommandResult:
    return command("invite", "--account", EMAIL, "--email", email, "--role", role, *more)


def log_of(container: Container, account: Account) -> list[str]:
    with container.db.system_transaction() as tx:
        return [describe_entry(entry) for entry in list_audit_entries(tx, account.id)]


def listed(command: People) -> dict[str, list[dict[str, object]]]:
    shown: dict[str, list[dict[str, object]]] = json.loads(command("list", "--account", EMAIL, "--json").out)
    return shown


def mails(container: Container) -> list[str]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(notices.c.address)).scalars())


def path_of(link: str) -> str:
    assert link.startswith("http://quillpost.test/")
    return link.strip().removeprefix("http://quillpost.test")


def test_the_link_is_printed_alone_and_lets_somebody_in(command: People, owner: Account, container: Container) -> None:
    invited = invite(command)
    assert (invited.code, invited.err, invited.out.count("\n")) == (0, "", 1)
    browser = sign_in_browser(owner.http)
    joined = browser.post(path_of(invited.out), name="Dana", password=PASSWORD, again=PASSWORD)
    assert joined.status_code == 200
    [member] = listed(command)["members"]
    assert (member["email"], member["role"], member["name"]) == (DANA, "owner", "Dana")
    assert f"the command line invited somebody: {DANA} (owner)" in log_of(container, owner)


def test_it_goes_by_mail_too_unless_it_should_not(command: People, container: Container) -> None:
    invite(command, "a@example.com", "member", "--no-mail")
    assert mails(container) == []
    invite(command, "b@example.com", "member")
    assert mails(container) == ["b@example.com"]


def test_a_member_may_be_limited_to_a_sub_account(command: People, owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    invite(command, DANA, "member", "--sub-account", branch)
    [invited] = listed(command)["invited"]
    assert (invited["email"], invited["role"], invited["sub_account_id"]) == (DANA, "member", branch)
    shown = command("list", "--account", EMAIL).out
    assert "dana@example.com" in shown
    assert str(invited["sub_account_title"]) in shown
    assert f"({branch})" in shown
    assert "invited until" in shown


def test_the_list_breaks_no_word_on_a_terminal_of_eighty_letters(
    command: People, owner: Account, container: Container
) -> None:
    long = "dana.whitfield@north.example.com"
    make_user(container, owner.id, long, name="Dana Maria Whitfield")
    branch = make_sub_account(container, owner, "North Shop")
    invite(command, "kim.invited@north.example.com", "member", "--sub-account", branch)
    lines = command("list", "--account", EMAIL, columns=80).out.splitlines()
    assert max(map(len, lines)) <= 80
    [dana] = [line for line in lines if long in line]
    assert "owner" in dana
    assert "not lately" in dana
    at = next(n for n, line in enumerate(lines) if "kim.invited@north.example.com" in line)
    words = " ".join(lines[at:]).split()
    assert {"invited", "until", "member", "North", "Shop", f"({branch})"} <= set(words)
    assert any(re.fullmatch(r"\d{4}-\d\d-\d\d", word) for word in words)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("nobody", "member"), "This is not an e-mail address."),
        ((DANA, "operator"), "This account does not run the service"),
        ((DANA, "owner", "--sub-account", 1), "Only a member can be limited to one sub account."),
        ((DANA, "member", "--sub-account", 4711), "There is no such sub account."),
    ],
)
def test_an_invitation_that_cannot_be_is_one_sentence(command: People, words: tuple[object, ...], error: str) -> None:
    outcome = invite(command, *words)  # type: ignore[arg-type]
    assert (outcome.code, outcome.out) == (1, "")
    assert error in outcome.err


def test_an_account_without_anybody_says_so(command: People) -> None:
    assert command("list", "--account", EMAIL).out.startswith("Nobody is in it")


def test_the_list_shows_each_user_with_role_and_last_sign_in(
    command: People, owner: Account, container: Container
) -> None:
    make_user(container, owner.id, DANA, name="Dana [bold]")
    line = next(line for line in command("list", "--account", EMAIL).out.splitlines() if DANA in line)
    assert all(word in line for word in ("Dana [bold]", "owner", "off", "not lately"))


def test_a_reset_link_is_printed_alone_and_sets_another_password(
    command: People, owner: Account, container: Container
) -> None:
    make_user(container, owner.id, DANA)
    link = command("reset", DANA.upper())
    assert (link.code, link.err, link.out.count("\n")) == (0, "", 1)
    browser = sign_in_browser(owner.http)
    browser.post(path_of(link.out), password=PASSWORD, again=PASSWORD)
    browser.sign_in(DANA, PASSWORD)
    assert browser.get("/settings", follow=False).status_code == 200
    assert any(line.startswith("the command line asked for another password") for line in log_of(container, owner))


def test_a_second_factor_is_turned_off(command: People, owner: Account, container: Container) -> None:
    person = make_user(container, owner.id, DANA)
    refused = command("second-factor-off", DANA)
    assert refused.is_one_sentence()
    assert f"{DANA} has no second factor." in refused.err
    with container.db.system_transaction() as tx:
        second_factor.begin_enrollment(tx, container.encryptor, person, issuer="Quillpost", now=container.clock())
        tx.execute(sa.update(people).values(totp_since=container.clock()))
    assert command("second-factor-off", DANA).out == f"{DANA} signs in with the password alone now.\n"
    with container.db.system_transaction() as tx:
        row = tx.execute(sa.select(people.c.totp_sealed, people.c.totp_since)).one()
    assert tuple(row) == (None, None)
    assert mails(container) == [DANA]


def test_whoever_is_removed_takes_sessions_and_tokens_along(
    command: People, owner: Account, container: Container
) -> None:
    make_user(container, owner.id, "first@example.com")
    person = make_user(container, owner.id, DANA, role="member")
    browser = sign_in_browser(owner.http)
    browser.sign_in(DANA)
    with container.db.system_transaction() as tx:
        _, token = insert_token(
            tx, owner.id, name="hers", mode="test", scopes=None, person_id=person, now=container.clock()
        )
    assert command("remove", "--account", EMAIL, "--email", DANA).out == f"{DANA} is no longer in the account.\n"
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(sessions.c.id).where(sessions.c.person_id == person)).all() == []
    ping = owner.http.get("/api/v2/ping", headers={"Authorization": f"Bearer {token}"})
    assert ping.status_code == 401
    assert owner.get("/ping").status_code == 200


def test_an_invitation_is_taken_back(command: People, owner: Account) -> None:
    link = invite(command).out
    assert command("remove", "--account", EMAIL, "--email", DANA).out == f"{DANA} is no longer invited.\n"
    assert sign_in_browser(owner.http).get(path_of(link)).status_code == 404
    assert listed(command) == {"members": [], "invited": []}


def test_the_last_owner_stays(command: People, owner: Account, container: Container) -> None:
    make_user(container, owner.id, DANA)
    outcome = command("remove", "--account", EMAIL, "--email", DANA)
    assert outcome.is_one_sentence()
    assert "keeps at least one owner" in outcome.err


@pytest.mark.parametrize(
    "words",
    [
        ("invite", "--account", "who@example.com", "--email", DANA, "--role", "member"),
        ("list", "--account", "who@example.com"),
        ("reset", "who@example.com"),
        ("second-factor-off", "who@example.com"),
        ("remove", "--account", EMAIL, "--email", "who@example.com"),
    ],
)
def test_nobody_is_one_sentence(command: People, words: tuple[str, ...]) -> None:
    assert command(*words).is_one_sentence()
