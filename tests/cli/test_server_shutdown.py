"""A server that stops: whoever waits is told so, and no request commits too late."""

import asyncio

import pytest
import sqlalchemy as sa
from starlette.types import Message, Receive, Scope, Send

from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts
from quillpost.core.errors import Unavailable
from quillpost.core.requests import STOPPING_MESSAGE, Shutdown
from quillpost.web.middleware.admission import Admission
from quillpost.web.middleware.requests import RequestMiddleware

RENAME = sa.update(accounts).values(name="Another")


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> Shutdown:
    """The end of a server at which the time to commit is over."""
    monkeypatch.setattr("quillpost.core.requests.COMMIT_SECONDS", 0)

    async def end() -> Shutdown:
        shutdown = Shutdown()
        shutdown.begin()
        while not shutdown.commits_ended.is_set():
            await asyncio.sleep(0)
        return shutdown

    return asyncio.run(end())


def test_no_request_commits_when_its_time_is_over(container: Container, over: Shutdown) -> None:
    def rename() -> None:
        with container.db.system_transaction() as tx:
            tx.execute(RENAME)

    async def request() -> None:
        with over.request_context():
            await asyncio.to_thread(rename)

    with container.db.system_transaction() as tx:
        tx.execute(sa.insert(accounts).values(email="a@example.com", name="Dana", **_now(container)))
    with pytest.raises(Unavailable, match="stopping"):
        asyncio.run(request())
    assert _name(container) == "Dana"


def test_a_job_commits_whenever_it_is_done(container: Container, over: Shutdown) -> None:
    assert over.has_begun
    with container.db.system_transaction() as tx:
        tx.execute(sa.insert(accounts).values(email="a@example.com", name="Dana", **_now(container)))
    assert _name(container) == "Dana"


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


def test_abandoned_requests_are_answered_with_503() -> None:
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
        request = asyncio.create_task(RequestMiddleware(work, shutdown)(scope, receive, send))
        await is_working.wait()
        shutdown.begin()
        request.cancel()
        await request
        return got

    start, body = asyncio.run(story())
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"5")
    assert STOPPING_MESSAGE.encode() in body["body"]


def _now(container: Container) -> dict[str, object]:
    return {"is_operator": False, "test_mode": False, "created_at": container.clock(), "updated_at": container.clock()}


def _name(container: Container) -> str:
    with container.db.system_transaction() as tx:
        return str(tx.execute(sa.select(accounts.c.name)).scalar_one())
