"""Which hosts of URLs somebody may have."""

import pytest
from yarl import URL

from quillpost.core.text import find_host_error
from quillpost.integrations.http.guard import OutboundGuard

LONG = ".".join(["abcdefghi"] * 25)
"""249 characters."""


@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        "EXAMPLE.com",
        "example.com.",
        "a.b",
        "hooks",
        "my_service.example",
        "a--b.example",
        "1a.example",
        "7.example",
        "xn--mnchen-3ya.example",
        "203.0.113.7",
        "2606:4700::1111",
        "::ffff:127.0.0.1",
        "a" * 63 + ".example",
        LONG + ".xyz",
    ],
)
def test_a_host_that_may_exist_is_taken(host: str) -> None:
    assert find_host_error(host) is None


@pytest.mark.parametrize(
    ("host", "error"),
    [
        *(
            (spelled, "isn't an IPv4 address. Write four numbers")
            for spelled in (
                "2130706433",
                "017700000001",
                "0x7f000001",
                "0x7f.1",
                "127.1",
                "127.0.1",
                "0177.0.0.1",
                "0300.0250.0.1",
                "127.0.0.01",
                "127.0.0.0x1",
                "256.1.1.1",
                "1.2.3.4.5",
                "1.2.3.4.",
                "example.7",
                "example.0x",
            )
        ),
        *(
            (spelled, "isn't a host name. Use letters")
            for spelled in (
                "a..b",
                ".example",
                "example..",
                "-a.example",
                "a-.example",
                "a.-",
                "*.example",
                "a!b.example",
                "ex%61mple.com",
                "a b.example",
                "münchen.example",
            )
        ),
        ("a" * 64 + ".example", "A part of the host name is longer than 63 characters."),
        (LONG + ".wxyz", "The host name is longer than 253 characters."),
        ("fe80::1%eth0", "isn't an IPv6 address"),
        ("2606:4700::1%1", "isn't an IPv6 address"),
        ("::g", "isn't an IPv6 address"),
    ],
)
def test_a_host_that_nobody_can_have_or_that_is_spelled_oddly_is_named(host: str, error: str) -> None:
    assert error in str(find_host_error(host))


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://a..b/",
        "http://-a.example/",
        "http://xn--a/",
        "http://xn--a.example/",
        "http://a\u200db.example/",
        "http://\u2024.example/",
        "http://\u3002example/",
        "http://localhost./",
        "http://\uff11\uff12\uff17.\uff10.0.1/",
        f"http://{'ü' * 64}.example/",
    ],
)
def test_such_urls_are_refused_before_anybody_is_called(url: str) -> None:
    assert OutboundGuard().check_url(url) is not None


def test_an_internationalized_host_name_is_checked_in_its_ascii_form() -> None:
    url = "https://münchen.example/"
    assert URL(url).raw_host == "xn--mnchen-3ya.example"
    assert OutboundGuard().check_url(url) is None


def test_an_odd_spelling_is_refused_in_development_too() -> None:
    guard = OutboundGuard(allow_private=True)
    assert guard.check_url("http://127.0.0.1:3000/") is None
    assert guard.check_url("http://127.1:3000/") is not None
