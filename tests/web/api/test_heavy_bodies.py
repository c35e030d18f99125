"""Heavy bodies take turns apart from the loop: light calls go on, and nobody works for someone who left. A large
form takes no longer than its length warrants."""

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message

from quillpost.app.container import Container, Limits
from quillpost.core import exact_json
from quillpost.core.errors import Invalid
from quillpost.recipients.webhooks import rules as webhook_rules
from quillpost.web import forms as web_forms
from quillpost.web.api import requests
from quillpost.web.api.errors import RequestAborted
from quillpost.web.api.requests import BodyReadQueue, ShouldStop, run_while_connected
from quillpost.web.api.schemas import Body
from quillpost.web.application import create_app
from support.factories import Account, people
from support.list_webhooks import create_list_webhook
from support.raw_http import real_server, send_request
from support.traces import FORM, JSON, capture_logs, traces

PATIENCE = 30


def heavy() -> bytes:
    body = json.dumps({"recipients": people(3), "message": "Hello", "padding": "x" * 60_000}).encode()
    assert len(body) > requests.LARGE_BODY_BYTES
    return body


def head(owner: Account, path: str, body: bytes, method: str = "POST") -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1", "Host: quillpost.test", f"Authorization: Bearer {owner.token}",
        f"Content-Type: {JSON}", f"Content-Length: {len(body)}", "Connection: close",
    ]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode()


class Held:
    """Keeps whoever parses a heavy body until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.may_end, self.times = Event(), Event(), 0
        read = exact_json.parse_json

        def held(source: bytes, **how: Any) -> Any:
            if len(source) > requests.LARGE_BODY_BYTES:
                self.times += 1
                self.begun.set()
                assert self.may_end.wait(PATIENCE)
            return read(source, **how)

        monkeypatch.setattr(exact_json, "parse_json", held)


def test_light_calls_go_on_beside_heavy(owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    held, body = Held(monkeypatch), heavy()
    hook = create_list_webhook(owner)
    with real_server(create_app(container)) as port, ThreadPoolExecutor(2) as others:
        sends = others.submit(send_request, port, head(owner, "/api/v2/estimate/postcard", body) + body)
        assert held.begun.wait(PATIENCE)
        hook_body = json.dumps([{"email": "jane@example.com", "note": "x" * 60_000}]).encode()
        waits = others.submit(send_request, port, head(owner, hook.path, hook_body) + hook_body)
        for path, method, light in (
            ("/api/v2/ping", "GET", b""),
            ("/api/v2/mailing-lists", "POST", b'{"description": "Friends"}'),
            ("/health", "GET", b""),
        ):
            assert send_request(port, head(owner, path, light, method) + light).status in (200, 201), path
        assert (held.times, sends.done(), waits.done()) == (1, False, False)
        held.may_end.set()
        assert (sends.result(PATIENCE).status, waits.result(PATIENCE).status) == (200, 200)


@pytest.mark.parametrize("path", ["/api/v2/send/postcard", "hook"])
def test_a_call_whose_client_has_gone_stops(
    owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Between two stages: what was parsed for nobody is neither validated nor done."""
    held, body, looked = Held(monkeypatch), heavy(), list[object]()
    address = create_list_webhook(owner).path if path == "hook" else path
    monkeypatch.setattr(Body, "validated", looked.append)
    monkeypatch.setattr(webhook_rules, "read_person", lambda row, **_: looked.append(row))
    before = traces(container)
    app = create_app(container)
    with capture_logs() as lines, real_server(app) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line:
            line.sendall(head(owner, address, body) + body)
            assert held.begun.wait(PATIENCE)
        while not (gone := [each for each in lines() if each["event"] == "requests.completed"]):
            assert send_request(port, head(owner, "/health", b"", "GET")).status == 200
        assert [each["status"] for each in gone] == [499]
        held.may_end.set()
        requests._READERS.submit(len, "whatever was read is read").result(PATIENCE)
    assert looked == []
    assert traces(container) == before


