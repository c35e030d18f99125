"""Which addresses are one print partner's, and which are two."""

import pytest

from quillpost.fulfillment.print_room.reports import is_other_partner, partner_name

SAME = [
    ("file:///press/in", "file:///press/in/"),
    ("file:/press/in", "FILE:///press/in"),
    ("sftp://press@print.example.com/in", "sftp://press@Print.Example.COM:22/in//"),
    ("https://print.example.com", "https://print.example.com:443/"),
    ("https://print.example.com/base", "HTTPS://PRINT.example.com/base/"),
    ("http://10.0.0.7/press", "http://10.0.0.7:80/press"),
    ("https://[2001:DB8::1]:443/in", "https://[2001:db8::1]/in"),
    ("folder", "folder"),
    ("sandbox", "sandbox"),
]
DIFFERENT = [
    ("folder", "sandbox"),
    ("folder", "file:///folder"),
    ("file:///press/in", "file:///press/In"),
    ("file:///press/in", "file:///press"),
    ("sftp://press@print.example.com/in", "sftp://other@print.example.com/in"),
    ("sftp://press@print.example.com/in", "sftp://Press@print.example.com/in"),
    ("sftp://press@print.example.com/in", "sftp://press@print.example.com:443/in"),
    ("sftp://press@print.example.com/in", "sftp://press@print.example.com/~/in"),
    ("https://print.example.com", "http://print.example.com"),
    ("https://print.example.com", "https://print.example.com:80"),
    ("https://print.example.com", "https://print.example.org"),
    ("https://[2001:db8::1]:8443/in", "https://[2001:db8::1]/in"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_address_in_other_words_is_the_same_partner(one: str, other: str) -> None:
    assert not is_other_partner(one, other)
    assert not is_other_partner(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_place_is_another_partner(one: str, other: str) -> None:
    assert is_other_partner(one, other)
    assert is_other_partner(other, one)


@pytest.mark.parametrize("address", [address for pair in SAME + DIFFERENT for address in pair])
def test_a_name_is_its_own_name(address: str) -> None:
    assert partner_name(partner_name(address)) == partner_name(address)


def test_a_batch_that_knows_no_partner_may_be_anybodys() -> None:
    assert not is_other_partner(None, "folder")
