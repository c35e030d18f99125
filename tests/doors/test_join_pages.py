"""The page that an invitation leads to: for somebody new, for somebody known, for somebody else."""

import pytest
from signed_in import PASSWORD, Browser, browser_of, make_person

from direct import TestClient
from makers import Account, Clock, make_sub_account
from quillpost.accounts.audit.service import AT_THE_COMMAND_LINE
from quillpost.accounts.models import Role
from quillpost.accounts.users import invitations
from quillpost.app.container import Parts
from quillpost.core.tokens import mint

NEW = "a brand new set of words"


@pytest.fixture
def browser(http: TestClient) -> Browser:
    return browser_of(http)


def invite(
    parts: Parts,
    owner: Account,
    email: str = "mel@example.com",
    *,
    role: Role = "member",
    sub_account_id: int | None = None,
) -> str:
    """The link's path."""
    with parts.db.work() as tx:
        link = invitations.invite(
            tx,
            parts.sealer,
            owner.id,
            email=email,
            role=role,
            sub_account_id=sub_account_id,
            actor=AT_THE_COMMAND_LINE,
            base_url=parts.base_url,
            now=parts.clock(),
            is_mailed=False,
        )
    return link.removeprefix(parts.base_url)


def test_somebody_new_joins_with_a_name_and_a_password(
    parts: Parts, owner: Account, browser: Browser
) -> None:
    path = invite(parts, owner)
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


def test_what_will_not_do_is_told_and_the_link_stays_good(
    parts: Parts, owner: Account, browser: Browser
) -> None:
    path = invite(parts, owner)
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
    parts: Parts, owner: Account, stranger: Account, browser: Browser
) -> None:
    make_person(parts, stranger.id, "mel@example.com", name="Mel Ortiz")
    branch = make_sub_account(parts, owner, "Branch")
    path = invite(parts, owner, "Mel@example.com", sub_account_id=branch)
    shown = browser.get(path).text
    assert "There is somebody with this e-mail here already." in shown
    assert 'name="password"' not in shown
    assert (
        browser.post(path, name="Eve", password=NEW, again=NEW).text.count("somebody with this e-mail") == 1
    )
    assert browser.sign_in("mel@example.com", NEW).status_code == 422
    browser.post("/sign-in", email="mel@example.com", password=PASSWORD, next=path)
    assert browser.shown is not None
    assert browser.shown.url.path == path
    joined = browser.post(path)
    assert "You have joined Dana Whitfield, for Branch." in joined.text
    assert "Branch" in joined.text
    assert "Other accounts" in joined.text


def test_somebody_else_is_told_whom_it_is_for_and_joins_nothing(
    parts: Parts, owner: Account, stranger: Account, browser: Browser
) -> None:
    make_person(parts, stranger.id, "eve@example.com", name="Eve")
    path = invite(parts, owner)
    browser.sign_in("eve@example.com")
    for shown in (
        browser.get(path),
        browser.post(path),
        browser.post(path, name="Eve", password=NEW, again=NEW),
    ):
        assert "this invitation is for somebody else" in shown.text
    assert "Other accounts" not in browser.get("/").text
    out = browser.post("/sign-out", next=path)
    assert out.url.path == path
    assert 'name="password"' in out.text


def test_old_used_unknown_and_broken_links_look_alike(
    parts: Parts, owner: Account, browser: Browser, clock: Clock
) -> None:
    first = invite(parts, owner)
    second = invite(parts, owner)
    assert browser.get(second).status_code == 200
    told = [browser.get(each) for each in (first, "/join/" + mint("invitation", bytes(32)), "/join/nonsense")]
    clock.advance(days=7, seconds=1)
    told.append(browser.get(second))
    told.append(browser.post(second, name="Mel Ortiz", password=NEW, again=NEW))
    assert {each.status_code for each in told} == {404}
    assert len({each.text for each in told}) == 1
    assert "This link is over." in told[0].text


def test_the_name_of_an_account_is_shown_as_it_is_written(
    parts: Parts, owner: Account, browser: Browser
) -> None:
    with parts.db.work() as tx:
        tx.exec_driver_sql("update accounts set name = '<script>alert(1)</script>'")
    shown = browser.get(invite(parts, owner)).text
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(1)" in shown
