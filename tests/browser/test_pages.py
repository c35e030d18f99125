"""Every page by day, by night and on a phone: axe-core has nothing grave to say, nothing is missing, nothing is wider
than its screen; `KEEP_PICTURES=1` leaves a picture of each in `out/screenshots`. And what an owner does by hand."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.web.application import create_app
from quillpost.web.security import SESSION
from support.chromium import AXE, PHONE, find_overflow, look_at, new_page
from support.factories import Account, Clock
from support.pages import MEMBER, AccountPages
from support.raw_http import real_server
from support.route_access import PAGE_NEEDS
from support.sample_account import SampleAccount, consent_page, list_public_pages, open_sample_account
from support.sign_in import ACCEPTS, PASSWORD, make_user
from support.test_client import TestClient

PARAMETER = re.compile(r"\{([^}]+)\}")
FILE = re.compile(r"/[^/]+[.]\w+$|/(files|ticket)/[^/]+$|/(proof|looks|map|outcome)$")
"""Pictures, files and parts of pages: they are read, and not looked at."""
NEVER_ENDING = "/live"
LIVE = re.compile(r"/print-room/(brands/|prices/|accounts/.+/credit)")
"""What changes live mail is shown to whoever looks at live mail."""

LATER_CHAPTERS = "main > section:nth-of-type(n + 4), .contents > ul > li:nth-child(n + 4)"
"""Of the documentation: there are a thousand fields, all made alike, and axe-core takes minutes for them."""

WIDER = """() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(".uplot { min-width: 1200px !important }");
    document.adoptedStyleSheets.push(sheet);
}"""

ROUTES = sorted(path for method, path in PAGE_NEEDS if method == "GET" and not path.endswith(NEVER_ENDING))


@dataclass
class Visit:
    house: SampleAccount
    page: Page
    address: str
    cookies: Mapping[str, str]

    def sign_in(self, mode: str) -> None:
        self.page.context.add_cookies([{"name": SESSION, "value": self.cookies[mode], "url": self.address}])

    def look(self, path: str, name: str, *, status: int = 200) -> list[str]:
        without = LATER_CHAPTERS if path == "/docs" else None
        return look_at(self.page, self.address + path, name, status=status, without=without)

    def look_at_route(self, route: str) -> list[str]:
        path = PARAMETER.sub(lambda name: str(self.house.ids_for(route)[name[1]]), route)
        self.sign_in("live" if LIVE.match(path) else "test")
        if not FILE.search(path):
            return self.look(path, PARAMETER.sub("one", route).strip("/") or "home")
        shown = self.page.request.get(self.address + path, headers={"Accept": ACCEPTS})
        return [] if shown.status == 200 else [f"{path} answers {shown.status}"]


@pytest.mark.timeout(900)  # a hundred pages, three looks at each
def test_every_page_fits(subtests: pytest.Subtests, postgres: EmbeddedPostgres, template: str, tmp_path: Path) -> None:
    """On a service of its own, in which everything has happened."""
    with (
        open_sample_account(postgres, template, tmp_path) as house,
        real_server(create_app(house.container)) as port,
        new_page() as page,
    ):
        page.context.add_init_script(path=AXE)
        cookies = {mode: house.cookie(mode) for mode in ("test", "live")}
        visit = Visit(house, page, f"http://127.0.0.1:{port}", cookies)
        for route in ROUTES:
            with subtests.test(route):
                assert visit.look_at_route(route) == []
        visit.sign_in("test")
        for name, path in {"home": "/", "docs": "/docs", "consent": consent_page(house)}.items():
            with subtests.test(f"{path}, which is public, for somebody who has signed in"):
                assert visit.look(path, name) == []
        with subtests.test("a chart that is not redrawn"):
            page.set_viewport_size(PHONE)
            page.goto(visit.address)
            expect(page.locator(".uplot")).to_be_visible()
            page.evaluate(WIDER)
            assert find_overflow(page) == []
        page.context.clear_cookies()
        for name, (path, status) in list_public_pages(house).items():
            with subtests.test(f"{path} for nobody"):
                assert visit.look(path, name, status=status) == []


EMAIL = "dana@example.com"


@pytest.mark.long
def test_an_owner_does_all_by_hand(address: str, container: Container, http: TestClient) -> None:
    house = AccountPages(container, http)
    house.member  # noqa: B018 (is there by now)
    with new_page(width=390) as page:
        settings = f"{address}/settings"
        page.context.add_cookies([{"name": SESSION, "value": str(house.owner.cookie(SESSION)), "url": settings}])
        page.goto(settings)
        the_menu_closes(page)
        token = make_token(page, settings)
        assert house.ping(token) == 200
        revoke_token(page)
        assert house.ping(token) == 401
        invite_and_take_back(page, settings)
        page.goto(f"{settings}/audit")
        for words in ("made a token: Shop (live)", "revoked a token: Shop", "took an invitation back"):
            expect(page.get_by_text(words).first).to_be_visible()
        long_words_break(page, settings, house)


def long_words_break(page: Page, settings: str, house: AccountPages) -> None:
    """A name that is one long word makes no page wider than its screen."""
    name = "W" * 100
    house.owner.post("/settings/tokens/new", name=name, mode="live", limits="some", scopes=["orders:read"], lasts="30")
    house.owner.post(
        "/settings/clients/new", name=name, redirect_uris="https://app.example/b", kind="public", limits="all"
    )
    house.connect_app(house.account, MEMBER, name)
    for width in (390, 900, 1200):
        page.set_viewport_size({"width": width, "height": 900})
        for path in ("/tokens", "/clients", "/apps", "/audit"):
            page.goto(settings + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (width, path)


def the_menu_closes(page: Page) -> None:
    """By Escape, which leads back to where it was opened, and by a click anywhere else, but not within."""
    menu, opened = page.locator("details.me"), page.locator("details.me[open]")
    menu.locator("summary").click()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(opened).to_have_count(0)
    expect(menu.locator("summary")).to_be_focused()
    menu.locator("summary").click()
    menu.locator(".panel strong").click()
    expect(opened).to_have_count(1)
    page.locator("h1").click()
    expect(opened).to_have_count(0)


def copied(page: Page) -> str:
    """What the button beside a secret puts into the clipboard."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("status")).to_have_text("Copied.")
    return str(page.evaluate("navigator.clipboard.readText()"))


