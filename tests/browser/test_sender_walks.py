"""A sender's morning: from a spreadsheet to mail that is scheduled, and a look at cards that are being scanned."""

import csv
import re
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from playwright.sync_api import Locator, Page, expect

from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.web.security import ZONE_COOKIE
from support.chromium import go_to, open_dashboard, picture, read_figure, watch_page
from support.factories import Account, Clock, people, run_due_jobs, run_jobs_for
from support.qr_scans import PAGE, PHONE, codes_of, count_scans

pytestmark = pytest.mark.usefixtures("clean_database")

ZONE = "America/Los_Angeles"
PEOPLE = """Customer,Street,Town,ST,ZIP code,Favorite
Mara Ellison,12 Main St,Austin,TX,78701,tulips
Tehodore Banks,14 Main St,Austin,TX,78701,roses
No Street,,Austin,TX,78701,daisies
Mara Again,12 Main Street,Austin,TX,78701,lilies
"""


def test_a_spreadsheet_becomes_scheduled_mail(
    address: str, container: Container, owner: Account, clock: Clock, tmp_path: Path
) -> None:
    file = tmp_path / "Spring customers.csv"
    file.write_text(PEOPLE)
    tomorrow_at_nine = (clock.now().astimezone(ZoneInfo(ZONE)) + timedelta(days=1)).replace(hour=9, minute=0)
    with open_dashboard(address, container, owner, zone=ZONE) as page:
        go_to(page, "Lists")
        import_file(page, file)
        run_due_jobs(container)
        see_what_was_rejected(page, tmp_path)
        page.get_by_role("link", name="Open the list").click()
        correct_a_name(page)
        add_somebody(page)
        find_somebody(page)
        page.context.clear_cookies(name=ZONE_COOKIE)  # as on a first visit: the page is written in UTC
        page.get_by_role("link", name="Write to this list").click()
        write(page)
        schedule(page, tomorrow_at_nine)
        [order] = owner.get("/orders").json()["data"]
        with container.db.system_transaction() as tx:
            found = tx.scalar(sa.select(orders.c.schedule_for).where(orders.c.id == order["id"]))
        assert found == tomorrow_at_nine
        cancel(page)
        assert owner.get(f"/orders/{order['id']}").json()["status"] == "Cancelled"


def import_file(page: Page, file: Path) -> None:
    page.get_by_role("link", name=re.compile("^Import")).first.click()
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_role("button", name="Look at it").click()
    expect(page.get_by_label("What Street is")).to_have_value("address")
    for column, wrong, right in (("Customer", "", "name"), ("Favorite", "", "custom1")):
        chosen = page.get_by_label(f"What {column} is")
        expect(chosen).to_have_value(wrong)
        chosen.select_option(right)
    read_what_is_wrong_with_columns(page)
    picture(page, "journey-import-columns")
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("Waiting for its turn")


def read_what_is_wrong_with_columns(page: Page) -> None:
    """Before anything is sent: in people's words, and at the column."""
    street, town = page.get_by_label("What Street is"), page.get_by_label("What Town is")
    town.select_option("address")
    page.get_by_role("button", name="Import", exact=True).click()
    expect(town).to_have_accessible_description("Another column is “Street address” already.")
    town.select_option("city")
    warning = page.get_by_text("No column is the street")
    expect(warning).to_be_hidden()
    street.select_option("")
    expect(warning).to_be_visible()
    street.select_option("address")
    expect(warning).to_be_hidden()


def see_what_was_rejected(page: Page, folder: Path) -> None:
    """The page says so by itself, once the file is read."""
    expect(page.get_by_role("heading", name="Imported", exact=True)).to_be_visible()
    expect(page.get_by_role("row", name="Line 4")).to_be_visible()
    expect(page.get_by_role("row", name="Line 5")).to_be_visible()
    picture(page, "journey-import-rejected")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the rejected rows").click()
    kept = folder / "rejected.csv"
    download.value.save_as(kept)
    rows = list(csv.DictReader(kept.read_text().splitlines()))
    assert [row["Customer"] for row in rows] == ["No Street", "Mara Again"]


def correct_a_name(page: Page) -> None:
    expect(list_figure(page, "People")).to_contain_text("2")
    page.get_by_role("link", name="Tehodore Banks").click()
    name = page.get_by_label("Name", exact=True)
    expect(name).to_have_value("Tehodore Banks")
    name.fill("Theodore Banks")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Spring customers")
    expect(page.get_by_role("link", name="Theodore Banks")).to_be_visible()


def add_somebody(page: Page) -> None:
    page.get_by_role("link", name="Add a person").click()
    page.get_by_label("Name", exact=True).fill("Ines Duarte")
    page.get_by_label("Street address").fill("16 Main St, Austin, TX 78701")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("link", name="Ines Duarte")).to_be_visible()
    expect(list_figure(page, "People")).to_contain_text("3")


