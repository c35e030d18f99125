"""Requests take turns by account at the gate: whoever floods it waits alone, and not for long."""

import asyncio
import gc
import json
from collections import Counter
from itertools import cycle, islice
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.app.container import Container
from quillpost.core import tokens
from quillpost.core.errors import Overloaded
from quillpost.core.telemetry import REGISTRY
from quillpost.web.application import create_app
from quillpost.web.middleware.admission import Admission, RequestAdmission
from support.factories import Account, make_live, make_sub_account, make_teammate
from support.raw_http import build_guarded_app
from support.traces import capture_logs
from support.waiting import in_time, until

SHARE = 3
LONG = 3_600.0
ADDRESS = "address", "192.0.2.1"
SESSION = "cookie", "quillpost_session=somebody; quillpost_zone=UTC"


class House:
    """What is behind the gate: keeps everyone inside until it is told to answer."""

    def __init__(self, container: Container, *, patience: float = LONG, share: int = SHARE, places: int = 16) -> None:
        self.admission = Admission(max_per_caller=share, max_wait_seconds=patience, max_concurrent=places)
        self.gate: ASGIApp = build_guarded_app(self._answer, container, self.admission)
        self.visits: list[tuple[str, bytes]] = []
        self.is_open = asyncio.Event()
        self.state: dict[str, Any] = {}

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"].update(self.state)
        self.visits.append((scope["path"], (await receive()).get("body", b"")))
        if scope["path"].endswith("slow"):
            await self.is_open.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