def make_token(page: Page, settings: str) -> str:
    page.goto(f"{settings}/tokens")
    page.get_by_role("link", name="New token").click()
    expect(page.get_by_label("Name")).to_be_focused()
    page.get_by_label("Name").fill("Shop")
    page.get_by_role("radio", name="Live").check()
    tick = page.get_by_role("checkbox", name=re.compile("See your orders"))
    expect(tick).to_be_hidden()
    page.get_by_role("radio", name="Only what is ticked").check()
    page.get_by_role("button", name="Make the token").click()
    expect(page.get_by_role("alert")).to_have_text("Choose at least one thing that it may do.")
    expect(page.get_by_label("Name")).to_have_value("Shop")
    expect(page.get_by_role("radio", name="Live")).to_be_checked()
    tick.check()
    page.get_by_role("button", name="Make the token").click()
    assert copied(page) == page.locator(".secret").inner_text().strip()
    return copied(page)


def revoke_token(page: Page) -> None:
    page.get_by_role("link", name="I have copied it").click()
    expect(page.locator("main")).not_to_contain_text("qp_live_")
    page.get_by_role("link", name="Revoke Shop").click()
    page.get_by_role("button", name="Revoke it").click()
    expect(page.get_by_role("status")).to_have_text("The token is revoked.")


