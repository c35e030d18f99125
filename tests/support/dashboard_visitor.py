"""Somebody at their browser who has signed in just now, and what they see."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fastapi import FastAPI
from playwright.sync_api import Locator, Page

from quillpost.accounts.users.sessions import create_session
from quillpost.app.container import Container
from quillpost.web.security import SESSION
from support.browser_sessions import make_user
from support.chromium import new_page
from support.factories import Account


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
