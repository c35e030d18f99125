"""Texts that are checked or put into words: hosts of URLs, moments, networks; pages of a list, and a cache."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from quillpost.accounts.models import get_network
from quillpost.core.cache import SharedCache
from quillpost.core.paging import Page, PageRequest
from quillpost.core.text import find_host_error, format_time_ago
from quillpost.integrations.http.guard import OutboundGuard

LONG = ".".join(["abcdefghi"] * 25)
"""249 characters."""
GOOD_HOSTS = (
    "example.com", "EXAMPLE.com", "example.com.", "a.b", "hooks", "my_service.example", "a--b.example", "1a.example",
    "7.example", "xn--mnchen-3ya.example", "203.0.113.7", "2606:4700::1111", "::ffff:127.0.0.1",
    "a" * 63 + ".example", LONG + ".xyz",
)  # fmt: skip
WRONG_HOSTS = {
    "isn't an IPv4 address. Write four numbers": (
        "2130706433", "017700000001", "0x7f000001", "0x7f.1", "127.1", "127.0.1", "0177.0.0.1", "0300.0250.0.1",
        "127.0.0.01", "127.0.0.0x1", "256.1.1.1", "1.2.3.4.5", "1.2.3.4.", "example.7", "example.0x",
    ),
    "isn't a host name. Use letters": (
        "a..b", ".example", "example..", "-a.example", "a-.example", "a.-", "*.example", "a!b.example", "ex%61mple.com",
        "a b.example", "münchen.example",
    ),
    "A part of the host name is longer than 63 characters.": ("a" * 64 + ".example",),
    "The host name is longer than 253 characters.": (LONG + ".wxyz",),
    "isn't an IPv6 address": ("fe80::1%eth0", "2606:4700::1%1", "::g"),
}  # fmt: skip
WRONG_URL_HOSTS = (
    "2130706433", "0177.0.0.1", "0x7f.1", "127.1", "a..b", "-a.example", "xn--a", "xn--a.example", "a\u200db.example",
    "\u2024.example", "\u3002example", "localhost.", "\uff11\uff12\uff17.\uff10.0.1", f"{'ü' * 64}.example",
)  # fmt: skip


def test_a_host_that_nobody_can_have_is_named_and_refused_before_anybody_is_called(subtests: pytest.Subtests) -> None:
    for host in GOOD_HOSTS:
        with subtests.test(host):
            assert find_host_error(host) is None
    for error, hosts in WRONG_HOSTS.items():
        for host in hosts:
            with subtests.test(host):
                assert error in str(find_host_error(host))
    for host in WRONG_URL_HOSTS:
        with subtests.test(host):
            assert OutboundGuard().check_url(f"http://{host}/") is not None
    url = "https://münchen.example/"
    assert URL(url).raw_host == "xn--mnchen-3ya.example"
    assert OutboundGuard().check_url(url) is None, "it is checked in its ASCII form"
    in_development = OutboundGuard(allow_private=True)
    assert in_development.check_url("http://127.0.0.1:3000/") is None
    assert in_development.check_url("http://127.1:3000/") is not None


NETWORKS = {
    "203.0.113.7": "203.0.113.7", "2001:db8:1:2:aaaa::1": "2001:db8:1:2::/64",
    "2001:db8:1:2:bbbb::2": "2001:db8:1:2::/64", "::ffff:203.0.113.7": "203.0.113.7",
    "::ffff:cb00:7108": "203.0.113.8", "::1": "::/64", "testclient": "testclient",
}  # fmt: skip


AGES = {
    -30: "just now", 0: "just now", 0.999: "just now", 1: "1 second ago", 59: "59 seconds ago", 60: "1 minute ago",
    359: "5 minutes ago", 3_600: "1 hour ago", 86_340: "23 hours ago", 86_400: "1 day ago", 6 * 86_400: "6 days ago",
    7 * 86_400: "1 week ago", 29 * 86_400: "4 weeks ago", 30 * 86_400: "1 month ago", 364 * 86_400: "12 months ago",
    365 * 86_400: "1 year ago", 3_000 * 86_400: "8 years ago",
}  # fmt: skip


def test_a_household_counts_as_one_network_and_a_time_ago_is_in_the_largest_unit_that_fits() -> None:
    now = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
    assert {age: format_time_ago(now - timedelta(seconds=age), now=now) for age in AGES} == AGES
    assert {address: get_network(address) for address in NETWORKS} == NETWORKS


def page(total: int, page_request: PageRequest) -> Page[int]:
    """The page of the numbers from 1 to the total."""
    everything = list(range(1, total + 1))
    return Page(everything[page_request.offset :][: page_request.per_page], total, page_request)


@given(total=st.integers(0, 300), number=st.integers(1, 400), per_page=st.integers(1, 100))
def test_a_page_knows_its_rows_and_is_reached_from_the_nearer_end(total: int, number: int, per_page: int) -> None:
    page_request = PageRequest(number, per_page)
    found = page(total, page_request)
    assert found.first_row == (found.rows[0] if found.rows else None)
    assert found.last_row == (found.rows[-1] if found.rows else None)
    window = page_request.window(total)
    seen = list(range(1, total + 1))[:: -1 if window.is_from_end else 1]
    taken = seen[window.offset : window.offset + window.limit]
    assert (taken[::-1] if window.is_from_end else taken) == found.rows
    assert window.offset <= max(0, total - window.limit) / 2


@given(total=st.integers(0, 300), per_page=st.integers(1, 100))
def test_the_pages_up_to_the_last_hold_every_row_once(total: int, per_page: int) -> None:
    last = page(total, PageRequest(1, per_page)).last_page
    rows = [row for n in range(1, last + 1) for row in page(total, PageRequest(n, per_page)).rows]
    assert rows == list(range(1, total + 1))
    assert page(total, PageRequest(last + 1, per_page)).rows == []


def test_an_empty_list_has_one_page() -> None:
    last_pages = {0: 1, 1: 1, 25: 1, 26: 2, 50: 2, 51: 3}
    assert {total: page(total, PageRequest()).last_page for total in last_pages} == last_pages


def test_a_thing_is_read_once_while_it_is_recent_unless_it_is_too_large() -> None:
    read: list[str] = []
    recent: SharedCache[str, bytes] = SharedCache(max_size=8, size_of=len)

    def fetch(key: str, size: int = 4) -> bytes:
        return recent.get(key, lambda: read.append(key) or key.encode() * size)  # type: ignore[func-returns-value]

    assert [fetch(key) for key in "abab"] == [b"aaaa", b"bbbb", b"aaaa", b"bbbb"]
    assert read == ["a", "b"]
    fetch("a")
    fetch("c")
    assert (fetch("a"), read) == (b"aaaa", ["a", "b", "c"])
    fetch("b")
    assert read == ["a", "b", "c", "b"]
    assert [fetch("large", 2), fetch("large", 2)] == [b"largelarge"] * 2
    assert read[4:] == ["large", "large"]
