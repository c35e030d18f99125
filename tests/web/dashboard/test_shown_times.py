"""Every time on a page is the reader's: in their zone, in a `time` element that says all of it."""

import re
from pathlib import Path

import quillpost.web
from quillpost.app.container import Container
from quillpost.web.security import ZONE_COOKIE
from support.account_pages import AccountPages
from support.test_client import TestClient

TEMPLATES = Path(quillpost.web.__file__).parent / "templates"
SHOWN = re.compile(r"{{((?:[^}]|}(?!}))*)}}")
A_TIME = re.compile(r"\.(?:\w+_)?at\b(?!\.timestamp\(\))|%H")
NO_TIMES = ("environment.cutoff.strftime",)
"""The printer's clock, whose zone is written beside it."""


def test_no_template_writes_a_time_by_itself() -> None:
    written = [
        f"{file.relative_to(TEMPLATES)}: {shown.strip()}"
        for file in sorted(TEMPLATES.rglob("*.html"))
        for shown in SHOWN.findall(file.read_text())
        if A_TIME.search(shown) and "moment(zone" not in shown and not shown.strip().startswith(NO_TIMES)
    ]
    assert written == []


def test_settings_tell_times_in_the_readers_zone(container: Container, http: TestClient) -> None:
    """It is noon in UTC."""
    house = AccountPages(container, http)
    house.owner.post("/settings/tokens/new", name="Shop", mode="test", limits="all", lasts="never")
    in_utc = house.owner.get("/settings/audit").text
    assert 'data-moment="year">4 May 2026, 12:00</time>' in in_utc
    house.owner.client.cookies.set(ZONE_COOKIE, "Pacific/Auckland")
    there = house.owner.get("/settings/audit").text
    assert 'title="5 May 2026, 00:00 NZST" data-moment="year">5 May 2026, 00:00</time>' in there
    for page in ("/settings/tokens", "/settings/people", "/settings"):
        assert 'title="5 May 2026, 00:00 NZST">' in house.owner.get(page).text, page
