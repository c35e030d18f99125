"""What the tests of several resources share."""

from collections.abc import Iterator

import pytest

from quillpost.accounts.models import RateLimitStatus
from quillpost.app.container import Container
from support.factories import Account, make_operator
from support.service import SharedService
from support.test_client import TestClient


@pytest.fixture
def unlimited_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """For those who call more often than anyone may in a minute."""
    monkeypatch.setattr(RateLimitStatus, "is_exceeded", False)


@pytest.fixture
def changing_brands(shared_service: SharedService, clean_database: None) -> Iterator[None]:
    """The brands of gift cards, which are everybody's, are afterwards those that a new database has."""
    yield
    shared_service.empty()


@pytest.fixture
def operator(container: Container, http: TestClient) -> Account:
    return make_operator(container, http)
