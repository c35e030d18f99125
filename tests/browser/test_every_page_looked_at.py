"""Every page, by day, by night and on a phone, with a picture of each to be looked at; and by axe-core."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page, expect

from quillpost.web.application import create_app
from quillpost.web.security import SESSION
from support.browser_sessions import ACCEPTS
from support.chromium import new_page
from support.page_checks import PHONE, find_overflow, look_at
from support.public_pages import consent_page, list_public_pages
from support.raw_http import real_server
from support.route_access import PAGE_NEEDS
from support.sample_account import SampleAccount

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
AREAS = sorted({path.split("/")[1] for path in ROUTES})


@dataclass
class Visit:
    """A browser in front of the furnished house."""

    house: SampleAccount
    page: Page
    here: str
    cookies: Mapping[str, str]

    def sign_in(self, mode: str) -> None:
        self.page.context.add_cookies([{"name": SESSION, "value": self.cookies[mode], "url": self.here}])

    def sign_out(self) -> None:
        self.page.context.clear_cookies()

    def look(self, address: str, name: str, *, status: int = 200) -> list[str]:
        without = LATER_CHAPTERS if address == "/docs" else None
        return look_at(self.page, self.here + address, name, status=status, without=without)


@pytest.fixture(scope="module")
def visit(house: SampleAccount) -> Iterator[Visit]:
    cookies = {mode: house.cookie(mode) for mode in ("test", "live")}
    with real_server(create_app(house.container)) as port, new_page() as page:
        yield Visit(house, page, f"http://127.0.0.1:{port}", cookies)


@pytest.mark.parametrize("area", AREAS)
def test_every_page_of_an_area_is_fit_for_everybody(visit: Visit, area: str) -> None:
    complaints = list[str]()
    for route in [path for path in ROUTES if path.split("/")[1] == area]:
        address = filled(route, visit.house.ids_for(route))
        visit.sign_in("live" if LIVE.match(address) else "test")
        shown = visit.page.request.get(visit.here + address, headers={"Accept": ACCEPTS})
        if shown.status != 200:
            complaints.append(f"{address} answers {shown.status}")
        elif shown.body().startswith(PAGE):  # no picture, no file, and no part of a page
            complaints += visit.look(address, name_of(route))
    assert complaints == [], "\n".join(complaints)


def test_public_pages_look_right_for_signed_in_users(visit: Visit) -> None:
    pages = {"home": "/", "docs": "/docs", "consent": consent_page(visit.house)}
    visit.sign_in("test")
    complaints = [complaint for name, address in pages.items() for complaint in visit.look(address, name)]
    assert complaints == [], "\n".join(complaints)


def test_pages_for_which_nobody_signs_in_are_fit_for_everybody(visit: Visit) -> None:
    visit.sign_out()
    complaints = list[str]()
    for name, (address, status) in list_public_pages(visit.house).items():
        complaints += visit.look(address, name, status=status)
    assert complaints == [], "\n".join(complaints)


def test_a_chart_that_is_not_redrawn_makes_no_page_wider(visit: Visit) -> None:
    visit.sign_in("test")
    visit.page.set_viewport_size(PHONE)
    visit.page.goto(visit.here)
    expect(visit.page.locator(".uplot")).to_be_visible()
    visit.page.evaluate(WIDER)
    assert find_overflow(visit.page) == []


def filled(path: str, ids: Mapping[str, object]) -> str:
    """The address of something that is there."""
    return PARAMETER.sub(lambda name: str(ids[name[1]]), path)


def name_of(route: str) -> str:
    return PARAMETER.sub("one", route).strip("/") or "home"
