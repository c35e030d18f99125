"""The operator's own exceptions from the outgoing guard."""

import re

import pytest

from quillpost.app.bootstrap import build_outbound_guard
from quillpost.core.errors import NotReady
from quillpost.core.settings import Settings
from quillpost.integrations.http.guard import OutboundGuard


def guarded(**settings: object) -> OutboundGuard:
    return build_outbound_guard(Settings.model_validate(settings))


def test_a_listed_place_is_open_and_its_neighbours_are_not() -> None:
    guard = guarded(allowed_hosts="localhost:3000, Hooks.Internal:8443,[::1]:9000,")
    for url in ("http://localhost:3000/hook", "https://hooks.internal:8443/", "http://[::1]:9000/"):
        assert guard.check_url(url) is None, url
    for url in ("http://localhost:3001/", "http://127.0.0.1:3000/", "http://[::1]:9001/"):
        assert guard.check_url(url) is not None, url


def test_without_a_list_nothing_private_is_open() -> None:
    assert guarded().allow == frozenset()


@pytest.mark.parametrize(
    "written",
    [
        "localhost", ":80", "localhost:http", "localhost:0", "localhost:70000", "http://localhost:3917",
        "localhost:3917/hook", "me@localhost:3917", "*.internal:80", "::1:9000", "[::1:9000", "a b:80",
    ],
)  # fmt: skip
def test_a_place_that_is_none_is_refused_at_the_start(written: str) -> None:
    wrong = f"QUILLPOST_ALLOWED_HOSTS names no host and port: {written}. Write each as localhost:3000"
    with pytest.raises(NotReady, match=re.escape(wrong)):
        guarded(allowed_hosts=written)
