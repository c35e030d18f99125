"""A look at a page as people have it: by day, by night and on a phone, and as a screen reader hears it."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, ViewportSize, expect

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
    how: dict[str, Any] = {"resultTypes": ["violations"]}
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
