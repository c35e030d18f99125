"""Which failures a client tries again, how often, and how long it waits; pauses are noted, not made."""

import re
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
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
from support.fake_server import Answer, ScriptedServer, stay_silent

PONG = respond_with(200)
AWAY = respond_with(503, {"message": "Out of reach."}, X_Request_Id="abc")


@pytest.fixture(params=[call_blocking, call_awaited], ids=["blocking", "awaited"])
def call(request: pytest.FixtureRequest) -> Call:
    found: Call = request.param
    return found


def attempt(call: Call, *script: Answer, name: str = "ping", **how: Any) -> tuple[list[bytes], list[float], Any]:
    """The requests of a call, its pauses, and its answer or failure."""
    slept: list[float] = []
    with ScriptedServer(scripted_transport(*script)) as server:
        try:
            outcome = call(server.url(), name, slept=slept, **how)
        except QuillpostError as failed:
            outcome = failed
    return server.requests, slept, outcome


def test_temporary_failures_are_retried_with_the_same_request(call: Call, subtests: pytest.Subtests) -> None:
    failures: dict[str, Answer] = {str(status): respond_with(status) for status in (429, 502, 503, 504)}
    failures |= {"409 for now": respond_with(409, Retry_After="1"), "hangs up": disconnect}
    for reason, failure in failures.items():
        with subtests.test(reason):
            message = {"fields": {"message": "Hi"}}
            requests, slept, answer = attempt(call, failure, failure, PONG, name="send.postcard", **message)
            assert answer == {"message": "pong"}
            assert (len(requests), len(set(requests)), len(slept)) == (3, 1, 2)
            assert UUID(header(requests[0], "Idempotency-Key")).version == 4


def test_what_is_final_or_takes_too_long_is_not_retried(call: Call, subtests: pytest.Subtests) -> None:
    finals = {400: QuillpostError, 404: NotFoundError, 409: ConflictError, 422: ValidationError, 500: ServerError}
    cases: list[tuple[type[QuillpostError], Answer, dict[str, Any]]] = [
        *((kind, respond_with(status), {}) for status, kind in finals.items()),
        (ConflictError, respond_with(409, RateLimit_Reset="40"), {}),  # that is no request to come again
        (UnavailableError, respond_with(503, Retry_After="5"), {"retries": 0}),
        (RateLimitError, respond_with(429, Retry_After="60"), {"deadline": 30}),
    ]
    for number, (kind, answer, how) in enumerate(cases):
        with subtests.test(kind.__name__, number=number, **how):
            requests, slept, failed = attempt(call, answer, **how)
            assert isinstance(failed, kind)
            assert (len(requests), slept) == (1, [])
            assert failed.status in finals or failed.retry_after == (5 if failed.status == 503 else 60)


def test_a_client_waits_as_long_and_retries_as_often_as_the_server_says(call: Call) -> None:
    """As while a server starts, or another call with the same key runs."""
    for name in ("Retry_After", "RateLimit_Reset"):
        assert attempt(call, respond_with(429, **{name: "40"}), PONG)[1] == [40]
    busy, runs = respond_with(503, Retry_After="5"), respond_with(409, Retry_After="1")
    how = {"retries": 1, "deadline": 10_000, "fields": {"message": "Hi"}}
    _, slept, _ = attempt(call, *[busy, runs] * 8, PONG, name="send.postcard", **how)
    assert len(slept) == 16
    assert all(pause >= retry_after for pause, retry_after in zip(slept, [5, 1] * 8, strict=True))


def test_retries_end(call: Call) -> None:
    requests, _, failed = attempt(call, AWAY, retries=2)
    assert (len(requests), type(failed)) == (3, UnavailableError)
    assert (failed.message, failed.request_id) == ("Out of reach.", "abc")
    assert str(failed) == "Out of reach. (503, request abc)"
    _, slept, silent = attempt(call, stay_silent, timeout=0.02, retries=1)
    assert (len(slept), type(silent), silent.status) == (1, UnreachableError, None)
    assert re.search(r"127\.0\.0\.1:\d+ cannot be reached", silent.message)
    never: list[float] = []
    with pytest.raises(UnreachableError):
        call("gopher://127.0.0.1", "ping", slept=never)
    assert never == []


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
    first = respond_with(200, {"data": [1], "links": {"next": "https://elsewhere.example/x?page=2&type=letter"}})
    script = respond_with(502), first, respond_with(502), respond_with(200, {"data": [2]})
    requests, slept, answer = attempt(call, *script, name="orders.list", retries=1)
    assert (answer, len(slept)) == ([1, 2], 2)
    assert requests[-1].startswith(b"GET /api/v2/orders/list?page=2&type=letter HTTP/1.1\r\n")


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


def test_how_long_headers_ask_to_wait() -> None:
    now, cases = datetime(2026, 5, 4, 12, tzinfo=UTC), list[tuple[dict[str, str], float | None]]()
    cases += [({}, None), ({"retry-after": "7"}, 7), ({"retry-after": "soon"}, None)]
    cases += [({"retry-after": f"Mon, 04 May 2026 {at} GMT"}, wait) for at, wait in (("12:00:30", 30), ("11:00:00", 0))]
    cases += [({"retry-after": "soon", "ratelimit-reset": "9"}, 9)]
    assert [(headers, retry_after(429, headers, now=now)) for headers, _ in cases] == cases
