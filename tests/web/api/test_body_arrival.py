"""Bodies that break off, that trickle in, or that come too many at once."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.app.container import Container
from quillpost.core.database.tables.base import idempotency_keys
from quillpost.core.telemetry import REGISTRY
from quillpost.web.api import arrival
from quillpost.web.application import create_app
from quillpost.web.middleware.admission import MAX_CONCURRENT_REQUESTS, Admission
from support.factories import Account, Clock, person, run_jobs_for
from support.raw_http import abort_request, build_guarded_app, real_server, send_request
from support.rows import execute
from support.traces import FORM, JSON, capture_logs, traces

LARGEST = 100_000


def request_of(owner: Account, path: str, kind: str, length: int, *more: str) -> bytes:
    lines = [
        f"POST /api/v2{path} HTTP/1.1", "Host: quillpost.test", f"Authorization: Bearer {owner.token}",
        f"Content-Type: {kind}", f"Content-Length: {length}", *more,
    ]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode()


def answered(status: int) -> float:
    labels = {"method": "POST", "route": "unmatched", "status": str(status)}
    return REGISTRY.get_sample_value("quillpost_requests_total", labels) or 0.0


@pytest.mark.usefixtures("clean_database")
def test_a_call_that_breaks_off_leaves_nothing_and_can_be_made_again(
    owner: Account, container: Container, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A replay to one person, which without its body would go to all whom the order went to; and a form to a
    list, which would be a good one still if it were cut short."""
    order = owner.send().json()["id"]
    run_jobs_for(container, clock, seconds=45)
    friends = owner.post("/mailing-lists", {"description": "Friends"}).json()["id"]
    owner.post("/recipients", person(mailing_list_id=friends))
    replay = json.dumps({"recipients": [person(name="Zoe")]}).encode()
    form = f"mailing_list_ids={friends}&message=Hello+there".encode()
    for path, kind, body, cut in (
        (f"/orders/{order}/replay", JSON, replay, 0),
        ("/send/postcard", FORM, form, len(form) - 6),
    ):
        before, failed = traces(container), answered(500)
        with capture_logs() as lines:
            head = request_of(owner, path, kind, len(body), f"Idempotency-Key: {kind}")
            abort_request(create_app(container), head, body[:cut])
        (line,) = lines()
        assert (line["level"], line["status"], answered(500)) == ("info", 499, failed)
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
        assert execute(container, sa.select(idempotency_keys.c.key).where(idempotency_keys.c.key == kind)) == []
        assert traces(container) == before
        sent = owner.call("POST", path, content=body, headers={"Idempotency-Key": kind, "Content-Type": kind})
        assert sent.status_code == 200
        assert traces(container) != before


def test_a_form_of_a_page_that_breaks_off_is_nobody_s_attempt(container: Container) -> None:
    before, form = traces(container), b"email=dana%40example.com&password=wrong"
    head = f"POST /sign-in HTTP/1.1\r\nHost: quillpost.test\r\nContent-Type: {FORM}\r\nContent-Length: {len(form)}"
    with capture_logs() as lines:
        abort_request(create_app(container), f"{head}\r\n\r\n".encode(), form[:9])
    (line,) = lines()
    assert (line["level"], line["status"]) == ("info", 422)
    assert traces(container) == before


