"""What users, clients and operators see is what was written down of it: see `tools/pin_interface.py`."""

from collections import Counter
from difflib import unified_diff
from itertools import islice

import pytest
from fastapi import FastAPI
from pin_interface import COLLECTORS, PINNED, Service
from starlette.routing import Route

from quillpost.app.container import Container

MOST_LINES = 40


def test_no_route_is_served_twice(app: FastAPI) -> None:
    """A router that is taken in twice hides behind itself."""
    routes = Counter(
        (route.path, method)
        for route in app.routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    )
    assert [route for route, count in routes.items() if count > 1] == []


def test_every_pinned_file_is_collected_and_every_collector_has_one() -> None:
    assert sorted(path.name for path in PINNED.iterdir()) == sorted(COLLECTORS)


def test_what_is_seen_is_pinned(container: Container, conninfo: str, app: FastAPI, subtests: pytest.Subtests) -> None:
    for name, collect in COLLECTORS.items():
        pinned, found = (PINNED / name).read_text("utf-8"), collect(Service(container, conninfo, app))
        with subtests.test(name):
            if found != pinned:
                pytest.fail(describe_changes(name, pinned, found), pytrace=False)


def describe_changes(name: str, pinned: str, found: str) -> str:
    """The first lines that differ, and what to do about them."""
    changes = unified_diff(pinned.splitlines(), found.splitlines(), f"pinned/{name}", f"now/{name}", n=1, lineterm="")
    shown = "\n".join(islice(changes, MOST_LINES))
    return f"{name} has changed. If that is meant, `make pin` writes it anew:\n{shown}"
