"""One person's way through the pages in a real browser: joining, signing out and in, the second factor."""

import pyotp
import pytest
from playwright.sync_api import Page, expect

from quillpost.accounts.audit.service import COMMAND_LINE_ACTOR
from quillpost.accounts.users import invitations
from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.browser_sessions import PASSWORD as THEIRS
from support.browser_sessions import make_user
from support.chromium import new_page
from support.factories import Account, Clock
from support.other_site import SiteResponse, other_site
from support.raw_http import real_server

pytestmark = pytest.mark.costly

PASSWORD = "a few words in a row"


def test_a_persons_way_through_the_pages(container: Container, owner: Account, clock: Clock) -> None:
    with container.db.system_transaction() as tx:
        link = invitations.invite(
            tx,
            container.encryptor,
            owner.id,
            email="mel@example.com",
            role="owner",
            sub_account_id=None,
            actor=COMMAND_LINE_ACTOR,
            base_url="",
            now=clock.now(),
            send_email=False,
        )
    with real_server(create_app(container)) as port, new_page() as page:
        here = f"http://127.0.0.1:{port}"
        page.goto(here + link)
        join(page)
        sign_out(page)
        sign_in(page, "not the right one")
        expect(page.get_by_role("alert")).to_contain_text("is not right")
        sign_in(page)
        expect(page.locator(".me .who")).to_have_text("Mel Ortiz")
        app = turn_on_second_factor(page, clock)
        sign_out(page)
        clock.advance(minutes=1)
        sign_in(page)
        page.get_by_label("Code").fill(app.at(clock.now()))
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator(".me .who")).to_have_text("Mel Ortiz")
        switches_to_live(page)
        end_second_factor(page, here)


def test_no_other_site_shows_a_page_of_ours_within_its_own(container: Container, owner: Account) -> None:
    """Clickjacking. The session's cookie would come along: for a browser another port is the same site."""
    make_user(container, owner.id, "dana@example.com")
    paths, refusals = ("/settings", "/sign-in/confirm", "/"), list[str]()
    with (
        real_server(create_app(container)) as port,
        other_site(frame, host="127.0.0.1") as elsewhere,
        new_page(refusals=refusals) as page,
    ):
        here = f"http://127.0.0.1:{port}"
        page.goto(f"{here}/sign-in")
        sign_in(page, THEIRS, email="dana@example.com")
        expect(page.locator(".me .who")).to_have_text("Dana Whitfield")
        for path in paths:
            page.goto(f"{elsewhere}/?{here}{path}")
            [framed] = page.frames[1:]
            framed.wait_for_load_state()
            assert "Quillpost" not in framed.content()
    assert len(refusals) == len(paths)
    assert all("frame-ancestors 'none'" in refusal for refusal in refusals)


def join(page: Page) -> None:
    page.get_by_label("Your name").fill("Mel Ortiz")
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("The same once more").fill(PASSWORD + "!")
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("alert")).to_contain_text("not the same")
    expect(page.get_by_label("Your name")).to_have_value("Mel Ortiz")
    expect(page.get_by_label("The same once more")).to_be_focused()
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("The same once more").fill(PASSWORD)
    page.keyboard.press("Enter")
    status = page.get_by_role("status").filter(has_text="Welcome")
    expect(status).to_have_text("Welcome. You have joined Dana Whitfield.")


def sign_out(page: Page) -> None:
    page.locator(".me summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("status")).to_have_text("You are signed out.")


def sign_in(page: Page, password: str = PASSWORD, *, email: str = "mel@example.com") -> None:
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def turn_on_second_factor(page: Page, clock: Clock) -> pyotp.TOTP:
    """The secret is read from the page, as somebody types it into their app. The password is asked for first,
    as it was given a while ago."""
    clock.advance(minutes=31)
    page.get_by_role("navigation", name="Areas").get_by_role("link", name="Settings").click()
    page.get_by_role("link", name="Turn it on").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("img", name="QR code")).to_be_visible()
    app = pyotp.TOTP(page.locator(".secret code").inner_text())
    page.get_by_label("Code", exact=True).fill(app.at(clock.now()))
    page.get_by_role("button", name="Turn it on").click()
    expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    expect(page.locator(".codes li")).to_have_count(10)
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_text("You have 10 unused")).to_be_visible()
    return app


def switches_to_live(page: Page) -> None:
    mode = page.get_by_role("group", name="Mode")
    expect(mode.get_by_role("button", pressed=True)).to_have_text("Test")
    mode.get_by_role("button", name="Live").press("Enter")
    expect(mode.get_by_role("button", pressed=True)).to_have_text("Live")


def end_second_factor(page: Page, here: str) -> None:
    page.goto(f"{here}/settings/second-factor")
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Turn it off").click()
    expect(page.get_by_role("status")).to_have_text("The second factor is off.")


def frame(target: str, _body: bytes) -> SiteResponse:
    """Another site, which lays a page of ours under its own buttons."""
    return SiteResponse(f'<title>Win</title><iframe src="{target.partition("?")[2]}"></iframe>')
