"""The flow as a person sees it, in a real browser: from an app's site to consent, and back to the app."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import expect

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.browser_sessions import PASSWORD, make_user, sign_in_browser
from support.chromium import new_page
from support.factories import Account, make_sub_account
from support.oauth_app import STATE, VERIFIER, WITH_PKCE, OAuthApp, register_client
from support.other_site import SiteResponse, other_site
from support.raw_http import real_server
from support.test_client import TestClient

pytestmark = pytest.mark.costly


class Site:
    """An app's website: a page with one link, and a page to come back to."""

    def __init__(self) -> None:
        self.link = ""
        self.came_back: list[dict[str, list[str]]] = []


@contextmanager
def site_of_app() -> Iterator[tuple[Site, str]]:
    site = Site()

    def answer(target: str, _body: bytes) -> SiteResponse:
        address = urlsplit(target)
        if address.path == "/back":
            site.came_back.append(parse_qs(address.query))
            return SiteResponse("<p>Welcome back</p>")
        return SiteResponse(f'<a href="{site.link}">Connect</a>')

    with other_site(answer) as url:
        yield site, url


def test_from_an_apps_site_to_consent_and_back(container: Container, http: TestClient, owner: Account) -> None:
    make_sub_account(container, owner, "North")
    make_user(container, owner.id, "dana@example.com")
    with site_of_app() as (site, place), real_server(create_app(container)) as port, new_page(width=390) as page:
        client, _ = register_client(container, owner.id, is_public=True, redirect_uris=(f"{place}/back",))
        params = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": f"{place}/back",
            "state": STATE,
            "scope": "send:write orders:read",
            **WITH_PKCE,
        }
        site.link = f"http://127.0.0.1:{port}/oauth/authorize?{urlencode(params)}".replace("&", "&amp;")
        page.goto(place)
        page.get_by_role("link", name="Connect").click()
        page.get_by_label("E-mail").fill("dana@example.com")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Let Letterhead act for Dana Whitfield?")
        page.get_by_label("For", exact=True).select_option(label="North alone")
        page.get_by_label("is for testing").check()
        page.get_by_role("button", name="Allow", exact=True).click()
        expect(page.get_by_text("Welcome back")).to_be_visible()
    [query] = site.came_back
    assert (query["state"], query["iss"]) == ([STATE], [container.base_url])
    answer = OAuthApp(http, client, None, sign_in_browser(http)).exchange(query["code"][0], code_verifier=VERIFIER)
    assert answer.status_code == 200, answer.text
