"""What the tables of all that is sent need."""

from dataclasses import replace

import pytest
from fastapi import FastAPI

from quillpost.app.container import Container
from quillpost.integrations.http.client import GuardedFetcher
from quillpost.integrations.http.guard import OutboundGuard


@pytest.fixture
def loopback_urls(app: FastAPI, container: Container) -> None:
    """Pictures and PDFs may be on this machine."""
    guard = OutboundGuard(allow_private=True)
    app.state.container = replace(container, fetcher=GuardedFetcher(guard), check_url=guard.check_url)
