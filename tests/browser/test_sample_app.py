"""Somebody makes an app for Quillpost and connects it: registered by hand, let in, and let in no more."""

from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from playwright.sync_api import Page, expect

from quillpost.app.container import Container
from support.dashboard_visitor import go_to, open_dashboard
from support.factories import Account, postcard
from support.other_site import SiteResponse, other_site
from support.page_checks import picture

MESSAGE = "Hi %FIRST_NAME%, thank you for your order!"
VERIFIER = "v" * 64


class SampleApp:
    """A shop that mails a card to whoever buys something."""

    def __init__(self) -> None:
        self.quillpost, self.site = "", ""
        self.session: OAuth2Session | None = None
        self.state = ""

    def use_credentials(self, client_id: str, secret: str) -> None:
        """Its maker copies these into its settings."""
        self.session = OAuth2Session(
            client_id,
            secret,
            redirect_uri=f"{self.site}/back",
            scope="send:write orders:read",
            code_challenge_method="S256",
        )

    def answer(self, path: str, _: bytes) -> SiteResponse:
        match urlsplit(path).path:
            case "/connect":
                return self._lead_to_us()
            case "/back":
                return self._come_back(path)
            case "/send":
                return SiteResponse(self._send())
        return SiteResponse('<title>Shop</title><a href="/connect">Connect Quillpost</a>')

    def _lead_to_us(self) -> SiteResponse:
        assert self.session is not None
        where = f"{self.quillpost}/oauth/authorize"
        link, self.state = self.session.create_authorization_url(where, code_verifier=VERIFIER)
        return SiteResponse(location=link)

    def _come_back(self, path: str) -> SiteResponse:
        assert self.session is not None
        assert parse_qs(urlsplit(path).query)["state"] == [self.state]
        self.session.fetch_token(
            f"{self.quillpost}/oauth/token",
            authorization_response=self.site + path,
            state=self.state,
            code_verifier=VERIFIER,
        )
        return SiteResponse('<p>Quillpost is connected.</p><a href="/send">Send a card</a>')

    def _send(self) -> str:
        assert self.session is not None
        token = self.session.token["access_token"]
        sent = httpx2.post(
            f"{self.quillpost}/api/v2/send/postcard",
            json=postcard(message=MESSAGE),
            headers={"Authorization": f"Bearer {token}"},
        )
        if sent.status_code == 401:
            return f"<p>Quillpost lets us in no more{self._refresh_result()}.</p>"
        assert sent.status_code == 200, sent.text
        return f"<p>Order {sent.json()['id']} is on its way.</p>"

    def _refresh_result(self) -> str:
        assert self.session is not None
        try:
            self.session.refresh_token(f"{self.quillpost}/oauth/token")
        except OAuthError:
            return ", and gives us no new token"
        return ""


def test_an_app_is_registered_connected_used_and_disconnected(
    container: Container, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    app = SampleApp()
    with other_site(app.answer) as site, open_dashboard(container, owner) as (page, here):
        app.quillpost, app.site = here, site
        app.use_credentials(*register_by_hand(page, f"{site}/back"))
        connect(page, site)
        number = have_a_card_sent(page)
        see_it_among_orders(page, here, number)
        disconnect(page)
        page.goto(f"{site}/send")
        expect(page.get_by_text("Quillpost lets us in no more, and gives us no new token.")).to_be_visible()
    assert owner.get("/orders").json()["meta"]["total"] == 1


def register_by_hand(page: Page, back: str) -> tuple[str, str]:
    """The client's id and its secret, as the page shows them once."""
    go_to(page, "Settings")
    page.get_by_role("link", name="OAuth clients").click()
    page.get_by_role("link", name="Register a client").click()
    page.get_by_label("Name", exact=True).fill("Corner Shop")
    page.get_by_label("Redirect addresses").fill(back)
    page.get_by_label("Yes: confidential").check()
    page.get_by_label("Only what is ticked").check()
    for scope in ("send:write", "orders:read"):
        page.get_by_label(scope).check()
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


def have_a_card_sent(page: Page) -> str:
    page.get_by_role("link", name="Send a card").click()
    status = page.get_by_text("is on its way.")
    expect(status).to_be_visible()
    return status.inner_text().split()[1]


def see_it_among_orders(page: Page, here: str, number: str) -> None:
    page.goto(here)
    go_to(page, "Orders")
    row = page.get_by_role("row", name=MESSAGE)
    expect(row).to_have_count(1)
    row.get_by_role("link", name=number, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Order {number}:")


def disconnect(page: Page) -> None:
    go_to(page, "Settings")
    page.get_by_role("link", name="Connected apps").click()
    page.get_by_role("link", name="Disconnect Corner Shop").click()
    page.get_by_role("button", name="Disconnect").click()
    expect(page.get_by_text("No app is connected.")).to_be_visible()
    picture(page, "journey-disconnected")
