"""Which failures a client tries again, how often, and how long it waits; pauses are noted, not made."""

from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from uuid import UUID

import httpx2
import pytest

from quillpost.client import (
    ConflictError,
    NotFoundError,
    QuillpostError,
    RateLimitError,
    ServerError,
    UnavailableError,
    UnreachableError,
    ValidationError,
    transport,
)
from quillpost.client.clients import RETRIES
from quillpost.client.errors import retry_after
from quillpost.client.transport import FIRST_PAUSE, LONGEST_PAUSE, Attempts, Patience, backoff
from support.client_transports import (
    Call,
    call_awaited,
    call_blocking,
    disconnect,
    header,
    respond_with,
    scripted_transport,
)
from support.scripted_server import ScriptedServer, stay_silent

PONG = respond_with(200)


@pytest.fixture(params=[call_blocking, call_awaited], ids=["blocking", "awaited"])
def call(request: pytest.FixtureRequest) -> Call:
    found: Call = request.param
    return found


@pytest.mark.parametrize(
    "failure",
    [
        respond_with(429),
        respond_with(502),
        respond_with(503),
        respond_with(504),
        respond_with(409, Retry_After="1"),
        disconnect,
    ],
    ids=["429", "502", "503", "504", "409 for now", "hangs up"],
)
def test_temporary_failures_are_retried_with_the_same_request(call: Call, failure: object) -> None:
    slept: list[float] = []
    with ScriptedServer(scripted_transport(failure, failure, PONG)) as server:  # type: ignore[arg-type]
        assert call(server.url(), "send.postcard", slept=slept, fields={"message": "Hi"})
    assert len(slept) == 2
    assert len(server.requests) == 3
    assert len(set(server.requests)) == 1
    key = header(server.requests[0], "Idempotency-Key")
    assert key is not None
    assert UUID(key).version == 4


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, QuillpostError), (404, NotFoundError), (409, ConflictError), (422, ValidationError), (500, ServerError)],
)
def test_a_final_error_is_not_retried(call: Call, status: int, kind: type[QuillpostError]) -> None:
    slept: list[float] = []
    with ScriptedServer(respond_with(status)) as server, pytest.raises(kind) as failed:
        call(server.url(), "ping", slept=slept)
    assert failed.value.status == status
    assert (len(server.requests), slept) == (1, [])


@pytest.mark.parametrize("name", ["Retry_After", "RateLimit_Reset"])
def test_a_client_waits_as_long_as_the_server_says(call: Call, name: str) -> None:
    slept: list[float] = []
    with ScriptedServer(scripted_transport(respond_with(429, **{name: "40"}), PONG)) as server:
        call(server.url(), "ping", slept=slept)
    assert slept == [40]


def test_a_client_retries_as_often_as_the_server_asks(call: Call) -> None:
    """As while a server starts, or another call with the same key runs."""
    slept: list[float] = []
    busy, runs = respond_with(503, Retry_After="5"), respond_with(409, Retry_After="1")
    with ScriptedServer(scripted_transport(*[busy, runs] * 8, PONG)) as server:
        call(server.url(), "send.postcard", slept=slept, retries=1, deadline=10_000, fields={"message": "Hi"})
    assert len(slept) == 16
    assert all(pause >= retry_after for pause, retry_after in zip(slept, [5, 1] * 8, strict=True))


def test_retries_can_be_turned_off(call: Call) -> None:
    slept: list[float] = []
    with ScriptedServer(respond_with(503, Retry_After="5")) as server, pytest.raises(UnavailableError):
        call(server.url(), "ping", slept=slept, retries=0)
    assert (len(server.requests), slept) == (1, [])


def test_when_the_rate_limit_is_reset_is_no_request_to_come_again(call: Call) -> None:
    slept: list[float] = []
    with ScriptedServer(respond_with(409, RateLimit_Reset="40")) as server, pytest.raises(ConflictError):
        call(server.url(), "ping", slept=slept)
    assert (len(server.requests), slept) == (1, [])


def test_retries_end(call: Call) -> None:
    slept: list[float] = []
    away = respond_with(503, {"message": "Out of reach."}, X_Request_Id="abc")
    with ScriptedServer(away) as server, pytest.raises(UnavailableError) as failed:
        call(server.url(), "ping", slept=slept, retries=2)
    assert len(server.requests) == 3
    assert (failed.value.message, failed.value.request_id) == ("Out of reach.", "abc")
    assert str(failed.value) == "Out of reach. (503, request abc)"


