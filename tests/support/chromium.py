"""A real browser, where the machine has one (`.ci/run` installs it), and a look at pages as people have them: by day,
by night and on a phone, and as a screen reader hears them."""

import asyncio
import atexit
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect, sync_playwright

from quillpost.accounts.users.sessions import create_session
from quillpost.app.container import Container
from quillpost.web.security import SESSION
from support.factories import Account
from support.fake_server import FakeRequest, FakeResponse, FakeServer, respond
from support.sign_in import make_user

PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)

NO_BROWSER = (
    "There is no Chromium. To run the tests that need one, install it (`apt-get install chromium-headless-shell`, "
    "or chromium, or Google Chrome) and run `make test` again."
)
# A page is looked at for a second: to make its scripts faster, or to tidy up after them, costs more than that.
SHORT_LIVES = "--js-flags=--no-turbofan --no-maglev --min-semi-space-size=64 --max-semi-space-size=64"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Chromium:
    """One for all tests of a process: to start it takes seconds."""

    def __init__(self) -> None:
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if program is None:
            if "BROWSER_IS_REQUIRED" in os.environ:
                pytest.fail(NO_BROWSER)
            pytest.skip(NO_BROWSER)
        self._driver = sync_playwright().start()
        self._loop = asyncio.get_running_loop()
        self._browser = self._driver.chromium.launch(executable_path=program, args=["--no-sandbox", SHORT_LIVES])
        atexit.register(self._stop)

    @classmethod
    @cache
    def running(cls) -> Self:
        return cls()

    @contextmanager
    def in_use(self) -> Iterator[Browser]:
        """The driver's event loop runs beside the test's code. Afterwards none seems to, so that the tests that
        follow may run their own."""
        asyncio._set_running_loop(self._loop)
        try:
            yield self._browser
        finally:
            asyncio._set_running_loop(None)

    def _stop(self) -> None:
        with self.in_use():
            self._browser.close()
            self._driver.stop()


@contextmanager
def new_page(*, width: int = 1200, refusals: list[str] | None = None, zone: str = "America/Chicago") -> Iterator[Page]:
    """A page in a browser that has been nowhere before; what its scripts throw, or its policy refuses, fails the
    test. Where the policy is to refuse something, the browser's words about it go into `refusals` instead."""
    errors: list[str] = []
    with Chromium.running().in_use() as browser:
        # A person's, as it were: one that says it has no head is taken for a program.
        person = f"Mozilla/5.0 (X11; Linux) AppleWebKit/537.36 Chrome/{browser.version} Safari/537.36"
        context = browser.new_context(viewport={"width": width, "height": 900}, user_agent=person, timezone_id=zone)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: errors.append(str(error)))
        refused = errors if refusals is None else refusals
        page.on("console", lambda message: refused.append(message.text) if "Security Policy" in message.text else None)
        try:
            yield page
        finally:
            context.close()
    assert errors == []


@dataclass(frozen=True)
class ServedApp:
    app: FastAPI
    address: str


@contextmanager
def open_dashboard(
    address: str,
    container: Container,
    account: Account,
    *,
    zone: str = "America/Chicago",
    refusals: list[str] | None = None,
) -> Iterator[Page]:
    """An owner's page of the service at this address."""
    user_id = make_user(container, account.id, "dana@example.com")
    with container.db.system_transaction() as tx:
        cookie = create_session(tx, user_id, awaits_code=False, address=None, browser=None, now=container.clock())
    with new_page(zone=zone, refusals=refusals) as page:
        page.context.add_cookies([{"name": SESSION, "value": cookie, "url": address}])
        page.goto(address)
        yield page


def go_to(page: Page, area: str) -> None:
    """By the links that are on every page."""
    page.get_by_role("navigation", name="Areas").get_by_role("link", name=area, exact=True).click()


def read_figure(page: Page, words: str) -> Locator:
    """The large number that stands under these words, with what is said of it."""
    term = page.get_by_role("term").get_by_text(words, exact=True)
    return page.locator(".figure", has=term).get_by_role("definition")


