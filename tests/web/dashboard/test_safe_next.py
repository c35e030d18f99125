"""Where one may be led after signing in: to pages of ours, whatever somebody writes into the link."""

from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.web.rendering import MAX_NEXT_LENGTH, path_with_next, safe_next

OURS = "https://mail.example.com/sign-in"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/settings",
        "/settings/tokens?page=2",
        "/oauth/authorize?client_id=a&redirect_uri=https%3A%2F%2Fapp.example%2Fback&state=x%2Fy",
        "/lists/import",
        "/a//b",
        "/..//evil.example",
    ],
)
def test_a_path_of_ours_stays_as_it_is(path: str) -> None:
    assert safe_next(path) == path
    assert urlsplit(urljoin(OURS, path)).netloc == "mail.example.com"


@pytest.mark.parametrize(
    "nasty",
    [
        None,
        "",
        "settings",
        "https://evil.example",
        "HTTPS:evil.example",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "\t//evil.example",
        " //evil.example",
        "/settings evil",
        "/a\r\nSet-Cookie: x=y",
        "/\x00",
        "/\x7f",
        "/sétting",
        "/\u2028/evil.example",
        "javascript:alert(1)",
        "data:text/html,hello",
        "@evil.example",
        ".evil.example",
        "?next=/",
        "#x",
        "/sign-in",
        "/sign-in?next=/settings",
        "/sign-out",
        "/session/switch",
        "/" + "a" * MAX_NEXT_LENGTH,
    ],
)
def test_anything_else_leads_to_the_first_page(nasty: str | None) -> None:
    assert safe_next(nasty) == "/"


@given(st.text() | st.text(alphabet="/\\:.@?#%aA \t\r\n"))
def test_no_text_leads_to_another_host(text: str) -> None:
    led = urlsplit(urljoin(OURS, safe_next(text)))
    assert (led.scheme, led.netloc) == ("https", "mail.example.com")


def test_a_page_carries_the_next_one_whole() -> None:
    assert path_with_next("/sign-in", "/a?b=c&d=e") == "/sign-in?next=%2Fa%3Fb%3Dc%26d%3De"
    assert path_with_next("/sign-in", "//evil.example") == "/sign-in"