def test_nobody_waits_past_the_deadline(call: Call) -> None:
    slept: list[float] = []
    with ScriptedServer(respond_with(429, Retry_After="60")) as server, pytest.raises(RateLimitError) as failed:
        call(server.url(), "ping", slept=slept, deadline=30)
    assert (len(server.requests), slept, failed.value.retry_after) == (1, [], 60)


def test_a_silent_server_is_left_in_the_end(call: Call) -> None:
    slept: list[float] = []
    with ScriptedServer(stay_silent) as server, pytest.raises(UnreachableError) as failed:
        call(server.url(), "ping", slept=slept, timeout=0.02, retries=1)
    assert len(slept) == 1
    assert failed.value.status is None
    assert f"127.0.0.1:{server.port} cannot be reached" in failed.value.message


def test_an_upload_is_repeated_to_the_last_byte(call: Call, tmp_path: Path) -> None:
    """A form with another boundary would be another body, which the key forbids."""
    picture = tmp_path / "front.png"
    picture.write_bytes(b"\x89PNG and more")
    with ScriptedServer(scripted_transport(respond_with(503), respond_with(201))) as server:
        call(server.url(), "image_templates.create", "postcard", "Spring", picture, slept=[])
    first, second = server.requests
    assert first == second
    assert b'filename="front.png"' in first
    assert b"\x89PNG and more" in first


def test_every_next_page_has_its_own_patience(call: Call) -> None:
    slept: list[float] = []
    first = respond_with(200, {"data": [1], "links": {"next": "https://elsewhere.example/x?page=2&type=letter"}})
    with ScriptedServer(
        scripted_transport(respond_with(502), first, respond_with(502), respond_with(200, {"data": [2]}))
    ) as server:
        assert call(server.url(), "orders.list", slept=slept, retries=1) == [1, 2]
    assert len(slept) == 2
    lines = [request.split(b"\r\n")[0].decode() for request in server.requests]
    assert lines[-1] == "GET /api/v2/orders/list?page=2&type=letter HTTP/1.1"


def test_what_can_never_work_is_not_tried_again(call: Call) -> None:
    slept: list[float] = []
    with pytest.raises(UnreachableError):
        call("gopher://127.0.0.1", "ping", slept=slept)
    assert slept == []


def test_pauses_grow_and_are_left_to_chance() -> None:
    for retry in range(12):
        most = min(LONGEST_PAUSE, FIRST_PAUSE * 2**retry)
        pauses = [backoff(retry) for _ in range(50)]
        assert all(0 <= pause <= most for pause in pauses)
        assert max(pauses) > most / 2
        assert len(set(pauses)) > 1


def test_a_server_that_starts_again_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is there to say for how long: half of the longest pauses, as chance has it, is a minute."""
    monkeypatch.setattr(transport, "backoff", lambda retry: min(LONGEST_PAUSE, FIRST_PAUSE * 2**retry) / 2)
    now = [0.0]
    attempts = Attempts(Patience(timeout=30, retries=RETRIES, deadline=120), clock=lambda: now[0])
    refused = httpx2.ConnectError("Refused.", request=httpx2.Request("GET", "http://127.0.0.1/"))
    for _ in range(RETRIES):
        now[0] += attempts.pause_after(refused)
    assert 60 < now[0] < 120
    with pytest.raises(UnreachableError):
        attempts.pause_after(refused)


def test_the_last_attempt_gets_what_is_left_of_the_time() -> None:
    clock = count(0, 4)  # four seconds pass between any two looks
    attempts = Attempts(Patience(timeout=30, retries=9, deadline=10), clock=lambda: float(next(clock)))
    assert attempts.timeout == 6
    assert attempts.timeout == 2
    with pytest.raises(ServerError):
        attempts.pause_after(httpx2.Response(502))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "Mon, 04 May 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Mon, 04 May 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "soon", "ratelimit-reset": "9"}, 9),
    ],
)
def test_how_long_headers_ask_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(429, headers, now=datetime(2026, 5, 4, 12, tzinfo=UTC)) == seconds
