"""One server for all walks of a process; a walk has an account and a browser context of its own."""

from collections.abc import Iterator

import pytest

from quillpost.web.application import create_app
from support.chromium import ServedApp
from support.raw_http import real_server
from support.service import SharedService


@pytest.fixture(scope="session")
def served(shared_service: SharedService) -> Iterator[ServedApp]:
    app = create_app(shared_service.container)
    with real_server(app) as port:
        yield ServedApp(app, f"http://127.0.0.1:{port}")


@pytest.fixture
def address(served: ServedApp) -> str:
    return served.address
