"""Importing people on the page, as a person does it: in a real browser, from a file to a list."""

import csv
from pathlib import Path

from browser import new_page
from playwright.sync_api import Page, expect
from processes import PATIENCE, Service, free_port
from test_first_minute import Newcomer

PEOPLE = """Customer,Street,Town,ST,ZIP code,Shoe size
Jane Doe,12 Main St,Austin,TX,78701,38
"Roe, Rick","14 Main St
Apt 2",Austin,TX,78701,44
Half A Home,,Austin,TX,78701,40
Jane Again,12 Main Street,Austin,TX,78701,38
"""
MOMENT = PATIENCE * 1_000


def test_a_file_becomes_a_list_on_the_page(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "Spring customers.csv"
    file.write_text(PEOPLE)
    settings = {"QUILLPOST_HOME": str(home)}
    service = Service(tmp_path / "service.log", "--welcome", port=free_port(), settings=settings).ready()
    newcomer = Newcomer(service)
    try:
        with new_page() as page:
            page.goto(f"{service.url}/")
            page.get_by_role("link", name="Import people").click()
            refused(page)
            begin(page, newcomer.token, file)
            guesses_can_be_changed(page)
            rejected = imported(page, tmp_path)
        [made] = newcomer.client.mailing_lists.list()
        assert (made["description"], made["type"], made["processed"]) == ("Spring customers", "csv", True)
        people = newcomer.client.mailing_lists.recipients(made["id"])
        assert sorted((one["name"], one["custom1"]) for one in people) == [
            ("Jane Doe", "38"),
            ("Roe, Rick", "44"),
        ]
        assert [(row["line"], row["Customer"]) for row in rejected] == [
            ("5", "Half A Home"),
            ("6", "Jane Again"),
        ]
        newcomer.leave()
    finally:
        service.kill()


def refused(page: Page) -> None:
    """A token that is none is told, and nothing else happens."""
    page.get_by_label("Access token").fill("qp_test_nonsense")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).to_have_text("Unauthenticated.")
    expect(page.get_by_label("Mailing list")).to_be_hidden()


def begin(page: Page, token: str, file: Path) -> None:
    page.get_by_label("Access token").fill(token)
    page.get_by_role("button", name="Continue").click()
    page.get_by_label("File", exact=True).set_input_files(file)
    # A new list is called as the file is.
    expect(page.get_by_label("Name of the new list")).to_have_value("Spring customers")
    page.get_by_role("button", name="Look at it").click()


def guesses_can_be_changed(page: Page) -> None:
    guessed = {
        "Street": "address",
        "Town": "city",
        "ST": "province",
        "ZIP code": "postal_code",
        "Shoe size": "",
    }
    for column, field in guessed.items():
        expect(page.get_by_label(f"What {column} is", exact=True)).to_have_value(field)
    page.get_by_label("What Customer is", exact=True).select_option("name")
    page.get_by_label("What Shoe size is", exact=True).select_option("custom1")


def imported(page: Page, folder: Path) -> list[dict[str, str]]:
    """The rejected rows, as they are downloaded."""
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("heading", name="Imported")).to_be_focused(timeout=MOMENT)
    expect(page.locator(".counts")).to_have_text("Added to the list2Rejected2Of these on it already1")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the rejected rows").click()
    kept = folder / download.value.suggested_filename
    download.value.save_as(kept)
    return list(csv.DictReader(kept.read_text().splitlines()))
