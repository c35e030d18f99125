"""An account's pages in a real browser: an owner's walk over all settings, and people who are imported from a file."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from quillpost.app.container import Container
from quillpost.web.application import create_app
from quillpost.web.security import SESSION
from support.chromium import new_page
from support.factories import Account, Clock, run_due_jobs
from support.pages import MEMBER, AccountPages
from support.raw_http import real_server
from support.sign_in import PASSWORD, make_user
from support.test_client import TestClient

pytestmark = pytest.mark.costly

EMAIL = "dana@example.com"


@pytest.mark.long
def test_an_owner_does_all_by_hand_and_the_policy_refuses_nothing(container: Container, http: TestClient) -> None:
    house = AccountPages(container, http)
    house.member  # noqa: B018 (is there by now)
    with real_server(create_app(container)) as port, new_page(width=390) as page:
        settings = f"http://127.0.0.1:{port}/settings"
        page.context.add_cookies([{"name": SESSION, "value": str(house.owner.cookie(SESSION)), "url": settings}])
        page.goto(settings)
        the_menu_closes(page)
        token = make_token(page, settings)
        assert house.ping(token) == 200
        revoke_token(page)
        assert house.ping(token) == 401
        invite_and_take_back(page, settings)
        page.goto(f"{settings}/audit")
        for words in ("made a token: Shop (live)", "revoked a token: Shop", "took an invitation back"):
            expect(page.get_by_text(words).first).to_be_visible()
        long_words_break(page, settings, house)


def long_words_break(page: Page, settings: str, house: AccountPages) -> None:
    """A name that is one long word makes no page wider than its screen."""
    name = "W" * 100
    house.owner.post("/settings/tokens/new", name=name, mode="live", limits="some", scopes=["orders:read"], lasts="30")
    house.owner.post(
        "/settings/clients/new", name=name, redirect_uris="https://app.example/b", kind="public", limits="all"
    )
    house.connect_app(house.account, MEMBER, name)
    for width in (390, 900, 1200):
        page.set_viewport_size({"width": width, "height": 900})
        for path in ("/tokens", "/clients", "/apps", "/audit"):
            page.goto(settings + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (width, path)


def the_menu_closes(page: Page) -> None:
    """By Escape, which leads back to where it was opened, and by a click anywhere else, but not within."""
    menu, opened = page.locator("details.me"), page.locator("details.me[open]")
    menu.locator("summary").click()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(opened).to_have_count(0)
    expect(menu.locator("summary")).to_be_focused()
    menu.locator("summary").click()
    menu.locator(".panel strong").click()
    expect(opened).to_have_count(1)
    page.locator("h1").click()
    expect(opened).to_have_count(0)


def copied(page: Page) -> str:
    """What the button beside a secret puts into the clipboard."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("status")).to_have_text("Copied.")
    return str(page.evaluate("navigator.clipboard.readText()"))


def make_token(page: Page, settings: str) -> str:
    page.goto(f"{settings}/tokens")
    page.get_by_role("link", name="New token").click()
    expect(page.get_by_label("Name")).to_be_focused()
    page.get_by_label("Name").fill("Shop")
    page.get_by_role("radio", name="Live").check()
    tick = page.get_by_role("checkbox", name=re.compile("See your orders"))
    expect(tick).to_be_hidden()
    page.get_by_role("radio", name="Only what is ticked").check()
    page.get_by_role("button", name="Make the token").click()
    expect(page.get_by_role("alert")).to_have_text("Choose at least one thing that it may do.")
    expect(page.get_by_label("Name")).to_have_value("Shop")
    expect(page.get_by_role("radio", name="Live")).to_be_checked()
    tick.check()
    page.get_by_role("button", name="Make the token").click()
    assert copied(page) == page.locator(".secret").inner_text().strip()
    return copied(page)


def revoke_token(page: Page) -> None:
    page.get_by_role("link", name="I have copied it").click()
    expect(page.locator("main")).not_to_contain_text("qp_live_")
    page.get_by_role("link", name="Revoke Shop").click()
    page.get_by_role("button", name="Revoke it").click()
    expect(page.get_by_role("status")).to_have_text("The token is revoked.")


def invite_and_take_back(page: Page, settings: str) -> None:
    page.goto(f"{settings}/people")
    page.get_by_role("link", name="Invite somebody").click()
    email = page.get_by_label("E-mail")
    email.fill(EMAIL)
    page.get_by_role("button", name="Make the link").click()
    expect(page.get_by_role("alert")).to_contain_text("is in this account already")
    expect(email).to_be_focused()
    email.fill("kim@example.com")
    page.get_by_label("Limited to").select_option(label="Dallas")
    page.get_by_role("button", name="Make the link").click()
    expect(page.locator(".secret")).to_contain_text("/join/qp_invitation_")
    page.get_by_role("link", name="I have handed it over").click()
    page.get_by_role("button", name="Take back the invitation to kim@example.com").click()
    expect(page.get_by_role("status")).to_have_text("The invitation is taken back.")


