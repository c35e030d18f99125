"""A page that speaks of one account, or of one mode of it, sent off when its reader looks at another, or is
in it no more: nothing is done in either."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import memberships, sessions
from quillpost.core.database.tables.base import accounts
from support.account_pages import OWNER, AccountPages
from support.browser_sessions import CSRF, Browser
from support.route_access import PAGE_NEEDS

FORMS: dict[str, dict[str, Any]] = {
    "/settings/tokens/new": {"name": "Zapier", "mode": "live", "limits": "all", "lasts": "never"},
    "/settings/people/invite": {"email": "kim@example.com", "role": "owner"},
    "/settings/clients/new": {
        "name": "Zapier", "redirect_uris": "https://app.example/back", "kind": "public", "limits": "all",
    },
}  # fmt: skip
EXPLICIT = {"/session/switch", "/oauth/authorize"}
"""Forms that say by themselves for which account they are."""

Going = Callable[[AccountPages], None]


@pytest.fixture
def house(container: Container, http: Any) -> AccountPages:
    """Whose owner owns the others' account too, and looks at their own."""
    house = AccountPages(container, http)
    house.join(OWNER, house.others.id)
    return house


def place(house: AccountPages, account_id: int) -> int:
    query = sa.select(memberships.c.id).where(
        memberships.c.account_id == account_id, memberships.c.person_id == house.person(OWNER)
    )
    with house.parts.db.system_transaction() as tx:
        return int(tx.execute(query).scalar_one())


def looked_at(house: AccountPages) -> int | None:
    with house.parts.db.system_transaction() as tx:
        return tx.scalar(sa.select(sessions.c.membership_id).where(sessions.c.person_id == house.person(OWNER)))


def word_on(browser: Browser, page: str) -> str:
    """The word of the forms on this page, as it stands open in a tab."""
    found = CSRF.search(browser.get(page).text)
    assert found is not None
    return found[1]


def go_on(house: AccountPages) -> None:
    """To the other account, in another tab."""
    house.owner.post("/session/switch", membership=place(house, house.others.id))


def be_removed(house: AccountPages) -> None:
    """Taken out of the account that is looked at; the other is left."""
    house.owner.post("/session/switch", membership=place(house, house.account.id))
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.delete(memberships).where(memberships.c.id == place(house, house.account.id)))


@pytest.mark.parametrize("leave", [go_on, be_removed])
@pytest.mark.parametrize("page", FORMS)
def test_what_was_begun_in_one_account_is_not_finished_in_another(house: AccountPages, page: str, leave: Going) -> None:
    word = word_on(house.owner, page)
    leave(house)
    before = house.everything()
    refused = house.owner.post(page, csrf=word, **FORMS[page])
    assert refused.status_code == 409
    for words in ("You are in another account now.", "You have gone on to another account meanwhile"):
        assert words in refused.text
    assert house.everything() == before
    assert house.owner.post(page, csrf=word_on(house.owner, page), **FORMS[page]).status_code == 200
    assert house.everything() != before, "the page of the account that they are in now is good"


def test_back_in_the_account_its_page_is_good_again(house: AccountPages) -> None:
    page = "/settings/tokens/new"
    word = word_on(house.owner, page)
    go_on(house)
    house.owner.post("/session/switch", membership=place(house, house.account.id))
    assert house.owner.post(page, csrf=word, **FORMS[page]).status_code == 200


def test_no_form_of_any_page_is_finished_in_another_account(house: AccountPages) -> None:
    with house.parts.db.system_transaction() as tx:  # so that the print room is there, too
        tx.execute(sa.update(accounts).values(is_operator=True))
    word = word_on(house.owner, "/settings")
    go_on(house)
    posts = [path for method, path in PAGE_NEEDS if method == "POST" and path not in EXPLICIT]
    assert len(posts) > 15
    before = house.everything()
    for path in (re.sub(r"{\w+}", "1", path) for path in posts):
        refused = house.owner.post(path, csrf=word, follow=False)
        assert refused.status_code == 409, path
        program = {"Accept": "application/json"}
        response = house.owner.post(path, csrf=word, follow=False, headers=program)
        assert (response.status_code, set(response.json())) == (409, {"message"}), path
    assert house.everything() == before


def test_what_was_begun_in_test_mode_is_not_done_in_live_mode(house: AccountPages) -> None:
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).values(is_operator=True))
    word = word_on(house.owner, "/automations/new")
    house.owner.post("/session/switch", mode="live")
    before = house.everything()
    filled: dict[str, Any] = {
        "name": "Welcome",
        "message": "Hi %FIRST_NAME%,\nthank you <all>!",
        "password": "plum orchard",
    }
    refused = house.owner.post("/automations/new", csrf=word, **filled)
    assert refused.status_code == 409
    for words in ("You are in live mode now.", "opened in test mode", "Nothing was done", "thank you &lt;all"):
        assert words in refused.text
    assert "plum orchard" not in refused.text
    posts = [path for method, path in PAGE_NEEDS if method == "POST" and path not in EXPLICIT]
    for path in (re.sub(r"{\w+}", "1", path) for path in posts):
        response = house.owner.post(path, csrf=word, follow=False, headers={"Accept": "application/json"})
        assert (response.status_code, "live mode" in response.json()["message"]) == (409, True), path
    assert house.everything() == before
    house.owner.post("/session/switch", csrf=word, mode="test")
    assert house.owner.post("/settings/name", csrf=word, name="Another").status_code == 200


def test_nobody_makes_a_word_for_another_account_of_theirs(house: AccountPages) -> None:
    about, _, mac = word_on(house.owner, "/settings").partition(".")
    here, other = place(house, house.account.id), place(house, house.others.id)
    assert about == f"{here}-test"
    go_on(house)
    for made_up in (f"{other}-test.{mac}", f"{here}-live.{mac}", f"{here}.{mac}", f".{mac}", mac):
        assert house.owner.post("/settings/name", name="Another", csrf=made_up).status_code == 403


@pytest.mark.parametrize("leave", [go_on, be_removed])
def test_signing_out_is_never_refused(house: AccountPages, leave: Going) -> None:
    word = word_on(house.owner, "/settings")
    leave(house)
    assert "You are signed out." in house.owner.post("/sign-out", csrf=word).text


def test_the_other_mode_is_of_the_account_that_the_page_is_about(house: AccountPages) -> None:
    word = word_on(house.owner, "/settings")
    go_on(house)
    house.owner.post("/session/switch", csrf=word, mode="live")
    assert looked_at(house) == place(house, house.account.id)
    word = word_on(house.owner, "/settings")
    be_removed(house)
    assert house.owner.post("/session/switch", csrf=word, mode="test").status_code == 409


def test_another_account_can_be_chosen_on_a_page_of_any(house: AccountPages) -> None:
    word = word_on(house.owner, "/settings")
    be_removed(house)
    answer = house.owner.post("/session/switch", csrf=word, membership=place(house, house.others.id))
    assert (answer.status_code, looked_at(house)) == (200, place(house, house.others.id))


def test_forms_that_are_for_no_account_work_for_whoever_is_signed_in(house: AccountPages) -> None:
    assert house.owner.post("/forgot", csrf=word_on(house.owner, "/forgot"), email=OWNER).status_code == 200
