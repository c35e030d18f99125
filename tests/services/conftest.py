"""Somebody who signs in, for whichever test of these asks for them."""

import pytest
from front_door import DANA
from placing import open_account
from signed_in import make_person

from quillpost.app.container import Parts


@pytest.fixture
def account(parts: Parts) -> int:
    return open_account(parts).account_id


@pytest.fixture
def dana(parts: Parts, account: int) -> int:
    return make_person(parts, account, DANA)
