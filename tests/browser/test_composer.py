"""Writing in the composer: the picture is the true one at every pause, nothing slow is in the way of a sender, and
all of it goes by the keyboard."""

import base64
import re
from collections.abc import Iterator, Sequence
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from quillpost.app.container import Container
from quillpost.web.public.files import endpoints as file_endpoints
from support.chromium import ServedApp, open_dashboard, picture
from support.factories import Account

MARA = {"name": "Mara Ellison", "address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"}
THEO = MARA | {"name": "Theo Banks", "address": "14 Main St"}
LABELS = {"Name": "name", "Street and number": "address", "City": "city", "State": "province"}
LABELS |= {"ZIP code": "postal_code"}
LOOK = {"size": "4x6", "handwriting_style": 1, "handwriting_color": "blue", "handwriting_realism": True}
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
    refused: set[str] = set()

    def refuse_once(route: Route) -> None:
        part = urlsplit(route.request.url).path
        if part in refused:
            route.continue_()
        else:
            refused.add(part)
            route.fulfill(status=503, headers={"Retry-After": "1"}, body="<p>The service is busy.</p>")

    give_address(page)
    page.route(re.compile("/compose/(preview|price)$"), refuse_once)
    message(page).fill("Hi %FIRST_NAME%, here I am.")
    expect_to_read(page, "Hi Mara, here I am.")
    expect(page.get_by_text("1 piece at $1.09")).to_be_visible()
    assert refused == {"/compose/preview", "/compose/price"}


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
