"""How large a body may be, and how often one may call."""

from collections.abc import Callable, Iterator

import pytest

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.factories import Account, Build, make_account, postcard
from support.test_client import TestClient
from support.traces import JSON, traces

LARGEST = 2_000


@pytest.fixture
def container(build: Build) -> Container:
    """A service that tires quickly."""
    return build(calls_a_minute=5, body_bytes=LARGEST)


def in_chunks(body: bytes) -> Iterator[bytes]:
    """Sent so, a body has no Content-Length."""
    for start in range(0, len(body), 500):
        yield body[start : start + 500]


def padded(size: int) -> bytes:
    start = b'{"url": "https://example.com/hook", "type": "*"'
    return start + b" " * (size - len(start) - 1) + b"}"


@pytest.mark.parametrize("send", [lambda body: body, in_chunks], ids=["with length", "in chunks"])
def test_a_body_over_the_limit_is_413(
    owner: Account, container: Container, send: Callable[[bytes], bytes | Iterator[bytes]]
) -> None:
    def post(size: int) -> tuple[int, dict[str, str]]:
        answer = owner.call("POST", "/webhooks", content=send(padded(size)), headers={"Content-Type": JSON})
        return answer.status_code, answer.json()

    assert post(LARGEST)[0] == 201
    before = traces(container)
    assert post(LARGEST + 1) == (
        413,
        {"message": f"The body is larger than this service accepts here ({LARGEST:,} bytes)."},
    )
    assert traces(container) == before


def test_a_body_over_the_limit_is_413_also_with_an_idempotency_key(owner: Account) -> None:
    headers = {"Content-Type": JSON, "Idempotency-Key": "k"}
    refused = owner.call("POST", "/webhooks", content=in_chunks(padded(LARGEST + 1)), headers=headers)
    assert refused.status_code == 413
    accepted = owner.call("POST", "/webhooks", content=padded(LARGEST), headers=headers)
    assert accepted.status_code == 201


def test_the_limit_counts_down_and_then_holds(owner: Account, stranger: Account, container: Container) -> None:
    remaining = [owner.get("/ping").headers["X-RateLimit-Remaining"] for _ in range(5)]
    assert remaining == ["4", "3", "2", "1", "0"]
    before = traces(container)
    refused = owner.post("/send/postcard", postcard())
    assert refused.status_code == 429
    assert list(refused.json()) == ["message"]
    assert refused.headers["X-RateLimit-Limit"] == "5"
    assert refused.headers["X-RateLimit-Remaining"] == "0"
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert refused.headers["RateLimit-Reset"] == refused.headers["Retry-After"]
    assert traces(container) == before
    assert stranger.get("/ping").status_code == 200


def test_calls_without_a_good_token_have_a_limit_too(http: TestClient, owner: Account) -> None:
    answers = [http.get("/api/v2/ping") for _ in range(6)]
    assert [answer.status_code for answer in answers] == [401] * 5 + [429]
    assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["4", "3", "2", "1", "0", "0"]
    assert "Retry-After" in answers[-1].headers
    assert owner.get("/ping").status_code == 200


def test_every_kind_of_answer_carries_the_limit(owner: Account) -> None:
    answers = [
        owner.get("/ping"),
        owner.get("/no/such/path"),
        owner.call("PATCH", "/ping"),
        owner.send(message=""),
        owner.call("POST", "/send/postcard", content=b"x" * (LARGEST + 1), headers={"Content-Type": JSON}),
        owner.get("/ping"),
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 405, 422, 413, 429]
    assert {answer.headers["X-RateLimit-Limit"] for answer in answers} == {"5"}
    assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["4", "3", "2", "1", "0", "0"]


def test_two_servers_over_one_database_share_one_limit(build: Build) -> None:
    first, second = build(calls_a_minute=5), build(calls_a_minute=5)
    with TestClient(create_app(first)) as one, TestClient(create_app(second)) as two:
        owner = make_account(first, one, "owner@example.com")
        other = Account(owner.id, owner.token, two)
        answers = [account.get("/ping") for account in (owner, other, owner, other, owner, other)]
    assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["4", "3", "2", "1", "0", "0"]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]
