"""The account whose events are told here."""

import pytest

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from support.orders import open_account


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)
