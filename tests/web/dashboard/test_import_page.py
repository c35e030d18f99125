"""Importing people on the page, as a person does it: in a real browser, from a file to a list."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.browser_sessions import PASSWORD, make_user
from support.chromium import new_page
from support.factories import Account, Clock, run_due_jobs
from support.raw_http import real_server

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("clean_database")]

EMAIL = "dana@example.com"
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


def sign_in(page: Page, password: str = PASSWORD) -> None:
    page.get_by_label("E-mail").fill(EMAIL)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def begin(page: Page, file: Path) -> None:
    page.get_by_label("File", exact=True).set_input_files(file)
    # A new list is called as the file is.
    expect(page.get_by_label("Name of the new list")).to_have_value(file.stem)
    page.get_by_role("button", name="Look at it").click()


def test_a_file_becomes_a_list_on_the_page(
    container: Container, owner: Account, address: str, people_file: Path, tmp_path: Path
) -> None:
    with new_page() as page:
        page.goto(address)
        page.get_by_role("link", name="Import people").click()
        # Nobody is let in whom nobody knows, and nothing else happens.
        sign_in(page, "not the password at all")
        expect(page.get_by_role("alert")).to_contain_text("The e-mail or the password is not right")
        expect(page.get_by_label("Mailing list")).to_be_hidden()
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
        with page.expect_download() as download:
            page.get_by_role("link", name="Download the rejected rows").click()
        rejected = tmp_path / download.value.suggested_filename
        download.value.save_as(rejected)
    [made] = owner.get("/mailing-lists").json()["data"]
    assert (made["description"], made["type"], made["processed"]) == ("Spring customers", "csv", True)
    people = owner.get(f"/mailing-lists/{made['id']}/recipients").json()["data"]
    assert sorted((one["name"], one["custom1"]) for one in people) == [("Jane Doe", "38"), ("Roe, Rick", "44")]
    rows = csv.DictReader(rejected.read_text().splitlines())
    assert [(row["line"], row["Customer"]) for row in rows] == [("5", "Half A Home"), ("6", "Jane Again")]


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
