"""Pages that somebody only looks at: what they come to show comes to them."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page


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
