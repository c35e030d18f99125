"""A sender's morning: from a spreadsheet to mail that is scheduled, and a look at cards that are being scanned. In the
composer the picture is the true one at every pause, nothing slow is in the way, and all goes by the keyboard."""

import base64
import csv
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from playwright.sync_api import Locator, Page, Route, expect

from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.web.public.files import endpoints as file_endpoints
from quillpost.web.security import ZONE_COOKIE
from support.chromium import ServedApp, go_to, open_dashboard, picture, read_figure, watch_page
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


def test_a_table_becomes_mail(address: str, container: Container, owner: Account, clock: Clock, tmp_path: Path) -> None:
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
    expect(page.locator(".place")).to_contain_text("Into Dana Whitfield, Test")
    page.get_by_label("File", exact=True).set_input_files(file)
    expect(page.get_by_label("Name of the new list")).to_have_value(file.stem)
    page.get_by_role("button", name="Look at it").click()
    expect(page.get_by_label("What Street is")).to_have_value("address")
    expect(page.get_by_label("The first row names the columns")).to_be_checked()
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
    expect(page.get_by_role("heading", name="Imported", exact=True)).to_be_focused()
    counts = r"\s*Added to the list\s*2\s*Rejected\s*2\s*Of these twice\s*1\s*"
    expect(page.locator(".counts")).to_have_text(re.compile(counts))
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


MARA = {"name": "Mara Ellison", "address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"}
THEO = MARA | {"name": "Theo Banks", "address": "14 Main St"}
LABELS = {"Name": "name", "Street and number": "address", "City": "city", "State": "province"}
LABELS |= {"ZIP code": "postal_code"}
LOOK = {"size": "4x6", "handwriting_style": 1, "handwriting_color": "blue", "handwriting_manner": "natural"}
"""What the composer begins with, as the API has it."""
SEND = "Send it as a test"
MOST_TABS = 60


@pytest.fixture
def page(address: str, container: Container, owner: Account) -> Iterator[Page]:
    with open_dashboard(address, container, owner) as page:
        page.goto(f"{address}/compose")
        yield page


def test_every_pause_shows_the_true_picture(page: Page, owner: Account) -> None:
    give_address(page)
    written = ""
    for more in ("Hi %FIRST_NAME%,", " see you", " in %CITY%!"):
        message(page).press_sequentially(more)
        written += more
        expect_to_read(page, written.replace("%FIRST_NAME%", "Mara").replace("%CITY%", "Austin"))
        assert pictures(page) == true_pictures(owner, written, [MARA])
    picture(page, "journey-typed")
    page.get_by_label("Paste several people").check()
    page.get_by_label("People", exact=True).fill("\n".join(map(in_a_line, (MARA, THEO))))
    page.get_by_label("The preview is for").select_option("Theo Banks")
    expect_to_read(page, "Hi Theo, see you in Austin!")
    assert pictures(page) == true_pictures(owner, written, [THEO])


def test_an_error_is_shown_beside_its_field_until_it_is_fixed_and_sending_focuses_it(page: Page) -> None:
    message(page).press_sequentially("Short and good")
    expect_to_read(page, "Short and good")
    good = pictures(page)
    message(page).fill("Far too much for a card. " * 100)
    expect(message(page)).to_have_accessible_description(re.compile("too long"))
    expect(message(page)).to_have_attribute("aria-invalid", "true")
    assert pictures(page) == good
    picture(page, "journey-too-long")
    message(page).fill("Short again")
    expect_to_read(page, "Short again")
    expect(message(page)).to_have_accessible_description("")
    expect(message(page)).not_to_have_attribute("aria-invalid", "true")
    give_address(page)
    page.get_by_label("On a day that I choose").check()
    message(page).fill("Hello!")
    page.get_by_role("button", name=SEND).click()
    expect(page.get_by_label("Day and time")).to_be_focused()
    expect(page.get_by_label("Day and time")).to_have_accessible_description(re.compile("Choose a day"))
    page.get_by_label("As soon as possible").check()
    message(page).fill("")
    page.get_by_role("button", name=SEND).click()
    expect(message(page)).to_be_focused()