def invite_and_take_back(page: Page, settings: str) -> None:
    page.goto(f"{settings}/people")
    page.get_by_role("link", name="Invite somebody").click()
    email = page.get_by_label("E-mail")
    email.fill(EMAIL)
    page.get_by_role("button", name="Make the link").click()
    expect(page.get_by_role("alert")).to_contain_text("is in this account already")
    expect(email).to_be_focused()
    email.fill("kim@example.com")
    page.get_by_label("Limited to").select_option(label="Dallas")
    page.get_by_role("button", name="Make the link").click()
    expect(page.locator(".secret")).to_contain_text("/join/qp_invitation_")
    page.get_by_role("link", name="I have handed it over").click()
    page.get_by_role("button", name="Take back the invitation to kim@example.com").click()
    expect(page.get_by_role("status")).to_have_text("The invitation is taken back.")


SWITCH_ELSEWHERE = """async () => {
  const button = document.querySelector("button[name=membership]");
  const filled = new URLSearchParams(new FormData(button.form, button));
  await fetch(button.form.action, { method: "POST", body: filled });
}"""
"""As another tab would; this page stays as it is."""


def sign_in(page: Page) -> None:
    page.get_by_label("E-mail").fill(EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def choose_file(page: Page, file: Path, text: str) -> None:
    file.write_text(text)
    page.get_by_label("File", exact=True).set_input_files(file)


def test_a_file_chosen_early_names_a_list(address: str, container: Container, owner: Account, tmp_path: Path) -> None:
    """One that cannot be imported leaves none behind."""
    make_user(container, owner.id, EMAIL)
    scripts: list[Route] = []
    with new_page(width=390) as page:
        page.route("**/import*.js*", lambda script: scripts.append(script))
        page.goto(f"{address}/lists/import")
        with page.expect_request("**/import*.js*"):
            sign_in(page)
        choose_file(page, tmp_path / "shoes.csv", "Shoe,Size\nred,9\n")  # before the script has come
        for script in scripts:
            script.continue_()
        expect(page.get_by_label("Name of the new list")).to_have_value("shoes")
        page.get_by_role("button", name="Look at it").click()
        expect(page.get_by_text("No column is the street: nobody of these can be mailed to.")).to_be_visible()
        page.get_by_role("button", name="Import", exact=True).click()
        expect(page.get_by_role("alert")).to_have_text("Choose which column is the street, or at least the e-mail.")
        expect(page.get_by_role("button", name="Import", exact=True)).to_be_enabled()
        page.get_by_role("button", name="Another file").click()
        expect(page.get_by_label("Name of the new list")).to_be_visible()
    assert owner.get("/mailing-lists").json()["data"] == []


def test_an_expired_token_is_renewed_and_an_account_switch_or_sign_out_is_reported(
    address: str, container: Container, owner: Account, stranger: Account, clock: Clock, tmp_path: Path
) -> None:
    """The page's clock and the service's go on while the reader looks for their file. Then they go on to
    another account, in another tab."""
    for account in (owner, stranger):
        make_user(container, account.id, EMAIL)
    with new_page() as page:
        page.clock.install()
        page.goto(f"{address}/lists/import")
        sign_in(page)
        expect(page.get_by_label("Mailing list")).to_be_visible()
        clock.advance(minutes=20)
        page.clock.fast_forward("20:00")
        choose_file(page, tmp_path / "people.csv", "Name,Street\nJane Doe,12 Main St\n")
        page.get_by_role("button", name="Look at it").click()
        expect(page.get_by_label("What Street is", exact=True)).to_be_visible()
        page.evaluate(SWITCH_ELSEWHERE)
        page.get_by_role("button", name="Import", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("You have gone on to another account meanwhile")
        with container.db.system_transaction() as tx:
            tx.exec_driver_sql("delete from sessions")
        page.get_by_role("button", name="Import", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("You are signed out.")
    assert owner.get("/mailing-lists").json()["data"] == []
