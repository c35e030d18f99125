"""Somebody at their browser who has signed in just now, and the service that they visit."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page

from quillpost.accounts.users.sessions import create_session
from quillpost.app.container import Container
from quillpost.web.application import create_app
from quillpost.web.security import SESSION
from support.browser_sessions import make_user
from support.chromium import new_page
from support.factories import Account
from support.raw_http import real_server


@contextmanager
def open_dashboard(
    container: Container, account: Account, *, zone: str = "America/Chicago", refusals: list[str] | None = None
) -> Iterator[tuple[Page, str]]:
    """An owner's page, and the address of the service."""
    person_id = make_user(container, account.id, "dana@example.com")
    with container.db.system_transaction() as tx:
        cookie = create_session(tx, person_id, awaits_code=False, address=None, browser=None, now=container.clock())
    with real_server(create_app(container)) as port, new_page(zone=zone, refusals=refusals) as page:
        here = f"http://127.0.0.1:{port}"
        page.context.add_cookies([{"name": SESSION, "value": cookie, "url": here}])
        page.goto(here)
        yield page, here


def go_to(page: Page, area: str) -> None:
    """By the links that are on every page."""
    page.get_by_role("navigation", name="Areas").get_by_role("link", name=area, exact=True).click()