SWITCH_ELSEWHERE = """async () => {
  const button = document.querySelector("button[name=membership]");
  const filled = new URLSearchParams(new FormData(button.form, button));
  await fetch(button.form.action, { method: "POST", body: filled });
}"""
"""As another tab would; this page stays as it is."""
PEOPLE = """Customer,Street,Town,ST,ZIP code,Shoe size
Jane Doe,12 Main St,Austin,TX,78701,38
"Roe, Rick","14 Main St
Apt 2",Austin,TX,78701,44
Half A Home,,Austin,TX,78701,40
Jane Again,12 Main Street,Austin,TX,78701,38
"""
GUESSED = {"Street": "address", "Town": "city", "ST": "province", "ZIP code": "postal_code", "Shoe size": ""}


@pytest.fixture
def people_file(tmp_path: Path) -> Path:
    file = tmp_path / "Spring customers.csv"
    file.write_text(PEOPLE)
    return file


@pytest.fixture
def shoes_file(tmp_path: Path) -> Path:
    """With nobody in it."""
    file = tmp_path / "shoes.csv"
    file.write_text("Shoe,Size\nred,9\n")
    return file


@pytest.fixture
def address(container: Container, owner: Account) -> Iterator[str]:
    """Of the service, to which Dana may sign in."""
    make_user(container, owner.id, EMAIL)
    with real_server(create_app(container)) as port:
        yield f"http://127.0.0.1:{port}"


def sign_in(page: Page) -> None:
    page.get_by_label("E-mail").fill(EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def begin(page: Page, file: Path) -> None:
    page.get_by_label("File", exact=True).set_input_files(file)
    # A new list is called as the file is.
    expect(page.get_by_label("Name of the new list")).to_have_value(file.stem)
    page.get_by_role("button", name="Look at it").click()


@pytest.mark.usefixtures("clean_database")
def test_a_file_becomes_a_list_on_a_page(container: Container, owner: Account, address: str, people_file: Path) -> None:
    with new_page() as page:
        page.goto(address)
        page.get_by_role("link", name="Import people").click()
        sign_in(page)
        expect(page.get_by_role("heading", name="Import people")).to_be_visible()
        expect(page.locator(".place")).to_contain_text("Into Dana Whitfield, Test")
        begin(page, people_file)
        for column, field in GUESSED.items():
            expect(page.get_by_label(f"What {column} is", exact=True)).to_have_value(field)
        expect(page.get_by_label("The first row names the columns")).to_be_checked()
        page.get_by_label("What Customer is", exact=True).select_option("name")
        page.get_by_label("What Shoe size is", exact=True).select_option("custom1")
        page.get_by_role("button", name="Import", exact=True).click()
        expect(page.get_by_role("status")).to_have_text("Waiting for its turn")
        run_due_jobs(container)
        expect(page.get_by_role("heading", name="Imported")).to_be_focused()
        counts = r"\s*Added to the list\s*2\s*Rejected\s*2\s*Of these twice\s*1\s*"
        expect(page.locator(".counts")).to_have_text(re.compile(counts))
    [made] = owner.get("/mailing-lists").json()["data"]
    assert (made["description"], made["type"], made["processed"]) == ("Spring customers", "csv", True)
    people = owner.get(f"/mailing-lists/{made['id']}/recipients").json()["data"]
    assert sorted((one["name"], one["custom1"]) for one in people) == [("Jane Doe", "38"), ("Roe, Rick", "44")]


def test_a_file_chosen_early_names_the_list_and_one_that_cannot_be_imported_leaves_none_behind(
    owner: Account, address: str, shoes_file: Path
) -> None:
    scripts: list[Route] = []
    with new_page(width=390) as page:
        page.route("**/import*.js*", lambda script: scripts.append(script))
        page.goto(f"{address}/lists/import")
        with page.expect_request("**/import*.js*"):
            sign_in(page)
        page.get_by_label("File", exact=True).set_input_files(shoes_file)  # before the script has come
        for script in scripts:
            script.continue_()
        expect(page.get_by_label("Name of the new list")).to_have_value("shoes")
        page.get_by_role("button", name="Look at it").click()
        expect(page.get_by_text("No column is the street: nobody of these can be mailed to.")).to_be_visible()
        page.get_by_role("button", name="Import", exact=True).click()
        expect(page.get_by_role("alert")).to_have_text("Choose which column is the street, or at least the e-mail.")
        expect(page.get_by_role("button", name="Import", exact=True)).to_be_enabled()
        page.get_by_role("button", name="Another file").click()
        expect(page.get_by_label("Name of the new list")).to_be_visible()
    assert owner.get("/mailing-lists").json()["data"] == []


def test_an_expired_token_is_renewed_and_an_account_switch_or_sign_out_is_reported(
    container: Container, owner: Account, stranger: Account, clock: Clock, address: str, people_file: Path
) -> None:
    """The page's clock and the service's go on while the reader looks for their file. Then they go on to
    another account, in another tab."""
    make_user(container, stranger.id, EMAIL)
    with new_page() as page:
        page.clock.install()
        page.goto(f"{address}/lists/import")
        sign_in(page)
        expect(page.get_by_label("Mailing list")).to_be_visible()
        clock.advance(minutes=20)
        page.clock.fast_forward("20:00")
        begin(page, people_file)
        expect(page.get_by_label("What Street is", exact=True)).to_be_visible()
        page.evaluate(SWITCH_ELSEWHERE)
        page.get_by_role("button", name="Import", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("You have gone on to another account meanwhile")
        with container.db.system_transaction() as tx:
            tx.exec_driver_sql("delete from sessions")
        page.get_by_role("button", name="Import", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("You are signed out.")
    assert owner.get("/mailing-lists").json()["data"] == []
