"""Other people's sites beside ours in one browser: a page that calls the API, a product that shows the composer, and
an app that somebody connects."""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from playwright.sync_api import Page, expect

from quillpost.app.container import Container
from support.chromium import ROOT, SiteResponse, go_to, new_page, open_dashboard, other_site, picture
from support.factories import Account, postcard

CALL = """
async ([address, how]) => {
    const answer = await fetch(address, how);
    return {status: answer.status, body: await answer.json(), headers: Object.fromEntries(answer.headers)};
}
"""
REFUSED = "async address => { try { await fetch(address); return 'read'; } catch (fault) { return fault.name; } }"


def call_from(page: Page, token: str) -> Callable[..., Any]:
    def call(address: str, *, method: str = "GET", body: Any = None, token: str = token, **headers: str) -> Any:
        sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"} | headers
        written = None if body is None else page.evaluate("JSON.stringify", body)
        return page.evaluate(CALL, [address, {"method": method, "headers": sent, "body": written}])

    return call


def test_a_page_of_another_site_can_send_and_read_and_gets_errors(address: str, owner: Account) -> None:
    with other_site(lambda _path, _body: SiteResponse("<title>Shop</title>")) as site, new_page() as page:
        page.goto(site)
        api, call = f"{address}/api/v2", call_from(page, owner.token)
        once = {"Idempotency-Key": "from a page", "X-Trace": "of the page's own"}
        first, again = (call(f"{api}/send/postcard", method="POST", body=postcard(), **once) for _ in range(2))
        assert (first["status"], again["status"], first["body"]["id"]) == (200, 200, again["body"]["id"])
        assert int(first["headers"]["x-ratelimit-remaining"]) > 0
        assert first["headers"]["x-request-id"]
        put = call(f"{api}/orders/{first['body']['id']}", method="PUT", body={"message": "Another!", "mesage": "?"})
        assert (put["status"], put["headers"]["x-ignored-fields"]) == (200, "mesage")
        wrong = call(f"{api}/send/postcard", method="POST", body={})
        assert (wrong["status"], "errors" in wrong["body"]) == (422, True)
        assert call(f"{api}/ping", token="qp_test_none")["status"] == 401
        assert page.evaluate(REFUSED, f"{address}/health") == "TypeError"
    assert owner.get("/orders").json()["meta"]["total"] == 1


EXAMPLE = re.compile(r"```html\n(.*?)```", re.DOTALL)
WELCOME = "Hi %FIRST_NAME%, welcome to the neighborhood!"


class Product:
    """Somebody's web application, page and server, made as `docs/embed.md` says."""

    def __init__(self, quillpost: str, token: str) -> None:
        self.quillpost, self.site = quillpost, ""
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
        answer = httpx2.post(f"{self.quillpost}/api/v2/embeds", json=embed, headers=self._header, timeout=60)
        assert answer.status_code == 200, answer.text
        self.frame = str(answer.json()["url"])
        return self.frame

    def _send(self, stored_send: dict[str, str]) -> Any:
        place = stored_send["stored_send_url"]
        assert place.startswith(f"{self.quillpost}/")
        assert stored_send["piece"] == "postcard"
        self.sent.append(httpx2.post(place, headers=self._header, timeout=60).json())
        return self.sent[-1]


def test_mail_is_written_within_another_product(address: str, container: Container, owner: Account) -> None:
    product = Product(address, owner.token)
    with other_site(product.answer) as product.site, open_dashboard(address, container, owner) as page:
        list_site(page, product.site)
        page.context.clear_cookies()
        page.goto(product.site)
        frame = page.frame_locator("iframe[title='Write a card']")
        message = frame.get_by_label("Message", exact=True)
        expect(message).to_have_value("Hello!")
        message.fill(WELCOME)
        frame.get_by_label("Name", exact=True).fill("Ines Duarte")
        frame.get_by_label("Street and number").fill("16 Main St, Austin, TX 78701")
        expect(frame.get_by_role("img", name="Hi Ines, welcome to the neighborhood!")).to_be_visible()
        expect(frame.get_by_role("region", name="What it costs")).to_contain_text("1 piece at")
        picture(page, "journey-embedded")
        with page.expect_response("**/our-own/ready") as heard:
            frame.get_by_role("button", name="Done").click()
        expect(frame.get_by_role("heading", name="Ready")).to_be_focused()
        assert heard.value.ok
        picture(page, "journey-embedded-ready")
    [sent] = product.sent
    [order] = owner.get("/orders").json()["data"]
    assert (order["id"], order["message"]) == (sent["id"], WELCOME)
    [item] = owner.get(f"/orders/{order['id']}/items").json()["data"]
    assert item["recipient"]["name"] == "Ines Duarte"


def test_a_page_of_another_site_shows_nothing(address: str, container: Container, owner: Account) -> None:
    """Not even with an address that was made for a site that is listed."""
    product, refusals = Product(address, owner.token), list[str]()
    with (
        other_site(product.answer) as product.site,
        other_site(lambda *_: SiteResponse(f'<iframe title="Write" src="{product.frame}"></iframe>')) as elsewhere,
        open_dashboard(address, container, owner, refusals=refusals) as page,
    ):
        list_site(page, product.site)
        product.new_frame()
        page.goto(elsewhere)
        [framed] = page.frames[1:]
        framed.wait_for_load_state()
        assert "composer" not in framed.content()
        assert page.goto(product.frame)  # for nobody stands around it, it is there
        expect(page.get_by_label("Message", exact=True)).to_have_value("Hello!")
    assert len(refusals) == 1
    assert f"frame-ancestors {product.site}" in refusals[0]