def test_what_waits_for_its_turn_is_never_begun_when_its_client_goes() -> None:
    async def run() -> tuple[list[str], list[str]]:
        in_turn, begun, gone = BodyReadQueue(), list[str](), list[str]()
        may_end, leaves = Event(), asyncio.Event()

        def work(name: str) -> Callable[[ShouldStop], str]:
            def do(stops: ShouldStop) -> str:
                begun.append(name)
                assert may_end.wait(PATIENCE)
                return name

            return do

        async def receive() -> Message:
            await leaves.wait()
            return {"type": "http.disconnect"}

        async def never() -> Message:
            await asyncio.Event().wait()
            return {}

        first = asyncio.create_task(run_while_connected(never, in_turn.run(1, work("first"))))
        leaver = asyncio.create_task(run_while_connected(receive, in_turn.run(2, work("leaver"))))
        last = asyncio.create_task(run_while_connected(never, in_turn.run(3, work("last"))))
        while not begun:
            await asyncio.sleep(0)
        leaves.set()
        try:
            await leaver
        except RequestAborted:
            gone.append("leaver")
        may_end.set()
        assert [await first, await last] == ["first", "last"]
        return begun, gone

    assert asyncio.run(run()) == (["first", "last"], ["leaver"])


def test_canceled_work_stops_before_the_next_begins() -> None:
    async def run() -> list[str]:
        in_turn, events, is_running = BodyReadQueue(), list[str](), Event()
        may_look = Event()

        def stopping(stops: ShouldStop) -> None:
            is_running.set()
            assert may_look.wait(PATIENCE)
            events.append("stopped" if stops() else "went on")

        cancelled = asyncio.create_task(in_turn.run(1, stopping))
        after = asyncio.create_task(in_turn.run(1, lambda _: events.append("next")))
        while not is_running.is_set():
            await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait({cancelled})
        may_look.set()
        await after
        return events

    assert asyncio.run(run()) == ["stopped", "next"]


def test_callers_take_turns_whoever_sends_most_and_a_failure_holds_up_nobody() -> None:
    async def run() -> list[str]:
        in_turn, order, may_begin = BodyReadQueue(), list[str](), Event()

        def first(_: ShouldStop) -> None:
            assert may_begin.wait(PATIENCE)
            raise ValueError("wrong")

        waiting = [asyncio.create_task(in_turn.run("flood", first))]
        for caller in ("flood", "flood", "flood", "flood", "one", "two", "two"):
            note = partial(order.append, caller)
            waiting.append(asyncio.create_task(in_turn.run(caller, lambda _, note=note: note())))  # type: ignore[misc]
        await asyncio.sleep(0)
        may_begin.set()
        with pytest.raises(ValueError, match="wrong"):
            await waiting[0]
        await asyncio.gather(*waiting[1:])
        return order

    assert asyncio.run(run()) == ["flood", "one", "two", "flood", "two", "flood", "flood"]


def request_with(body: bytes) -> Request:
    async def receive() -> Message:
        return given.pop() if given else await asyncio.get_running_loop().create_future()

    given: list[Message] = [{"type": "http.request", "body": body}]
    app = SimpleNamespace(state=SimpleNamespace(container=SimpleNamespace(limits=Limits())))
    return Request({"type": "http", "headers": [(b"content-type", FORM.encode())], "app": app}, receive)


async def turns_during(reading: Coroutine[Any, Any, Any]) -> tuple[int, Any]:
    """How often the loop turned to others meanwhile, and what was read."""
    task, turns = asyncio.create_task(reading), 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    return turns, await task


def test_others_are_served_while_a_large_form_is_read_and_each_name_is_looked_at_once() -> None:
    names = [f"field{number}" for number in range(4)]
    sent = request_with(b"&".join(name.encode() + b"=" + b"%41" * 100_000 for name in names))
    turns, read = asyncio.run(turns_during(requests.parse_request(sent)))
    assert turns > 10
    assert asyncio.run(read.json()) == dict.fromkeys(names, "A" * 100_000)
    of_a_page = request_with(b"people=" + b"%41" * 100_000)
    turns, read = asyncio.run(turns_during(web_forms.read_form_with_key(of_a_page)))
    assert turns > 10
    assert read.fields == {"people": ["A" * 100_000]}
    pairs = [(Compared(f"name {n}"), n) for n in range(1_000)]
    assert requests._reject_duplicates(pairs) == dict(pairs)
    assert Compared.times < 10 * len(pairs)
    body = b"a=1&b=2&c=3&c=4&b=5&a=6&x=" + b"x" * requests.LARGE_BODY_BYTES
    with pytest.raises(Invalid) as refused:
        asyncio.run(requests.parse_request(request_with(body)))
    assert refused.value.fields == {"a": ["This field is given twice."]}


class Compared(str):
    """Counts how often it is compared."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)

    __hash__ = str.__hash__
