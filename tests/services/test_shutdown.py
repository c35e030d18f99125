"""A server that stops: whoever waits is told so, and no request commits too late."""

import asyncio

import pytest
import sqlalchemy as sa
from starlette.types import Message, Receive, Scope, Send

from quillpost.app.container import Parts
from quillpost.core.database.tables.base import accounts
from quillpost.core.errors import Unavailable
from quillpost.core.shutdown import STOPPING, Shutdown
from quillpost.web.middleware.admission import Admission
from quillpost.web.middleware.requests import Envelope

RENAME = sa.update(accounts).values(name="Another")


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> Shutdown:
    """The end of a server at which the time to commit is over."""
    monkeypatch.setattr("quillpost.core.shutdown.COMMIT_SECONDS", 0)

    async def end() -> Shutdown:
        shutdown = Shutdown()
        shutdown.begin()
        while not shutdown._is_over.is_set():
            await asyncio.sleep(0)
        return shutdown

    return asyncio.run(end())


def test_no_request_commits_when_its_time_is_over(parts: Parts, over: Shutdown) -> None:
    def rename() -> None:
        with parts.db.work() as tx:
            tx.execute(RENAME)

    async def request() -> None:
        with over.request():
            await asyncio.to_thread(rename)

    with parts.db.work() as tx:
        tx.execute(sa.insert(accounts).values(email="a@example.com", name="Dana", **_now(parts)))
    with pytest.raises(Unavailable, match="stopping"):
        asyncio.run(request())
    assert _name(parts) == "Dana"


def test_a_job_commits_whenever_it_is_done(parts: Parts, over: Shutdown) -> None:
    assert over.has_begun
    with parts.db.work() as tx:
        tx.execute(sa.insert(accounts).values(email="a@example.com", name="Dana", **_now(parts)))
    assert _name(parts) == "Dana"


def test_what_is_done_first_is_done_once() -> None:
    async def story() -> list[str]:
        shutdown, done = Shutdown(), list[str]()
        shutdown.first(lambda: done.append("streams end"))
        shutdown.begin()
        shutdown.begin()
        return done

    assert asyncio.run(story()) == ["streams end"]


def test_whoever_waits_is_sent_away_and_whoever_was_inside_may_finish() -> None:
    async def story() -> None:
        admission = Admission(share=1, patience=3_600)
        inside, waiting = admission.place("A"), admission.place("A")
        await inside.enter()
        turn = asyncio.create_task(waiting.enter())
        await asyncio.sleep(0)
        admission.close()
        with pytest.raises(Unavailable, match="stopping"):
            await turn
        with pytest.raises(Unavailable, match="stopping"):
            await admission.place("B").enter()
        inside.leave()
        await inside.enter()

    asyncio.run(story())


def test_whoever_is_given_up_is_told_503() -> None:
    async def story() -> list[Message]:
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
        request = asyncio.create_task(Envelope(work, shutdown)(scope, receive, send))
        await is_working.wait()
        shutdown.begin()
        request.cancel()
        await request
        return got

    start, body = asyncio.run(story())
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"5")
    assert STOPPING.encode() in body["body"]


def _now(parts: Parts) -> dict[str, object]:
    return {
        "is_operator": False,
        "test_mode": False,
        "created_at": parts.clock(),
        "updated_at": parts.clock(),
    }


def _name(parts: Parts) -> str:
    with parts.db.work() as tx:
        return str(tx.execute(sa.select(accounts.c.name)).scalar_one())
