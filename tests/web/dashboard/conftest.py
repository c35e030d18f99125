"""Who is at the pages: an account with its people, or one person who has signed in."""

import pytest

from quillpost.app.container import Container
from support.factories import Account
from support.pages import OWNER, AccountPages, PrintRoomPages
from support.sign_in import Browser, make_user, sign_in_browser
from support.test_client import TestClient


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


@pytest.fixture
def print_room(container: Container, http: TestClient) -> PrintRoomPages:
    return PrintRoomPages(container, http)


@pytest.fixture
def visitor(container: Container, http: TestClient, owner: Account) -> Browser:
    """Dana's, who can sign in and has not yet."""
    make_user(container, owner.id, OWNER)
    return sign_in_browser(http)


@pytest.fixture
def browser(visitor: Browser) -> Browser:
    """Dana's, who has signed in."""
    visitor.sign_in(OWNER)
    return visitor