@contextmanager
def watch_page(*tabs: Page) -> Iterator[None]:
    """Whatever these tabs come to show meanwhile, none of them loads its page anew for it."""
    loaded: list[str] = []

    def note(page: Page) -> None:
        loaded.append(page.url)

    for tab in tabs:
        tab.wait_for_load_state("load")
        tab.on("domcontentloaded", note)
    try:
        yield
    finally:
        for tab in tabs:
            tab.remove_listener("domcontentloaded", note)
    assert loaded == []


ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "out" / "screenshots"
"""For people who want to look at them: tests that do not, take none."""
KEEPS_PICTURES = "KEEP_PICTURES" in os.environ
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
DESKTOP, PHONE = ViewportSize(width=1280, height=900), ViewportSize(width=390, height=844)
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
GRAVE = ("serious", "critical")
FIND = """async ([how, grave]) => {
    const { violations } = await axe.run(document, how);
    const found = violations.filter(({ impact }) => grave.includes(impact));
    return found.map(({ id, help, nodes }) => [id, help, nodes[0].html]);
}"""
"""Only what is grave leaves the page: all that axe-core has to say takes as long to bring over as to find."""


def look_at(page: Page, address: str, name: str, *, status: int = 200, without: str | None = None) -> list[str]:
    """What somebody would complain about by day, by night and on a phone. The page runs axe-core. Of a page as long
    as a book, what is `without` is taken out before."""
    page.set_viewport_size(DESKTOP)
    page.emulate_media(color_scheme="light")
    answer = page.goto(address)
    assert answer is not None
    if answer.status != status:
        return [f"{address} answers {answer.status}"]
    page.wait_for_load_state("load")
    expect(page.locator(".htmx-request")).to_have_count(0)  # no part of it is on its way
    if without:
        page.evaluate("these => document.querySelectorAll(these).forEach(each => each.remove())", without)
    found = [f"by day: {problem}" for problem in violations(page)] + find_unfinished_text(page)
    picture(page, f"{name}-light")
    page.emulate_media(color_scheme="dark")
    found += [f"by night: {problem}" for problem in violations(page, only=["color-contrast"])]
    picture(page, f"{name}-dark")
    page.set_viewport_size(PHONE)
    page.evaluate(TWO_FRAMES)  # until then what is drawn to measure has the width that it had
    found += [f"on a phone: {problem}" for problem in find_overflow(page)]
    if KEEPS_PICTURES:
        page.emulate_media(color_scheme="light")
    picture(page, f"{name}-phone")
    return [f"{address}: {problem}" for problem in found]


def picture(page: Page, name: str) -> None:
    if not KEEPS_PICTURES:
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    file = PICTURES / f"{re.sub(r'[^a-z0-9-]+', '-', name.lower())}.jpeg"  # made in half the time of a PNG
    page.screenshot(path=file, type="jpeg", quality=90, full_page=True)


def violations(page: Page, *, only: Sequence[str] = ()) -> list[str]:
    """What axe-core finds serious or critical: which rule, and where first."""
    # Style sheets and films that were fetched once more would serve only rules that are for films, or experiments.
    how: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
    if only:
        how["runOnly"] = list(only)
    return [
        f"{rule} ({words}): {json.dumps(where)[:200]}" for rule, words, where in page.evaluate(FIND, [how, list(GRAVE)])
    ]


def find_overflow(page: Page) -> list[str]:
    """Whether one would have to push the page sideways to read it."""
    wide = page.evaluate("document.documentElement.scrollWidth")
    return [] if wide <= PHONE["width"] else [f"it is {wide} pixels wide"]


UNFINISHED = """() => {
    const broken = [...document.images].filter(each => each.loading !== 'lazy' && each.complete && !each.naturalWidth);
    const headings = document.querySelectorAll('h1').length;
    return broken.map(each => `no picture: ${each.src.slice(0, 200)}`)
        .concat(headings === 1 ? [] : [`${headings} main headings`]);
}"""


def find_unfinished_text(page: Page) -> list[str]:
    """Pictures that did not come, and headings that are missing or too many."""
    return list(page.evaluate(UNFINISHED))


@dataclass(frozen=True)
class SiteResponse:
    """A page, or where to go on."""

    text: str = ""
    media_type: str = "text/html"
    location: str | None = None


Answer = Callable[[str, bytes], SiteResponse]
"""Of a path with its query, and the body."""


class _Site(FakeServer):
    def __init__(self, answer: Answer, host: str) -> None:
        super().__init__(host=host)
        self._answer = answer

    def handle(self, request: FakeRequest) -> FakeResponse:
        is_icon = request.path == "/favicon.ico"
        page = SiteResponse() if is_icon else self._answer(request.target, request.body)
        where = {"Location": page.location} if page.location else {}
        kind = f"{page.media_type}; charset=utf-8"
        return respond(303 if page.location else 200, page.text.encode(), Content_Type=kind, **where)


@contextmanager
def other_site(answer: Answer, *, host: str = "localhost") -> Iterator[str]:
    """Its address. For a browser `localhost` is another site than 127.0.0.1; another port is the same site."""
    with _Site(answer, host) as site:
        yield site.url()
