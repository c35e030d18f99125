"""Every page by day, by night and on a phone: axe-core has nothing grave to say, nothing is missing, nothing is wider
than its screen. `KEEP_PICTURES=1` leaves a picture of each in `out/screenshots`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.web.application import create_app
from quillpost.web.security import SESSION
from support.chromium import AXE, PHONE, find_overflow, look_at, new_page
from support.raw_http import real_server
from support.route_access import PAGE_NEEDS
from support.sample_account import SampleAccount, consent_page, list_public_pages, open_sample_account
from support.sign_in import ACCEPTS

PARAMETER = re.compile(r"\{([^}]+)\}")
PAGE = b"<!doctype html>"
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
        shown = self.page.request.get(self.address + path, headers={"Accept": ACCEPTS})
        if shown.status != 200:
            return [f"{path} answers {shown.status}"]
        is_page = shown.body().startswith(PAGE)  # no picture, no file, and no part of a page
        return self.look(path, PARAMETER.sub("one", route).strip("/") or "home") if is_page else []


@pytest.mark.timeout(900)  # a hundred pages, three looks at each
def test_every_page_is_fit_for_everybody(
    subtests: pytest.Subtests, postgres: EmbeddedPostgres, template: str, tmp_path: Path
) -> None:
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
