"""Writing in the composer: the picture is the true one at every pause, and all of it goes by the keyboard."""

import base64
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page, expect

from quillpost.app.container import Container
from support.dashboard_visitor import open_dashboard
from support.factories import Account
from support.page_checks import picture

MARA = {"name": "Mara Ellison", "address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"}
THEO = MARA | {"name": "Theo Banks", "address": "14 Main St"}
LOOK = {"size": "4x6", "handwriting_style": 1, "handwriting_color": "blue", "handwriting_realism": True}
"""What the composer begins with, as the API has it."""
MOST_TABS = 60


def test_every_pause_shows_the_true_picture(container: Container, owner: Account) -> None:
    with open_dashboard(container, owner) as (page, here):
        page.goto(f"{here}/compose")
        give_address(page, MARA)
        message, written = page.get_by_label("Message", exact=True), ""
        for more in ("Hi %FIRST_NAME%,", " see you", " in %CITY%!"):
            message.press_sequentially(more)
            written += more
            shows(page, in_full(written, "Mara"))
            assert pictures(page) == true_pictures(owner, written, [MARA])
        picture(page, "journey-typed")
        page.get_by_label("Paste several people").check()
        page.get_by_label("People", exact=True).fill("\n".join(map(in_a_line, (MARA, THEO))))
        page.get_by_label("The preview is for").select_option("Theo Banks")
        shows(page, in_full(written, "Theo"))
        assert pictures(page) == true_pictures(owner, written, [THEO])


def test_an_error_is_shown_beside_its_field_until_it_is_fixed(container: Container, owner: Account) -> None:
    with open_dashboard(container, owner) as (page, here):
        page.goto(f"{here}/compose")
        message = page.get_by_label("Message", exact=True)
        message.press_sequentially("Short and good")
        shows(page, "Short and good")
        good = pictures(page)
        message.fill("Far too much for a card. " * 100)
        expect(message).to_have_accessible_description(re.compile("too long"))
        expect(message).to_have_attribute("aria-invalid", "true")
        assert pictures(page) == good
        picture(page, "journey-too-long")
        message.fill("Short again")
        shows(page, "Short again")
        expect(message).to_have_accessible_description("")
        expect(message).not_to_have_attribute("aria-invalid", "true")


def test_sending_with_an_error_focuses_its_field(container: Container, owner: Account) -> None:
    with open_dashboard(container, owner) as (page, here):
        page.goto(f"{here}/compose")
        give_address(page, MARA)
        page.get_by_label("On a day that I choose").check()
        page.get_by_label("Message", exact=True).fill("Hello!")
        page.get_by_role("button", name="Send it as a test").click()
        expect(page.get_by_label("Day and time")).to_be_focused()
        expect(page.get_by_label("Day and time")).to_have_accessible_description(re.compile("Choose a day"))
        page.get_by_label("As soon as possible").check()
        page.get_by_label("Message", exact=True).fill("")
        page.get_by_role("button", name="Send it as a test").click()
        expect(page.get_by_label("Message", exact=True)).to_be_focused()


def test_a_card_is_written_and_sent_with_the_keyboard_alone(container: Container, owner: Account) -> None:
    with open_dashboard(container, owner) as (page, here):
        page.goto(f"{here}/compose")
        tab_to(page, page.get_by_role("radio", name="Postcard 4 × 6"))
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("radio", name="Postcard 6 × 9")).to_be_checked()
        tab_to(page, page.get_by_label("Message", exact=True))
        page.keyboard.type("Hi %FIRST_NAME%, no mouse was near this.")
        tab_to(page, page.get_by_role("radio", name="Blue"))
        page.keyboard.press("ArrowRight")
        tab_to(page, page.get_by_label("One person").and_(page.get_by_role("radio")))
        for label, words in (("Name", MARA["name"]), ("Street and number", in_a_line(MARA, named=False))):
            tab_to(page, page.get_by_label(label, exact=True).first)
            page.keyboard.type(words)
        shows(page, "Hi Mara, no mouse was near this.")
        tab_to(page, page.get_by_role("button", name="Send it as a test"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^Order \d+: "))
    [order] = owner.get("/orders").json()["data"]
    [item] = owner.get(f"/orders/{order['id']}/items").json()["data"]
    assert (order["size"], item["recipient"]["name"]) == ("6x9", "Mara Ellison")
    assert order["message"] == "Hi %FIRST_NAME%, no mouse was near this."


def give_address(page: Page, person: dict[str, str]) -> None:
    page.get_by_label("Name", exact=True).first.fill(person["name"])
    page.get_by_label("Street and number", exact=True).first.fill(person["address"])
    page.get_by_label("City", exact=True).first.fill(person["city"])
    page.get_by_label("State", exact=True).first.fill(person["province"])
    page.get_by_label("ZIP code", exact=True).first.fill(person["postal_code"])


def in_a_line(person: dict[str, str], *, named: bool = True) -> str:
    place = f"{person['address']}, {person['city']}, {person['province']} {person['postal_code']}"
    return f"{person['name']}, {place}" if named else place


def in_full(message: str, name: str) -> str:
    return message.replace("%FIRST_NAME%", name).replace("%CITY%", "Austin")


def shows(page: Page, words: str) -> None:
    """The preview says, to those who do not see it as well, that it reads exactly this."""
    drawn = page.get_by_role("img", name=re.compile(rf"which reads: {re.escape(words)}$"))
    expect(drawn).to_be_visible()


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