def find_somebody(page: Page) -> None:
    page.get_by_label("Find somebody").fill("ines")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_text("1 person found.")).to_be_visible()
    expect(page.get_by_role("link", name="Ines Duarte")).to_be_visible()
    expect(page.get_by_role("link", name="Theodore Banks")).to_have_count(0)
    picture(page, "journey-list-search")


def write(page: Page) -> None:
    expect(page.get_by_label("Spring customers")).to_be_checked()
    page.get_by_label("Message", exact=True).fill("Hi %FIRST_NAME%, your %CUSTOM1% are here!")
    page.get_by_label("The preview is for").select_option("Theodore Banks")
    expect(page.get_by_role("img", name="Hi Theodore, your roses are here!")).to_be_visible()
    price = page.get_by_role("region", name="What it costs")
    expect(price.get_by_text(re.compile(r"^3 pieces at \$\d+\.\d\d$"))).to_be_visible()


def schedule(page: Page, at: datetime) -> None:
    page.get_by_label("On a day that I choose").check()
    expect(page.get_by_text(re.compile(r"In Los Angeles time \(P[DS]T\)\."))).to_be_visible()
    expect(page.get_by_label("Day and time")).to_have_attribute("min", f"{at - timedelta(days=1):%Y-%m-%d}T05:00")
    page.get_by_label("Day and time").fill(f"{at:%Y-%m-%dT%H:%M}")
    picture(page, "journey-composer-scheduled")
    page.get_by_role("button", name="Send it as a test").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^Order \d+: "))
    expect(page.get_by_role("status").first).to_contain_text("Scheduled, as a test")
    due = page.locator(".order-facts > div").filter(has_text="Scheduled for").get_by_role("definition")
    expect(due).to_have_text(f"{at.day} {at:%b, %H:%M}")
    picture(page, "journey-order-scheduled")


def cancel(page: Page) -> None:
    page.get_by_role("link", name="Cancel the order").click()
    page.get_by_role("button", name=re.compile("^Cancel")).click()
    expect(page.locator(".order-state")).to_contain_text("Cancelled")
    expect(page.get_by_role("link", name="Cancel the order")).to_have_count(0)
    picture(page, "journey-order-cancelled")


def list_figure(page: Page, name: str) -> Locator:
    return page.locator(".figures > div").filter(has_text=name)


def test_a_scan_is_seen_on_every_open_page(address: str, container: Container, owner: Account, clock: Clock) -> None:
    sent = owner.send(recipients=people(2), qrcode_url=PAGE)
    assert sent.status_code == 200, sent.text
    run_jobs_for(container, clock, seconds=40)
    [order] = owner.get("/orders").json()["data"]
    assert order["status"] == "Fulfilled"
    code, *_ = codes_of(container, order["id"])
    with open_dashboard(address, container, owner) as home:
        tab = open_another_tab(home, order["id"])
        expect(read_figure(home, "Scans")).to_contain_text("0")
        expect(read_figure(tab, "Scans")).to_have_text("0")
        expect(latest_order(home)).not_to_contain_text("scan")
        with watch_page(home, tab):
            scan(home, f"{address}/q/{code}")
            assert count_scans(container) == 1
            expect(read_figure(tab, "Scans")).to_have_text("1")
            expect(read_figure(home, "Scans")).to_contain_text("1")
            expect(read_figure(home, "Scan rate")).to_contain_text("50.0%")
            expect(latest_order(home)).to_contain_text("2 pieces, 1 scan,")
            home.get_by_role("group", name="Sent, delivered and scans").focus()
            home.keyboard.press("End")
            expect(home.locator(".chart-told")).to_contain_text("Scans 1")
            clock.advance(seconds=1)
            scan(home, f"{address}/q/{code}")
            assert count_scans(container) == 1
            expect(home.locator(".chart-told")).to_contain_text("Scans 2")  # on the day that is being read
            expect(read_figure(tab, "Scans")).to_contain_text("1 scanned more than once")
            expect(latest_order(home)).to_contain_text("2 pieces, 2 scans,")
        picture(home, "live-scan-home")
        picture(tab, "live-scan-order")


def open_another_tab(page: Page, order_id: int) -> Page:
    with page.context.expect_page() as opened:
        latest_order(page).get_by_role("link", name=f"Order {order_id}").click(modifiers=["ControlOrMeta"])
    expect(opened.value.get_by_role("heading", level=1)).to_contain_text(f"Order {order_id}")
    return opened.value


def scan(beside: Page, link: str) -> None:
    """By somebody else's phone, which knows nobody here; it is led on to the sender's page."""
    assert beside.context.browser is not None
    phone = beside.context.browser.new_context(user_agent=PHONE)
    led = phone.request.get(link, max_redirects=0)
    assert (led.status, led.headers["location"]) == (302, PAGE)
    phone.close()


def latest_order(page: Page) -> Locator:
    return page.get_by_role("region", name="Latest orders").get_by_role("listitem").first
