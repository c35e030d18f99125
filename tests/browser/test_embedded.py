"""The composer within another product's page, by the example that our documentation gives to its makers."""

import json
import re
from typing import Any

import httpx2
from playwright.sync_api import Page, expect

from quillpost.app.container import Container
from support.dashboard_visitor import go_to, open_dashboard
from support.factories import Account
from support.other_site import SiteResponse, other_site
from support.page_checks import ROOT, picture

EXAMPLE = re.compile(r"```html\n(.*?)```", re.DOTALL)
MESSAGE = "Hi %FIRST_NAME%, welcome to the neighborhood!"


class Product:
    """Somebody's web application, page and server, made as `docs/embed.md` says."""

    def __init__(self, token: str) -> None:
        self.quillpost, self.site = "", ""
        self.frame, self.sent = "", list[Any]()
        self._header = {"Authorization": f"Bearer {token}"}

    def answer(self, path: str, body: bytes) -> SiteResponse:
        match path:
            case "/our-own/embed-address":
                return SiteResponse(json.dumps({"url": self.new_frame()}), media_type="application/json")
            case "/our-own/ready":
                return SiteResponse(json.dumps(self._send(json.loads(body))), media_type="application/json")
        [example] = EXAMPLE.findall((ROOT / "docs" / "embed.md").read_text())
        page = str(example).replace("https://mail.example.com", self.quillpost)
        return SiteResponse(f'<!doctype html><html lang="en"><title>Product</title><h1>Our product</h1>{page}')

    def new_frame(self) -> str:
        embed = {"origin": self.site, "piece": "postcard-4x6", "message": "Hello!"}
        answer = httpx2.post(f"{self.quillpost}/api/v2/embeds", json=embed, headers=self._header)
        assert answer.status_code == 200, answer.text
        self.frame = str(answer.json()["url"])
        return self.frame

    def _send(self, stored_send: dict[str, str]) -> Any:
        place = stored_send["stored_send_url"]
        assert place.startswith(f"{self.quillpost}/")
        assert stored_send["piece"] == "postcard"
        self.sent.append(httpx2.post(place, headers=self._header).json())
        return self.sent[-1]


def test_mail_is_written_within_another_product(container: Container, owner: Account) -> None:
    product = Product(owner.token)
    with other_site(product.answer) as site, open_dashboard(container, owner) as (page, here):
        product.quillpost, product.site = here, site
        list_site(page, site)
        page.context.clear_cookies()
        page.goto(site)
        write_in_the_frame(page)
        finish(page)
    [sent] = product.sent
    [order] = owner.get("/orders").json()["data"]
    assert (order["id"], order["message"]) == (sent["id"], MESSAGE)
    [item] = owner.get(f"/orders/{order['id']}/items").json()["data"]
    assert item["recipient"]["name"] == "Ines Duarte"


def test_a_page_of_another_site_shows_nothing(container: Container, owner: Account) -> None:
    """Not even with an address that was made for a site that is listed."""
    product, refusals = Product(owner.token), list[str]()
    with (
        other_site(product.answer) as site,
        other_site(lambda *_: SiteResponse(f'<iframe title="Write" src="{product.frame}"></iframe>')) as elsewhere,
        open_dashboard(container, owner, refusals=refusals) as (page, here),
    ):
        product.quillpost, product.site = here, site
        list_site(page, site)
        product.new_frame()
        page.goto(elsewhere)
        [framed] = page.frames[1:]
        framed.wait_for_load_state()
        assert "composer" not in framed.content()
        assert page.goto(product.frame)  # for nobody stands around it, it is there
        expect(page.get_by_label("Message", exact=True)).to_have_value("Hello!")
    assert len(refusals) == 1
    assert f"frame-ancestors {site}" in refusals[0]


def list_site(page: Page, site: str) -> None:
    go_to(page, "Settings")
    page.get_by_role("link", name="Embed").click()
    page.get_by_label("Sites that may show it").fill(site)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_have_text("The sites that may show the composer are changed.")


def write_in_the_frame(page: Page) -> None:
    frame = page.frame_locator("iframe[title='Write a card']")
    message = frame.get_by_label("Message", exact=True)
    expect(message).to_have_value("Hello!")
    message.fill(MESSAGE)
    frame.get_by_label("Name", exact=True).fill("Ines Duarte")
    frame.get_by_label("Street and number").fill("16 Main St, Austin, TX 78701")
    expect(frame.get_by_role("img", name="Hi Ines, welcome to the neighborhood!")).to_be_visible()
    expect(frame.get_by_role("region", name="What it costs")).to_contain_text("1 piece at")
    picture(page, "journey-embedded")


def finish(page: Page) -> None:
    frame = page.frame_locator("iframe[title='Write a card']")
    with page.expect_response("**/our-own/ready") as heard:
        frame.get_by_role("button", name="Done").click()
    expect(frame.get_by_role("heading", name="Ready")).to_be_focused()
    assert heard.value.ok
    picture(page, "journey-embedded-ready")
