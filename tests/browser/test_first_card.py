"""A newcomer's first card: from the link that the terminal shows to the door, all of it in a browser."""

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from support.bare_service import bare_service, find_join_link
from support.chromium import new_page
from support.open_page import watch_page
from support.page_checks import picture
from support.page_figures import read_figure

PASSWORD = "a few words in a row"
MESSAGE = "Hi %FIRST_NAME%, the tomatoes are ripe. Come by!"
READS = "Hi Ada, the tomatoes are ripe. Come by!"
# Long enough for the order's page to be drawn while its review goes on, however busy the machine.
UNHURRIED = {"QUILLPOST_TEST_REVIEW_SECONDS": "15"}
IN_REVIEW = "It goes to print"
ITS_WAY = ["Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered"]


def test_a_newcomers_first_card_is_written_sent_and_followed_to_its_delivery(tmp_path: Path) -> None:
    with bare_service(tmp_path, **UNHURRIED) as service, new_page() as page:
        page.goto(find_join_link(service))
        joins(page)
        sees_what_to_do_first(page)
        begins_a_card(page)
        writes_and_sees_it_written(page)
        chooses_the_recipient(page)
        sees_the_price(page)
        sends_it(page)
        watches_it_arrive(page)
        finds_it_on_the_map(page)
        reads_its_way(page)
        comes_home_to_what_happened(page)


def joins(page: Page) -> None:
    page.get_by_label("Your name").fill("Mel Ortiz")
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("The same once more").fill(PASSWORD)
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("status").first).to_contain_text("Welcome.")


def sees_what_to_do_first(page: Page) -> None:
    steps = first_steps(page)
    for title in ("Write a first card", "Watch it arrive"):
        expect(steps.get_by_role("heading", name=title, exact=True)).to_be_visible()
    expect(read_figure(page, "Delivered")).to_contain_text("0")
    picture(page, "first-card-1-newcomer")


def begins_a_card(page: Page) -> None:
    first_steps(page).get_by_role("link", name="Write a card").first.click()
    expect(page.get_by_role("heading", level=1, name="Write")).to_be_visible()
    page.get_by_role("radio", name="Postcard 4").check()


def writes_and_sees_it_written(page: Page) -> None:
    """The words are on the picture while they are typed; those of a sample are gone."""
    expect(preview(page)).to_contain_text("The words are a sample, too.")
    sample = drawn(page).get_attribute("id")
    page.get_by_label("Message", exact=True).press_sequentially(MESSAGE)
    expect(drawn(page)).to_have_accessible_name(re.compile("Hi Jane, the tomatoes are ripe. Come by!"))
    expect(preview(page)).not_to_contain_text("The words are a sample, too.")
    assert drawn(page).get_attribute("id") != sample
    is_really_there(drawn(page))


def chooses_the_recipient(page: Page) -> None:
    page.get_by_role("radio", name="One person").check()
    person = page.get_by_role("group", name="One person")
    for label, text in (
        ("Name", "Ada Reed"), ("Street and number", "1100 Congress Ave"), ("City", "Austin"),
        ("State", "TX"), ("ZIP code", "78701"),
    ):  # fmt: skip
        person.get_by_label(label, exact=True).fill(text)
    page.keyboard.press("Tab")
    expect(preview(page)).to_contain_text("For Ada Reed.")
    expect(drawn(page)).to_have_accessible_name(re.compile(re.escape(READS)))
    is_really_there(drawn(page))


def sees_the_price(page: Page) -> None:
    price = page.get_by_role("region", name="What it costs")
    expect(price).to_contain_text(re.compile(r"1 piece at \$1\.09\s*\$1\.09"))
    expect(price).to_contain_text("nothing is billed")
    picture(page, "first-card-2-composer")


def sends_it(page: Page) -> None:
    with page.expect_response(lambda answer: answer.ok and "/orders/" in answer.url) as shown:
        page.get_by_role("button", name="Send it as a test").click()
    assert IN_REVIEW in shown.value.text()
    expect(page.get_by_role("status").first).to_contain_text("Sent, as a test")
    picture(page, "first-card-3-sent")


def watches_it_arrive(page: Page) -> None:
    """From its review to the door, and the page is not loaded again."""
    with watch_page(page):
        expect(read_figure(page, "Delivered")).to_contain_text("100% of those mailed")
        history = page.get_by_role("region", name="History").get_by_role("listitem")
        expect(history).to_contain_text(["Reviewing", "Processing", "Printing", "Mailed", "Fulfilled"])
        expect(page.get_by_text(IN_REVIEW)).to_have_count(0)
        expect(page.get_by_role("link", name="Cancel the order")).to_have_count(0)


def finds_it_on_the_map(page: Page) -> None:
    """It was drawn when nothing had been mailed, and has followed."""
    where = page.get_by_role("region", name="Where it is")
    with watch_page(page):
        expect(where.get_by_role("row", name="Austin, TX")).to_have_text(re.compile(r"0\s*1\s*0\s*$"))
        expect(where.get_by_role("img", name="Map of the United States")).to_be_visible()
        looks = page.get_by_role("region", name="How it looks").get_by_role("img")
        expect(looks.first).to_be_visible()
    picture(page, "first-card-4-delivered")


def reads_its_way(page: Page) -> None:
    page.get_by_role("link", name="1 person").click()
    page.get_by_role("link", name="Ada Reed").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("to Ada Reed")
    way = page.get_by_role("region", name="Its way").get_by_role("listitem")
    expect(way).to_contain_text(ITS_WAY)
    expect(page.get_by_role("region", name="Whom it goes to")).to_contain_text("1100 Congress Ave")
    picture(page, "first-card-5-its-way")


def comes_home_to_what_happened(page: Page) -> None:
    page.get_by_role("navigation", name="Areas").get_by_role("link", name="Home").click()
    for title in ("Write a first card", "Watch it arrive"):
        expect(first_steps(page).get_by_role("heading", name=f"{title} (done)")).to_be_visible()
    expect(read_figure(page, "Sent")).to_contain_text("1")
    expect(read_figure(page, "Delivered")).to_contain_text("1")
    chart = page.get_by_role("group", name="Sent, delivered and scans")
    chart.focus()
    page.keyboard.press("End")
    expect(page.locator(".chart-told")).to_contain_text(re.compile(r"Sent 1\s*Delivered 1\s*Scans 0"))
    latest = page.get_by_role("region", name="Latest orders")
    expect(latest.get_by_role("listitem").first).to_contain_text("the tomatoes are ripe")
    picture(page, "first-card-6-home")


def first_steps(page: Page) -> Locator:
    return page.get_by_role("region", name="First steps")


def preview(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Preview")


def drawn(page: Page) -> Locator:
    """The side of the card that has the words."""
    return preview(page).get_by_role("img", name="which reads")


def is_really_there(image: Locator) -> None:
    """Not only named: the browser has drawn it."""
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
