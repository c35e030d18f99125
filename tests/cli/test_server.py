"""How a server starts its processes, gives each call its turn, and stops."""

import asyncio
import sys
from contextlib import nullcontext
from multiprocessing import Pipe
from threading import Event
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import sqlalchemy as sa
from starlette.types import Message, Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE

from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.cli import server
from quillpost.core.database.tables.base import accounts
from quillpost.core.errors import Unavailable
from quillpost.core.requests import STOPPING_MESSAGE, Shutdown
from quillpost.core.settings import Settings
from quillpost.web.middleware.admission import Admission
from quillpost.web.middleware.requests import RequestMiddleware
from support.rows import execute, scalar


def test_threads_of_a_server_change_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose threads compute leaves light calls their turn."""
    chosen: list[float] = []
    monkeypatch.setattr(sys, "setswitchinterval", chosen.append)
    monkeypatch.setattr(bootstrap, "build_container", lambda *_: None)
    monkeypatch.setattr(runtime, "warn_if_key_file_exposed", lambda *_: None)
    monkeypatch.setattr(server, "create_app", lambda *_: None)
    monkeypatch.setenv("QUILLPOST_SERVE_JOBS", "no")
    server._create_application(Settings(), "nowhere")
    assert chosen == [server.THREAD_SWITCH_SECONDS]
    assert server.THREAD_SWITCH_SECONDS < 0.001


def test_a_server_process_may_take_long_to_start_but_not_fall_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it loads for minutes; killed meanwhile, it would begin anew for ever."""
    now = 0.0
    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: now))
    ours, theirs = Pipe()
    process, parent = Mock(parent_conn=ours), object.__new__(server.ServerProcesses)
    vars(parent).update(should_exit=Event(), config=None, sockets=[], _pinged_at={}, _has_answered=set())
    assert parent._is_responsive(process)
    now += 3 * server.UNRESPONSIVE_SECONDS
    assert parent._is_responsive(process)
    theirs.send(theirs.recv())
    assert parent._is_responsive(process)
    now += server.UNRESPONSIVE_SECONDS - 1
    assert parent._is_responsive(process)
    now += 1
    assert not parent._is_responsive(process)
    ours, _theirs = Pipe()
    never = Mock(parent_conn=ours)
    assert parent._is_responsive(never)
    now += server.START_SECONDS
    assert not parent._is_responsive(never)
    successor = Mock(exitcode=STARTUP_FAILURE, **{"process.is_alive.return_value": False})
    monkeypatch.setattr(server, "Process", lambda *_: successor)
    for each in (never, Mock(parent_conn=Pipe()[0])):  # one that is silent, and one that is no more
        parent.processes = [each]
        parent.keep_subprocess_alive()
        assert (each.kill.called, parent.processes, parent.should_exit.is_set()) == (True, [successor], False)
    parent.keep_subprocess_alive()
    assert (successor.start.call_count, parent.should_exit.is_set()) == (2, True), "the next would fail to start, too"


def test_late_requests_do_not_commit(container: Container, account: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quillpost.core.requests.COMMIT_SECONDS", 0)
    mine = accounts.c.id == account

    def rename(name: str) -> None:
        execute(container, sa.update(accounts).where(mine).values(name=name))

    async def request() -> Shutdown:
        shutdown = Shutdown()
        shutdown.begin()
        while not shutdown.commits_ended.is_set():
            await asyncio.sleep(0)
        with shutdown.request_context(), pytest.raises(Unavailable, match="stopping"):
            await asyncio.to_thread(rename, "By a request")
        return shutdown

    def name() -> str:
        return str(scalar(container, sa.select(accounts.c.name).where(mine)))

    rename("Dana")
    assert asyncio.run(request()).has_begun
    assert name() == "Dana"
    rename("By a job")
    assert name() == "By a job"


def test_what_is_done_first_is_done_once() -> None:
    async def story() -> list[str]:
        shutdown, done = Shutdown(), list[str]()
        shutdown.on_begin(lambda: done.append("streams end"))
        shutdown.begin()
        shutdown.begin()
        return done

    assert asyncio.run(story()) == ["streams end"]


def test_whoever_waits_is_sent_away_and_whoever_was_inside_may_finish() -> None:
    async def story() -> None:
        admission = Admission(max_per_caller=1, max_wait_seconds=3_600)
        inside, waiting = admission.create_ticket("A"), admission.create_ticket("A")
        await inside.enter()
        turn = asyncio.create_task(waiting.enter())
        await asyncio.sleep(0)
        admission.close()
        with pytest.raises(Unavailable, match="stopping"):
            await turn
        with pytest.raises(Unavailable, match="stopping"):
            await admission.create_ticket("B").enter()
        inside.leave()
        await inside.enter()

    asyncio.run(story())


def test_abandoned_requests_are_answered_with_503_by_a_server_that_stops() -> None:
    async def story(*, is_stopping: bool) -> list[Message]:
        shutdown, got, is_working = Shutdown(), list[Message](), asyncio.Event()

        async def work(_scope: Scope, _receive: Receive, _send: Send) -> None:
            is_working.set()
            await asyncio.Event().wait()

        async def send(message: Message) -> None:
            got.append(message)

        async def receive() -> Message:
            return {"type": "http.request"}

        scope = {"type": "http", "method": "POST", "path": "/api/v2/x", "headers": [], "scheme": "http",
                 "query_string": b""}  # fmt: skip
        request = asyncio.create_task(RequestMiddleware(work, shutdown)(scope, receive, send))
        await is_working.wait()
        if is_stopping:
            shutdown.begin()
        request.cancel()
        with nullcontext() if is_stopping else pytest.raises(asyncio.CancelledError):
            await request
        return got

    assert asyncio.run(story(is_stopping=False)) == []
    start, body = asyncio.run(story(is_stopping=True))
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"5")
    assert STOPPING_MESSAGE.encode() in body["body"]
