"""Somebody who signs in, for whichever test of these asks for them."""

import pytest
from front_door import DANA
from placing import open_account
from signed_in import make_person

from quillpost.app.container import Container


@pytest.fixture
def account(container: Container) -> int:
    return open_account(container).account_id


@pytest.fixture
def dana(container: Container, account: int) -> int:
    return make_person(container, account, DANA)
