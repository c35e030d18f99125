"""The page that an invitation leads to: for somebody new, for somebody known, for somebody else."""

import pytest

from quillpost.accounts.audit.service import COMMAND_LINE_ACTOR
from quillpost.accounts.models import Role
from quillpost.accounts.users import invitations
from quillpost.app.container import Container
from quillpost.core.tokens import mint_secret
from support.browser_sessions import PASSWORD, Browser, make_user, sign_in_browser
from support.factories import Account, Clock, make_sub_account
from support.test_client import TestClient

NEW = "a brand new set of words"


@pytest.fixture
def browser(http: TestClient) -> Browser:
    return sign_in_browser(http)


def invite(
    container: Container,
    owner: Account,
    email: str = "mel@example.com",
    *,
    role: Role = "member",
    sub_account_id: int | None = None,
) -> str:
    """The link's path."""
    with container.db.system_transaction() as tx:
        link = invitations.invite(
            tx,
            container.encryptor,
            owner.id,
            email=email,
            role=role,
            sub_account_id=sub_account_id,
            actor=COMMAND_LINE_ACTOR,
            base_url=container.base_url,
            now=container.clock(),
            send_email=False,
        )
    return link.removeprefix(container.base_url)


def test_somebody_new_joins_with_a_name_and_a_password(container: Container, owner: Account, browser: Browser) -> None:
    path = invite(container, owner)
    shown = browser.get(path)
    assert shown.status_code == 200
    assert "mel@example.com" in shown.text
    assert "a member, who sends mail" in shown.text
    joined = browser.post(path, name="Mel Ortiz", password=NEW, again=NEW)
    assert (joined.status_code, joined.url.path) == (200, "/")
    assert "Welcome. You have joined Dana Whitfield." in joined.text
    assert "Mel Ortiz" in joined.text
    browser.post("/sign-out")
    assert browser.sign_in("mel@example.com", NEW).url.path == "/"
    assert browser.get(path).status_code == 404


def test_invalid_input_is_reported_and_the_link_stays_valid(
    container: Container, owner: Account, browser: Browser
) -> None:
    path = invite(container, owner)
    for name, password, again, field in (
        ("Mel Ortiz", "short", "short", "password"),
        ("Mel Ortiz", NEW, "another", "again"),
        ("", NEW, NEW, "name"),
        ("a" * 301, NEW, NEW, "name"),
    ):
        refused = browser.post(path, name=name, password=password, again=again)
        assert refused.status_code == 422, field
        assert f'id="{field}-fault" role="alert"' in refused.text
        assert f'value="{name[:300]}"' in refused.text
        assert NEW not in refused.text
    assert browser.post(path, name="Mel Ortiz", password=NEW, again=NEW).url.path == "/"


def test_somebody_known_signs_in_and_accepts(
    container: Container, owner: Account, stranger: Account, browser: Browser
) -> None:
    make_user(container, stranger.id, "mel@example.com", name="Mel Ortiz")
    branch = make_sub_account(container, owner, "Branch")
    path = invite(container, owner, "Mel@example.com", sub_account_id=branch)
    shown = browser.get(path).text
    assert "There is somebody with this e-mail here already." in shown
    assert 'name="password"' not in shown
    assert browser.post(path, name="Eve", password=NEW, again=NEW).text.count("somebody with this e-mail") == 1
    assert browser.sign_in("mel@example.com", NEW).status_code == 422
    browser.post("/sign-in", email="mel@example.com", password=PASSWORD, next=path)
    assert browser.shown is not None
    assert browser.shown.url.path == path
    joined = browser.post(path)
    assert "You have joined Dana Whitfield, for Branch." in joined.text
    assert "Branch" in joined.text
    assert "Other accounts" in joined.text


def test_another_user_sees_that_the_invitation_is_for_somebody_else(
    container: Container, owner: Account, stranger: Account, browser: Browser
) -> None:
    make_user(container, stranger.id, "eve@example.com", name="Eve")
    path = invite(container, owner)
    browser.sign_in("eve@example.com")
    for shown in (browser.get(path), browser.post(path), browser.post(path, name="Eve", password=NEW, again=NEW)):
        assert "this invitation is for somebody else" in shown.text
    assert "Other accounts" not in browser.get("/").text
    out = browser.post("/sign-out", next=path)
    assert out.url.path == path
    assert 'name="password"' in out.text


def test_old_used_unknown_and_broken_links_look_alike(
    container: Container, owner: Account, browser: Browser, clock: Clock
) -> None:
    first = invite(container, owner)
    second = invite(container, owner)
    assert browser.get(second).status_code == 200
    responses = [
        browser.get(each) for each in (first, "/join/" + mint_secret("invitation", bytes(32)), "/join/nonsense")
    ]
    clock.advance(days=7, seconds=1)
    responses.append(browser.get(second))
    responses.append(browser.post(second, name="Mel Ortiz", password=NEW, again=NEW))
    assert {each.status_code for each in responses} == {404}
    assert len({each.text for each in responses}) == 1
    assert "This link is over." in responses[0].text


def test_the_name_of_an_account_is_shown_as_it_is_written(
    container: Container, owner: Account, browser: Browser
) -> None:
    with container.db.system_transaction() as tx:
        tx.exec_driver_sql("update accounts set name = '<script>alert(1)</script>'")
    shown = browser.get(invite(container, owner)).text
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(1)" in shown
