"""Every page that one can go to is told of: senders' in one place, the print room's in another."""

import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from quillpost.web import security
from quillpost.web.dashboard import routes as index
from quillpost.web.dashboard import sign_in

DOCS = Path(__file__).parents[2] / "docs"
SENDERS, OPERATE, PEOPLE, README = (
    (DOCS / name).read_text() for name in ("dashboard.md", "operate.md", "people.md", "../README.md")
)
FORMS = ("/new", "/invite", "/files")
"""Where a page of these leads is told of with it."""


def _pages() -> list[str]:
    """Those that need no number, and are no file."""
    routes = [route for router in index.ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    paths = {route.path for route in routes if "GET" in (route.methods or ())}
    return sorted(path for path in paths if not re.search(r"[{.]", path) and not path.endswith(FORMS))


def _documented_in(path: str) -> str:
    if path.startswith("/print-room"):
        return OPERATE
    sign_in_paths = {route.path for router in sign_in.ROUTERS for route in router.routes if isinstance(route, APIRoute)}
    return PEOPLE if path in sign_in_paths else SENDERS


@pytest.mark.parametrize("path", _pages())
def test_every_page_is_documented(path: str) -> None:
    rows = [line for line in _documented_in(path).splitlines() if line.startswith("|")]
    assert any(f"`{path}`" in row.split("|")[1] for row in rows)


def test_no_page_is_documented_that_does_not_exist() -> None:
    for text, begins in ((SENDERS, "/"), (OPERATE, "/print-room")):
        cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
        documented = {path for cell in cells for path in re.findall(rf"`({begins}[^`]*)`", cell)}
        assert documented <= set(_pages())


def test_the_cookies_of_pages_are_documented_and_the_page_is_found() -> None:
    assert f"| `{security.ZONE_COOKIE}` | 365 days |" in OPERATE
    assert "](docs/dashboard.md)" in README
    assert "](embed.md)" in SENDERS
