"""For whoever has forgotten the password: the page that asks, the link, and the page that it leads to."""

import pytest
import sqlalchemy as sa

from quillpost.accounts.users import passwords
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import people
from quillpost.core.tokens import mint_secret
from support.browser_sessions import PASSWORD, Browser, make_user, send_emails, sign_in_browser
from support.factories import Account, Clock, count_rows
from support.test_client import TestClient

NEW = "a brand new set of words"


@pytest.fixture
def browser(container: Container, http: TestClient, owner: Account) -> Browser:
    make_user(container, owner.id, "dana@example.com")
    send_emails(http, container)
    return sign_in_browser(http)


def link(container: Container, email: str = "dana@example.com") -> str:
    with container.db.system_transaction() as tx:
        person_id = tx.execute(sa.select(people.c.id).where(people.c.email == email)).scalar_one()
        whole = passwords.create_reset_link(tx, person_id, base_url=container.base_url, now=container.clock())
    return whole.removeprefix(container.base_url)


@pytest.mark.usefixtures("clean_database")
def test_asking_says_the_same_whether_or_not_somebody_has_the_email(container: Container, browser: Browser) -> None:
    known = browser.post("/forgot", email="dana@example.com")
    written = count_rows(container)
    unknown = browser.post("/forgot", email="nobody@example.com")
    assert known.status_code == unknown.status_code == 200
    assert known.text == unknown.text
    assert "Look into your mailbox" in known.text
    assert "dana" not in known.text
    assert count_rows(container) == written
    assert (written["password_resets"], written["notices"]) == (1, 1)


def test_an_invalid_email_is_refused(browser: Browser) -> None:
    shown = browser.post("/forgot", email="dana")
    assert shown.status_code == 422
    assert "Type your e-mail." in shown.text
    assert 'value="dana"' in shown.text


def test_the_link_sets_another_password_once_and_ends_every_session(
    container: Container, http: TestClient, browser: Browser
) -> None:
    elsewhere = sign_in_browser(http)
    elsewhere.sign_in("dana@example.com")
    path = link(container)
    shown = browser.get(path)
    assert shown.status_code == 200
    assert "dana@example.com" in shown.text
    assert "you will be signed out" in shown.text
    done = browser.post(path, password=NEW, again=NEW)
    assert (done.status_code, done.url.path) == (200, "/sign-in")
    assert "Your password is set." in done.text
    assert elsewhere.get("/settings", follow=False).status_code == 303
    assert browser.sign_in("dana@example.com", PASSWORD).status_code == 422
    assert browser.sign_in("dana@example.com", NEW).url.path == "/"
    assert browser.get(path).status_code == 404
    assert browser.post(path, password=NEW, again=NEW).status_code == 404


def test_an_unsuitable_password_is_refused_and_the_link_stays_valid(container: Container, browser: Browser) -> None:
    path = link(container)
    for password, again, field in (
        ("short", "short", "password"),
        ("password123", "password123", "password"),
        (NEW, NEW + "!", "again"),
        ("", "", "password"),
    ):
        shown = browser.post(path, password=password, again=again)
        assert shown.status_code == 422, password
        assert f'id="{field}-fault" role="alert"' in shown.text
        assert not password or f'value="{password}"' not in shown.text
    assert browser.post(path, password=NEW, again=NEW).url.path == "/sign-in"


def test_old_unknown_and_broken_links_look_alike(container: Container, browser: Browser, clock: Clock) -> None:
    path = link(container)
    clock.advance(hours=1, seconds=1)
    responses = [browser.get(each) for each in (path, "/reset/" + mint_secret("reset", bytes(32)), "/reset/nonsense")]
    assert {each.status_code for each in responses} == {404}
    assert len({each.text for each in responses}) == 1
    assert "This link is over." in responses[0].text
    assert browser.post("/reset/nonsense", password=NEW, again=NEW).status_code == 404


def test_a_newer_link_ends_the_earlier_one(container: Container, browser: Browser) -> None:
    first, second = link(container), link(container)
    assert browser.get(first).status_code == 404
    assert browser.get(second).status_code == 200


def test_the_secret_of_the_path_goes_to_nobody(container: Container, browser: Browser) -> None:
    shown = browser.get(link(container))
    assert shown.headers["Referrer-Policy"] == "strict-origin"
    assert shown.headers["Cache-Control"] == "no-store"
