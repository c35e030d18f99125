"""A real browser, where the machine has one. `.ci/run` installs it."""

import asyncio
import atexit
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Self

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)

NO_BROWSER = (
    "There is no Chromium. To run the tests that need one, install it (`apt-get install chromium`, or Google "
    "Chrome) and run `make test` again."
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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
        self._browser = self._driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
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
