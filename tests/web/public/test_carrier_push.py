"""Where the postal service pushes scans: only with the token, kept before the answer, read by a job."""

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.carrier_scans import mailed_order, scan_journey, statuses, tracking_codes
from support.factories import Build, Clock, run_due_jobs
from support.orders import open_account
from support.test_client import TestClient

PATH = "/hooks/carrier/iv-mtr"
TOKEN = "open-sesame-and-close-again"
EVENT = {"imb": "00310555555000000001", "scanDatetime": "2026-05-05T12:00:00Z", "mailPhase": "1"}
INBOX = "tracking/inbox/"


@pytest.fixture
def container(build: Build) -> Container:
    return build(carrier_token=TOKEN, body_bytes=100_000)


@pytest.fixture
def http(container: Container) -> Iterator[TestClient]:
    with TestClient(create_app(container), base_url="http://quillpost.test") as client:
        yield client


def push(http: TestClient, body: Any, **headers: str) -> Response:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.post(PATH, content=data, headers={"Authorization": f"Bearer {TOKEN}"} | headers)


def basic(password: str, name: str = "usps") -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def in_inbox(container: Container) -> list[str]:
    return list(container.storage.store.keys(INBOX))


def test_scans_that_are_pushed_move_their_pieces(container: Container, http: TestClient, clock: Clock) -> None:
    order = mailed_order(container, open_account(container))
    scans = [json.loads(scan.raw) for scan in scan_journey(container, *tracking_codes(container, order))]
    answer = push(http, {"events": scans})
    assert (answer.status_code, answer.json()) == (202, {"message": "Accepted"})
    assert len(in_inbox(container)) == 1
    assert statuses(container, order) == ["Printed"]
    clock.advance(days=5)
    run_due_jobs(container)
    assert statuses(container, order) == ["Delivered"]
    assert in_inbox(container) == []


def test_the_same_push_twice_is_one_file_and_one_poll(container: Container, http: TestClient) -> None:
    for _ in range(2):
        assert push(http, {"events": [EVENT]}).status_code == 202
    assert len(in_inbox(container)) == 1
    with container.db.system_transaction() as tx:
        polls = sa.text("select count(*) from procrastinate_jobs where task_name = 'tracking.poll_carriers'")
        assert tx.execute(polls).scalar_one() == 1


@pytest.mark.parametrize("authorization", [f"Bearer {TOKEN}", f"bearer  {TOKEN}", basic(TOKEN), basic(TOKEN, name="")])
def test_the_token_comes_as_bearer_or_as_the_password_of_basic(
    container: Container, http: TestClient, authorization: str
) -> None:
    assert push(http, [EVENT], Authorization=authorization).status_code == 202
    assert len(in_inbox(container)) == 1


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {TOKEN}x", TOKEN, basic("wrong"), basic("", TOKEN),
     "Basic ???", f"Digest {TOKEN}", "Bearer sésame"],
)  # fmt: skip
def test_nobody_else_is_let_in(container: Container, http: TestClient, authorization: str) -> None:
    answer = http.post(PATH, content=json.dumps([EVENT]), headers={b"Authorization": authorization.encode("latin-1")})
    assert (answer.status_code, answer.json()) == (401, {"message": "Unauthenticated."})
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert in_inbox(container) == []


def test_too_many_wrong_tokens_are_rate_limited(build: Build) -> None:
    container = build(carrier_token=TOKEN, calls_a_minute=3)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        answers = [push(http, [EVENT], Authorization="Bearer guess").status_code for _ in range(5)]
        assert answers == [401, 401, 401, 429, 429]
        assert push(http, [EVENT]).status_code == 202


def test_without_a_configured_token_the_endpoint_is_closed(build: Build) -> None:
    container = build()
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        answer = push(http, [EVENT])
        assert answer.status_code == 404
        assert "QUILLPOST_CARRIER_TOKEN" in answer.json()["message"]
        assert push(http, [EVENT], Authorization="Bearer ").status_code == 404


@pytest.mark.parametrize(
    "body",
    [b"", b"hello", b"imb,scanDatetime\n1,2\n", b"{}", b"[1, 2]", b'{"events": [{"imb": "12"}]}',
     b'{"events":', b"\x1f\x8bdamaged", b"\xff\xfe\x00"],
)  # fmt: skip
def test_a_body_without_a_scan_is_refused_with_a_sentence(container: Container, http: TestClient, body: bytes) -> None:
    answer = push(http, body)
    assert answer.status_code == 422
    assert answer.json()["errors"].keys() == {"body"}
    assert answer.json()["message"].endswith(".")
    assert in_inbox(container) == []


def test_an_empty_list_of_events_is_a_sign_of_life(container: Container, http: TestClient) -> None:
    assert push(http, {"events": []}).status_code == 202
    assert in_inbox(container) == []


def test_one_good_row_is_enough(container: Container, http: TestClient) -> None:
    assert push(http, {"events": [{"imb": "12"}, EVENT]}).status_code == 202
    assert len(in_inbox(container)) == 1


def test_a_packed_body_is_taken_and_one_that_is_too_large_is_not(container: Container, http: TestClient) -> None:
    assert push(http, gzip.compress(json.dumps([EVENT]).encode())).status_code == 202
    assert push(http, [EVENT] * 2_000).status_code == 413
    assert len(in_inbox(container)) == 1
