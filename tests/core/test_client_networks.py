"""Whom a network address stands for."""

import pytest

from quillpost.accounts.models import get_network


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::2", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("::ffff:cb00:7108", "203.0.113.8"),
        ("::1", "::/64"),
        ("testclient", "testclient"),
    ],
)
def test_a_household_counts_as_one(address: str, network: str) -> None:
    assert get_network(address) == network