def list_site(page: Page, site: str) -> None:
    go_to(page, "Settings")
    page.get_by_role("link", name="Embed").click()
    page.get_by_label("Sites that may show it").fill(site)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_have_text("The sites that may show the composer are changed.")


THANKS = "Hi %FIRST_NAME%, thank you for your order!"
VERIFIER = "v" * 64


class Shop:
    """It mails a card to whoever buys something."""

    def __init__(self, quillpost: str) -> None:
        self.quillpost, self.site, self.state = quillpost, "", ""
        self._session: OAuth2Session | None = None

    @property
    def session(self) -> OAuth2Session:
        assert self._session is not None
        return self._session

    def use_credentials(self, client_id: str, secret: str) -> None:
        """Its maker copies these into its settings."""
        back, scope = f"{self.site}/back", "send:write orders:read"
        self._session = OAuth2Session(client_id, secret, redirect_uri=back, scope=scope, code_challenge_method="S256")

    def answer(self, path: str, _: bytes) -> SiteResponse:
        match urlsplit(path).path:
            case "/connect":
                where = f"{self.quillpost}/oauth/authorize"
                link, self.state = self.session.create_authorization_url(where, code_verifier=VERIFIER)
                return SiteResponse(location=link)
            case "/back":
                assert parse_qs(urlsplit(path).query)["state"] == [self.state]
                token_url, response = f"{self.quillpost}/oauth/token", self.site + path
                self.session.fetch_token(
                    token_url, authorization_response=response, state=self.state, code_verifier=VERIFIER
                )
                return SiteResponse('<p>Quillpost is connected.</p><a href="/send">Send a card</a>')
            case "/send":
                return SiteResponse(self._send())
        return SiteResponse('<title>Shop</title><a href="/connect">Connect Quillpost</a>')

    def _send(self) -> str:
        header = {"Authorization": f"Bearer {self.session.token['access_token']}"}
        sent = httpx2.post(
            f"{self.quillpost}/api/v2/send/postcard", json=postcard(message=THANKS), headers=header, timeout=60
        )
        if sent.status_code == 200:
            return f"<p>Order {sent.json()['id']} is on its way.</p>"
        assert sent.status_code == 401, sent.text
        with pytest.raises(OAuthError):
            self.session.refresh_token(f"{self.quillpost}/oauth/token")
        return "<p>Quillpost lets us in no more, and gives us no new token.</p>"


def test_an_app_may_send(address: str, container: Container, owner: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    shop = Shop(address)
    with other_site(shop.answer) as shop.site, open_dashboard(address, container, owner) as page:
        shop.use_credentials(*register_by_hand(page, f"{shop.site}/back"))
        connect(page, shop.site)
        page.get_by_role("link", name="Send a card").click()
        status = page.get_by_text("is on its way.")
        expect(status).to_be_visible()
        order_number = status.inner_text().split()[1]
        page.goto(address)
        go_to(page, "Orders")
        row = page.get_by_role("row", name=THANKS)
        expect(row).to_have_count(1)
        row.get_by_role("link", name=order_number, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(f"Order {order_number}:")
        disconnect(page)
        page.goto(f"{shop.site}/send")
        expect(page.get_by_text("Quillpost lets us in no more, and gives us no new token.")).to_be_visible()
    assert owner.get("/orders").json()["meta"]["total"] == 1


def register_by_hand(page: Page, back: str) -> tuple[str, str]:
    """The client's id and its secret, as the page shows them once."""
    go_to(page, "Settings")
    page.get_by_role("link", name="OAuth clients").click()
    page.get_by_role("link", name="Register a client").click()
    page.get_by_label("Name", exact=True).fill("Corner Shop")
    page.get_by_label("Redirect addresses").fill(back)
    for choice in ("Yes: confidential", "Only what is ticked", "send:write", "orders:read"):
        page.get_by_label(choice).check()
    page.get_by_role("button", name="Register it").click()
    expect(page.get_by_text("Copy it now: it is shown this once")).to_be_visible()
    picture(page, "journey-client-registered")
    facts = page.locator("dl.facts").get_by_role("definition")
    return facts.first.inner_text().strip(), page.locator(".secret code").inner_text().strip()


def connect(page: Page, site: str) -> None:
    page.goto(site)
    page.get_by_role("link", name="Connect Quillpost").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Let Corner Shop act for Dana Whitfield?")
    picture(page, "journey-consent")
    page.get_by_label("is for testing").check()
    page.get_by_role("button", name="Allow", exact=True).click()
    expect(page.get_by_text("Quillpost is connected.")).to_be_visible()


def disconnect(page: Page) -> None:
    go_to(page, "Settings")
    page.get_by_role("link", name="Connected apps").click()
    page.get_by_role("link", name="Disconnect Corner Shop").click()
    page.get_by_role("button", name="Disconnect").click()
    expect(page.get_by_text("No app is connected.")).to_be_visible()
    picture(page, "journey-disconnected")