class Call:
    """One request and its answer; its caller can hang up, and a body comes when the test says so."""

    def __init__(self, house: House, path: str, *headers: tuple[str, str], body: bool = False) -> None:
        given = [(b"content-length", b"2")] if body else []
        self.scope: Scope = {
            "type": "http", "scheme": "http", "method": "POST" if body else "GET", "path": path,
            "raw_path": path.encode(), "root_path": "", "query_string": b"", "http_version": "1.1",
            "headers": given + [(name.encode(), value.encode()) for name, value in headers],
            "client": (ADDRESS[1], 1), "state": {},
        }  # fmt: skip
        self.body_came, self.hung_up = asyncio.Event(), asyncio.Event()
        if not body:
            self.body_came.set()
        self._is_read = False
        self.messages: list[Message] = []
        self.task = asyncio.ensure_future(house.gate(self.scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if self._is_read:
            await self.hung_up.wait()
            return {"type": "http.disconnect"}
        await self.body_came.wait()
        self._is_read = True
        return {"type": "http.request", "body": b"{}" if self.scope["method"] == "POST" else b""}

    async def _send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode().lower(): value.decode() for name, value in self.messages[0]["headers"]}

    async def done(self) -> "Call":
        await self.task
        return self


def by(caller: Account | str) -> tuple[str, str]:
    return "authorization", f"Bearer {caller if isinstance(caller, str) else caller.token}"


def account(caller: Account) -> tuple[str, int]:
    return "account", caller.id


async def filled(house: House, *callers: Account) -> list[Call]:
    """As many as may be inside, of callers who are known."""
    for caller in callers:
        await Call(house, "/api/v2/ping", by(caller)).done()
    house.visits.clear()
    inside = [Call(house, "/api/v2/slow", by(caller)) for caller in islice(cycle(callers), SHARE)]
    await until(lambda: len(house.visits) == SHARE)
    return inside


async def flooded(house: House, *callers: Account, extra: int) -> list[Call]:
    """As many as may be inside, and so many who wait behind them."""
    first = await filled(house, *callers)
    more = [Call(house, "/api/v2/slow", by(caller)) for caller in islice(cycle(callers), extra)]
    await until(lambda: house.admission.total_waiting == extra)
    return first + more


def answered(status: int) -> float:
    labels = {"method": "GET", "route": "unmatched", "status": str(status)}
    return REGISTRY.get_sample_value("quillpost_requests_total", labels) or 0.0


@in_time
async def test_beside_a_crowd_of_one_account_another_is_served_at_once(
    container: Container, owner: Account, stranger: Account
) -> None:
    house = House(container)
    crowd = await flooded(house, owner, extra=40)
    assert (await Call(house, "/api/v2/ping", by(stranger)).done()).status == 200
    assert len(house.visits) == SHARE + 1
    assert house.admission.count_waiting(account(owner)) == 40
    house.is_open.set()
    assert {(await call.done()).status for call in crowd} == {200}
    assert house.admission.count_admitted(account(owner)) == 0


@in_time
async def test_tokens_and_sub_accounts_of_an_account_share_its_share(container: Container, owner: Account) -> None:
    teammate = make_teammate(container, owner, make_sub_account(container, owner))
    house = House(container)
    await flooded(house, owner, teammate, make_live(container, owner), extra=9)
    assert house.admission.count_admitted(account(owner)) == SHARE
    assert house.admission.count_waiting(account(owner)) == 9
    house.is_open.set()


@in_time
async def test_a_call_that_would_wait_long_gets_503_and_starts_nothing(container: Container, owner: Account) -> None:
    """Each is counted, many make one log entry, and none leaves garbage: collecting what hundreds a second leave
    would have everybody wait."""

    def left() -> int:
        return sum(isinstance(one, (RequestAdmission, Overloaded)) for one in gc.get_objects())

    house = House(container, patience=0)
    inside = await filled(house, owner)
    heads = by(owner), ("x-request-id", "my-own-id-1")
    for _ in range(5):
        call = await Call(house, "/api/v2/send/postcard", *heads, body=True).done()
        assert (call.status, call.headers["retry-after"], call.headers["x-request-id"]) == (503, "5", "my-own-id-1")
        assert call.headers["access-control-allow-origin"] == "*", "a web page can tell its user"
        assert call.headers["x-content-type-options"] == "nosniff"
        assert "strict-transport-security" not in call.headers
        payload = json.loads(call.messages[1]["body"])
        assert (list(payload), "fewer calls at once" in payload["message"]) == (["message"], True)
    before = answered(503)
    with capture_logs() as lines:
        for _ in range(20):
            assert (await Call(house, "/api/v2/orders", by(owner)).done()).status == 503
        await until(lambda: sum(line.get("count", 0) for line in lines()) >= 20)
        events = Counter(line["event"] for line in lines())
    assert "requests.completed" not in events
    assert 1 <= events["requests.shed"] < 20
    assert answered(503) - before == 20
    objects = left()
    gc.disable()
    try:
        for _ in range(20):
            await Call(house, "/api/v2/orders", by(owner)).done()
        await asyncio.sleep(0)
        assert left() == objects
    finally:
        gc.enable()
    assert len(house.visits) == SHARE
    house.is_open.set()
    assert {(await call.done()).status for call in inside} == {200}


@in_time
async def test_the_service_looks_at_its_processor_while_many_wait(
    container: Container, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is answered all the same."""
    looks = []

    class Short:
        @property
        def is_high(self) -> bool:
            looks.append(True)
            return True

    monkeypatch.setattr("quillpost.web.application.ProcessorLoad", Short)
    monkeypatch.setattr("quillpost.web.middleware.admission.LONG_QUEUE_LENGTH", 0)
    house = House(container)
    house.gate = create_app(container)
    calls = [Call(house, "/api/v2/ping", by(owner)) for _ in range(20)]
    assert {(await call.done()).status for call in calls} == {200}
    assert looks


@in_time
async def test_a_disconnected_caller_leaves_the_queue(container: Container, owner: Account) -> None:
    house, before = House(container), answered(499)
    crowd = await flooded(house, owner, extra=2)
    gone = crowd[-2]
    gone.hung_up.set()
    await gone.done()
    assert (gone.messages, house.admission.count_waiting(account(owner))) == ([], 1)
    house.is_open.set()
    await crowd[-1].done()
    assert len(house.visits) == SHARE + 1, "nothing is done for who has gone"
    assert house.admission.count_admitted(account(owner)) == 0
    assert answered(499) - before == 1


@in_time
async def test_made_up_tokens_wait_in_turn_and_keep_no_known_caller(container: Container, owner: Account) -> None:
    house = House(container, share=1)
    await Call(house, "/api/v2/ping", by(owner)).done()
    made_up = [Call(house, "/api/v2/ping", by(tokens.mint_secret("test", bytes([n]) * 32))) for n in range(20)]
    assert (await Call(house, "/api/v2/ping", by(owner)).done()).status == 200
    assert not all(call.task.done() for call in made_up)
    assert {(await call.done()).status for call in made_up} == {401}
    assert house.admission.count_admitted(ADDRESS) == 0


@in_time
async def test_a_body_that_trickles_in_holds_no_place(container: Container, owner: Account) -> None:
    house = House(container, share=1)
    slow = Call(house, "/api/v2/send/postcard", by(owner), body=True), Call(house, "/some/form", body=True)
    await until(lambda: house.admission.total_admitted == 0)
    assert (await Call(house, "/api/v2/ping", by(owner)).done()).status == 200
    assert (await Call(house, "/sign-in").done()).status == 200
    for call in slow:
        call.body_came.set()
        assert (await call.done()).status == 200
    bodies = {path: body for path, body in house.visits if body}
    assert bodies == {"/api/v2/send/postcard": b"{}", "/some/form": b"{}"}


@in_time
async def test_pages_take_turns_by_the_account_of_their_session_and_else_by_address(container: Container) -> None:
    house = House(container)
    house.state = {"account_id": 7}
    await Call(house, "/orders", SESSION).done()
    inside = [Call(house, "/slow", SESSION), Call(house, "/slow")]
    await until(lambda: len(house.visits) == 3)
    assert [house.admission.count_admitted(whose) for whose in (("account", 7), ADDRESS)] == [1, 1]
    house.state = {"account_id": None}  # the session has ended
    house.is_open.set()
    for call in inside:
        await call.done()
    await Call(house, "/orders", SESSION).done()
    house.is_open.clear()
    ended = Call(house, "/slow", SESSION)
    await until(lambda: house.admission.count_admitted(ADDRESS) == 1)
    house.is_open.set()
    await ended.done()


@in_time
async def test_the_answer_to_whoever_looks_after_us_takes_no_place(container: Container) -> None:
    house = House(container, share=1, places=1)
    busy = Call(house, "/slow")
    await until(lambda: len(house.visits) == 1)
    assert (await Call(house, "/health").done()).status == 200
    house.is_open.set()
    await busy.done()


@in_time
async def test_a_signed_in_user_waits_longer_than_a_program(container: Container) -> None:
    house = House(container, patience=0.5, share=1)
    house.state = {"account_id": 7}
    await Call(house, "/orders", SESSION).done()
    busy = [Call(house, "/slow", SESSION), Call(house, "/slow")]
    await until(lambda: len(house.visits) == 3)
    person, program = Call(house, "/compose", SESSION), Call(house, "/hooks/lists/key")
    assert (await program.done()).status == 503
    assert house.admission.count_waiting(("account", 7)) == 1
    house.is_open.set()
    assert (await person.done()).status == 200
    for call in busy:
        await call.done()
