"""A real browser, where the machine has one. `.ci/run` installs it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, expect, sync_playwright

PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def new_page(*, width: int = 1200, refusals: list[str] | None = None) -> Iterator[Page]:
    """A page that nobody has opened before; what its scripts throw, or its policy refuses, fails the test.
    Where the policy is to refuse something, the browser's words about it go into `refusals` instead."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        if "BROWSER_IS_REQUIRED" in os.environ:
            pytest.fail("There is no Chromium.")
        pytest.skip("There is no Chromium.")
    troubles: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        # A person's, as it were: one that says it has no head is taken for a program.
        person = f"Mozilla/5.0 (X11; Linux) AppleWebKit/537.36 Chrome/{browser.version} Safari/537.36"
        page = browser.new_page(viewport={"width": width, "height": 900}, user_agent=person)
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda fault: troubles.append(str(fault)))
        refused = troubles if refusals is None else refusals
        page.on("console", lambda said: refused.append(said.text) if "Security Policy" in said.text else None)
        try:
            yield page
        finally:
            browser.close()
    assert troubles == []
