"""The large numbers at the top of pages."""

from playwright.sync_api import Locator, Page


def read_figure(page: Page, words: str) -> Locator:
    """The number that stands under these words, with what is said of it."""
    term = page.get_by_role("term").get_by_text(words, exact=True)
    return page.locator(".figure", has=term).get_by_role("definition")
