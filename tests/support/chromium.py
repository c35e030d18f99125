"""A real browser, where the machine has one. `.ci/run` installs it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, expect, sync_playwright

PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)

NO_BROWSER = (
    "There is no Chromium. To run the tests that need one, install it (`apt-get install chromium`, or Google "
    "Chrome) and run `make test` again."
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def new_page(*, width: int = 1200, refusals: list[str] | None = None, zone: str = "America/Chicago") -> Iterator[Page]:
    """A page that nobody has opened before; what its scripts throw, or its policy refuses, fails the test.
    Where the policy is to refuse something, the browser's words about it go into `refusals` instead."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        if "BROWSER_IS_REQUIRED" in os.environ:
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    errors: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        # A person's, as it were: one that says it has no head is taken for a program.
        person = f"Mozilla/5.0 (X11; Linux) AppleWebKit/537.36 Chrome/{browser.version} Safari/537.36"
        page = browser.new_page(viewport={"width": width, "height": 900}, user_agent=person, timezone_id=zone)
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: errors.append(str(error)))
        refused = errors if refusals is None else refusals
        page.on("console", lambda message: refused.append(message.text) if "Security Policy" in message.text else None)
        try:
            yield page
        finally:
            browser.close()
    assert errors == []