@pytest.fixture
def stalled_samples(served: ServedApp, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As where they are drawn for the first time, on a machine that is busy with much else."""
    may_draw = Event()
    monkeypatch.setattr(file_endpoints, "render_sample", lambda *_: may_draw.wait() and b"")
    samples = file_endpoints.create_sample_cache(served.app.state.container.renderer)
    monkeypatch.setitem(served.app.state._state, "sample_cache", samples)
    yield
    may_draw.set()


@pytest.mark.usefixtures("stalled_samples")
def test_stalled_samples_of_hands_hold_up_neither_the_preview_nor_sending(page: Page) -> None:
    give_address(page)
    message(page).fill("Hi %FIRST_NAME%, here I am.")
    expect_to_read(page, "Hi Mara, here I am.")
    expect(page.get_by_text("1 piece at $1.09")).to_be_visible()
    page.get_by_role("button", name=SEND).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^Order \d+: "))


def test_what_a_busy_service_refused_comes_by_itself_a_little_later(page: Page) -> None:
    """When it is told in seconds, and as well where something before the service tells it as a date."""
    refused: set[str] = set()
    told = {"/compose/preview": "1", "/compose/price": "Wed, 18 Nov 2026 12:00:00 GMT"}

    def refuse_once(route: Route) -> None:
        part = urlsplit(route.request.url).path
        if part in refused:
            route.continue_()
        else:
            refused.add(part)
            route.fulfill(status=503, headers={"Retry-After": told[part]}, body="<p>The service is busy.</p>")

    give_address(page)
    page.route(re.compile("/compose/(preview|price)$"), refuse_once)
    message(page).fill("Hi %FIRST_NAME%, here I am.")
    expect_to_read(page, "Hi Mara, here I am.")
    expect(page.get_by_text("1 piece at $1.09")).to_be_visible()
    assert refused == set(told)


def test_a_card_is_written_and_sent_with_the_keyboard_alone(page: Page, owner: Account) -> None:
    tab_to(page, page.get_by_role("radio", name="Postcard 4 × 6"))
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Postcard 6 × 9")).to_be_checked()
    tab_to(page, message(page))
    page.keyboard.type("Hi %FIRST_NAME%, no mouse was near this.")
    tab_to(page, page.get_by_role("radio", name="Blue"))
    page.keyboard.press("ArrowRight")
    tab_to(page, page.get_by_label("One person").and_(page.get_by_role("radio")))
    for label, words in (("Name", MARA["name"]), ("Street and number", in_a_line(MARA, named=False))):
        tab_to(page, page.get_by_label(label, exact=True).first)
        page.keyboard.type(words)
    expect_to_read(page, "Hi Mara, no mouse was near this.")
    tab_to(page, page.get_by_role("button", name=SEND))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^Order \d+: "))
    [order] = owner.get("/orders").json()["data"]
    [item] = owner.get(f"/orders/{order['id']}/items").json()["data"]
    assert (order["size"], item["recipient"]["name"]) == ("6x9", "Mara Ellison")
    assert order["message"] == "Hi %FIRST_NAME%, no mouse was near this."


def message(page: Page) -> Locator:
    return page.get_by_label("Message", exact=True)


def give_address(page: Page) -> None:
    for label, name in LABELS.items():
        page.get_by_label(label, exact=True).first.fill(MARA[name])


def in_a_line(person: dict[str, str], *, named: bool = True) -> str:
    place = f"{person['address']}, {person['city']}, {person['province']} {person['postal_code']}"
    return f"{person['name']}, {place}" if named else place


def expect_to_read(page: Page, words: str) -> None:
    """The preview says, to those who do not see it as well, that it reads exactly this."""
    expect(page.get_by_role("img", name=re.compile(rf"which reads: {re.escape(words)}$"))).to_be_visible()


def pictures(page: Page) -> list[bytes]:
    drawn = page.get_by_role("group", name="Sides").get_by_role("img")
    sources = drawn.evaluate_all("all => all.map(each => each.src)")
    return [base64.b64decode(source.partition(",")[2]) for source in sources]


def true_pictures(owner: Account, message: str, people: Sequence[dict[str, str]]) -> list[bytes]:
    """What the API draws of the same."""
    body: dict[str, Any] = {**LOOK, "message": message, "recipients": list(people), "preview": True}
    answer = owner.post("/send/postcard", body)
    assert answer.status_code == 200, answer.text
    links = [urlsplit(link) for link in answer.json()["data"]["previews"]]
    return [owner.http.get(f"{link.path}?{link.query}").content for link in links]


def tab_to(page: Page, target: Locator) -> None:
    """As often as it takes, and no further than a patient person would go."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if target.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"{target} is not reached by {MOST_TABS} tabs")