def test_a_short_body_is_refused_one_that_never_comes_left_and_a_slow_one_read(
    owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: Message = {"type": "http.request", "body": b"name=An"}
    answer = asyncio.run(_called(build_guarded_app(answering, container), owner, [given], length=20))
    errors = ["The body ends before its Content-Length: send it whole."]
    assert (answer.status, answer.body) == (422, {"message": errors[0], "errors": {"body": errors}})
    monkeypatch.setattr(arrival, "BODY_TIMEOUT_SECONDS", 0.2)
    before = traces(container)
    with real_server(create_app(container)) as port:
        left = send_request(port, request_of(owner, "/webhooks", JSON, 20) + b"{")
    assert (left.status, left.headers["connection"], list(json.loads(left.body))) == (408, "close", ["message"])
    assert traces(container) == before
    monkeypatch.setattr(arrival, "BODY_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(arrival, "MIN_BYTES_PER_SECOND", 10_000)

    async def steadily() -> Answer:
        pieces: list[Message] = [{"type": "http.request", "body": b"x" * 1_000, "more_body": True}] * 20
        last: Message = {"type": "http.request", "body": b""}
        return await _called(build_guarded_app(answering, container), owner, [*pieces, last], pause=0.05)

    assert asyncio.run(steadily()).status == 200


def crowded(app: ASGIApp, container: Container) -> ASGIApp:
    """Behind a gate where few large bodies may be at once."""
    narrow = replace(container, limits=replace(container.limits, body_bytes=LARGEST))
    return build_guarded_app(app, narrow, Admission(max_per_caller=MAX_CONCURRENT_REQUESTS, max_wait_seconds=30))


def whole(size: int) -> list[Message]:
    return [{"type": "http.request", "body": b"x" * size}]


def test_large_bodies_have_a_bound_together_and_small_ones_always_pass(owner: Account, container: Container) -> None:
    async def crowd() -> tuple[Answer, Answer, Answer]:
        gate, large = crowded(answering, container), whole(arrival.MAX_UNCOUNTED_BYTES + 1)
        async with _trickling(gate, owner, arrival.MAX_LARGE_BODIES):
            refused = await _called(gate, owner, large)
            passed = await _called(gate, owner, whole(arrival.MAX_UNCOUNTED_BYTES))
        return refused, passed, await _called(gate, owner, large)

    refused, passed, later = asyncio.run(crowd())
    assert (refused.status, passed.status, later.status) == (503, 200, 200)
    assert int(refused.headers["retry-after"]) > 0
    assert list(refused.body) == ["message"]


def test_a_body_counts_until_its_request_is_done_with(owner: Account, container: Container) -> None:
    async def crowd() -> tuple[Answer, Answer]:
        at_work, may_end = asyncio.Semaphore(0), asyncio.Event()

        async def working(scope: Scope, receive: Receive, send: Send) -> None:
            at_work.release()
            await may_end.wait()
            await answering(scope, receive, send)

        gate = crowded(working, container)
        async with asyncio.TaskGroup() as others:
            for _ in range(arrival.MAX_LARGE_BODIES):
                others.create_task(_called(gate, owner, whole(LARGEST)))
            for _ in range(arrival.MAX_LARGE_BODIES):
                await at_work.acquire()
            async with asyncio.timeout(30):
                refused = await _called(gate, owner, whole(LARGEST))
            may_end.set()
        return refused, await _called(gate, owner, whole(LARGEST))

    refused, later = asyncio.run(crowd())
    assert (refused.status, later.status) == (503, 200)


class Answer:
    """What an application sent, read back."""

    def __init__(self, messages: list[Message]) -> None:
        start, end = messages
        self.status: int = start["status"]
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}
        self.body: Any = json.loads(end["body"])


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


async def _called(
    gate: ASGIApp, owner: Account, coming: list[Message], *, length: int | None = None, pause: float = 0
) -> Answer:
    messages, got = iter(coming), list[Message]()

    async def receive() -> Message:
        await asyncio.sleep(pause)
        return next(messages)

    async def send(message: Message) -> None:
        got.append(message)

    await gate(_scope(owner, length), receive, send)
    return Answer(got)


@asynccontextmanager
async def _trickling(gate: ASGIApp, owner: Account, how_many: int) -> AsyncIterator[None]:
    """So many bodies of the largest size of which everything has come but the end; then they hang up."""
    waiting, may_end = asyncio.Semaphore(0), asyncio.Event()

    async def come() -> None:
        is_first = True

        async def receive() -> Message:
            nonlocal is_first
            if is_first:
                is_first = False
                return {"type": "http.request", "body": b"x" * LARGEST, "more_body": True}
            waiting.release()
            await may_end.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            raise AssertionError("Nobody is there to be answered.")

        await gate(_scope(owner), receive, send)

    async with asyncio.TaskGroup() as senders:
        for _ in range(how_many):
            senders.create_task(come())
        for _ in range(how_many):
            await waiting.acquire()
        yield
        may_end.set()


def _scope(owner: Account, length: int | None = None) -> Scope:
    headers = [(b"authorization", f"Bearer {owner.token}".encode())]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    scope = {"type": "http", "method": "POST", "path": "/api/v2/ping", "client": ("127.0.0.1", 1)}
    return scope | {"headers": headers}


def test_large_bodies_come_in_no_faster_than_the_loop_should_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them together; a small one, or one that comes slowly, is never held back."""
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    async def read(scope: Scope, pieces: list[bytes], pace: arrival.BodyReadThrottle) -> bytes:
        left = list(pieces)

        async def receive() -> Message:
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

        return await arrival.read_whole_body(scope, receive, max_bytes=10**9, report_size=lambda _: None, throttle=pace)

    async def two_at_once() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 0.0)  # however busy the machine is
        pace, scope = arrival.BodyReadThrottle(), {"type": "http", "headers": []}
        assert await read(scope, [b"x" * 60_000, b"y"], pace) == b"x" * 60_000 + b"y"
        assert waits == []
        large = [b"x" * (arrival.MAX_BYTES_PER_SECOND // 100)] * 3
        for _ in range(2):
            assert await read(scope, large, pace) == b"".join(large)

    monkeypatch.setattr(asyncio, "sleep", note)
    asyncio.run(two_at_once())
    assert waits == pytest.approx([0.01, 0.02, 0.03, 0.04])
