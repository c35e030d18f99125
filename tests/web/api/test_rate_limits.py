"""How large a body may be, and how often one may call."""

from collections.abc import Callable, Iterable, Iterator

import pytest
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.factories import Account, Build, postcard
from support.test_client import TestClient
from support.traces import JSON, unchanged

LARGEST, CALLS = 2_000, 5
COUNTDOWN = ["4", "3", "2", "1", "0", "0"]


@pytest.fixture
def container(build: Build) -> Container:
    """A service that tires quickly."""
    return build(calls_a_minute=CALLS, body_bytes=LARGEST)


def in_chunks(body: bytes) -> Iterator[bytes]:
    """Sent so, a body has no Content-Length."""
    for start in range(0, len(body), 500):
        yield body[start : start + 500]


def padded(size: int) -> bytes:
    start = b'{"url": "https://example.com/hook", "type": "*"'
    return start + b" " * (size - len(start) - 1) + b"}"


def remaining(answers: Iterable[Response]) -> list[str]:
    return [answer.headers["X-RateLimit-Remaining"] for answer in answers]


def test_a_body_over_the_limit_is_413(owner: Account, stranger: Account, container: Container) -> None:
    send: Callable[[bytes], bytes | Iterator[bytes]]
    for caller, send, key in (
        (owner, bytes, {}),
        (owner, in_chunks, {}),
        (stranger, in_chunks, {"Idempotency-Key": "k"}),
    ):
        headers = {"Content-Type": JSON} | key
        with unchanged(container):
            refused = caller.call("POST", "/webhooks", content=send(padded(LARGEST + 1)), headers=headers)
        message = f"The body is larger than this service accepts here ({LARGEST:,} bytes)."
        assert (refused.status_code, refused.json()) == (413, {"message": message})
        accepted = caller.call("POST", "/webhooks", content=send(padded(LARGEST)), headers=headers)
        assert accepted.status_code == 201


def test_the_limit_counts_down_and_then_holds_for_each_caller_on_all_servers(
    owner: Account, stranger: Account, container: Container, http: TestClient, build: Build
) -> None:
    with TestClient(create_app(build(calls_a_minute=CALLS))) as second:
        elsewhere = Account(owner.id, owner.token, second)
        answers = [account.get("/ping") for account in (owner, elsewhere, owner, elsewhere, owner)]
        with unchanged(container):
            refused = [account.post("/send/postcard", postcard()) for account in (elsewhere, owner)]
    assert [answer.status_code for answer in (*answers, *refused)] == [200] * CALLS + [429] * 2
    assert remaining([*answers, refused[0]]) == COUNTDOWN
    for answer in refused:
        assert list(answer.json()) == ["message"]
        assert (answer.headers["X-RateLimit-Limit"], answer.headers["X-RateLimit-Remaining"]) == ("5", "0")
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
        assert answer.headers["RateLimit-Reset"] == answer.headers["Retry-After"]
    unknown = [http.get("/api/v2/ping") for _ in range(CALLS + 1)]  # without a good token
    assert [answer.status_code for answer in unknown] == [401] * CALLS + [429]
    assert (remaining(unknown), "Retry-After" in unknown[-1].headers) == (COUNTDOWN, True)
    assert stranger.get("/ping").status_code == 200


def test_every_kind_of_answer_carries_the_limit(owner: Account) -> None:
    large = {"content": b"x" * (LARGEST + 1), "headers": {"Content-Type": JSON}}
    answers = [
        owner.get("/ping"),
        owner.get("/no/such/path"),
        owner.call("PATCH", "/ping"),
        owner.send(message=""),
        owner.call("POST", "/send/postcard", **large),
        owner.get("/ping"),
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 405, 422, 413, 429]
    assert {answer.headers["X-RateLimit-Limit"] for answer in answers} == {"5"}
    assert remaining(answers) == COUNTDOWN
