"""Pages that change while one looks: an event for what is new, nothing for whom it is none of, and an end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI

from quillpost.accounts.users.sessions import SignedInUser, UserMembership
from quillpost.app.container import Container
from quillpost.cli.server import QuillpostProtocol
from quillpost.core.database.tables.accounts import sessions
from quillpost.core.errors import Unavailable
from quillpost.orders.rules import ItemStatus
from quillpost.web import live_updates
from quillpost.web.application import create_app
from quillpost.web.live_updates import LiveUpdates, StreamTiming, Topic
from quillpost.web.security import SESSION
from support.giftcard_orders import move_items
from support.orders import item_ids
from support.pages import OWNER, AccountPages

ABOUT: Topic = ("order", 1)
QUICK = StreamTiming(poll=0.05, heartbeat=0.2, session_check=0.1, lifetime=30)
PLENTY = 100


@pytest.fixture
def app(container: Container, app: FastAPI) -> FastAPI:
    """With streams of its own: they end with it."""
    app.state.live_updates = LiveUpdates(container.db, container.clock, QUICK)
    return app


@pytest.fixture
def order(house: AccountPages) -> int:
    return int(house.account.send().json()["id"])


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PLENTY):
        while not is_so():
            await asyncio.sleep(0.02)


class Stream:
    """What a browser with an open stream has heard."""

    def __init__(self) -> None:
        self.status, self.text, self.is_over = 0, "", False
        self.headers: dict[str, str] = {}
        self.gone = asyncio.Event()

    async def receive(self) -> Any:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.text += message.get("body", b"").decode()
            self.is_over = not message.get("more_body", False)


@asynccontextmanager
async def listening(app: FastAPI, house: AccountPages, path: str) -> AsyncIterator[Stream]:
    """The owner's browser, with a stream open."""
    stream = Stream()
    cookie = f"{SESSION}={house.owner.cookie(SESSION)}".encode()
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "server": ("quillpost.test", 80),
        "client": ("192.0.2.1", 1), "asgi": {"version": "3.0", "spec_version": "2.3"},
        "headers": [(b"accept", b"text/event-stream"), (b"cookie", cookie), (b"host", b"quillpost.test")],
    }  # fmt: skip
    task = asyncio.create_task(app(scope, stream.receive, stream.send))
    try:
        yield stream
    finally:
        stream.gone.set()
        await asyncio.wait_for(task, 20)


def test_an_event_has_news(app: FastAPI, house: AccountPages, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hub: LiveUpdates = app.state.live_updates
    reads: list[int] = []
    ask = hub._read_versions

    def noted(topics: set[Topic]) -> dict[Topic, str]:
        reads.append(len(topics))
        return ask(topics)

    monkeypatch.setattr(hub, "_read_versions", noted)
    [item] = item_ids(house.parts, order)

    async def watch() -> None:
        async with listening(app, house, f"/orders/{order}/live") as stream:
            await until(lambda: stream.text.count("event: ") == 3)
            assert (stream.status, stream.headers["cache-control"]) == (200, "no-store")
            assert stream.headers["x-accel-buffering"] == "no"
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert "Reviewing" in stream.text
            await until(lambda: ": still here" in stream.text)
            assert stream.text.count("event: ") == 3
            before = len(stream.text)
            await asyncio.to_thread(move_items, house.parts, [item], ItemStatus.PRINTED, ItemStatus.IN_TRANSIT)
            await until(lambda: "In Transit" in stream.text)
            assert "event: history" not in stream.text[before:]
        await until(lambda: hub.stream_count == 0)
        await asyncio.sleep(0.1)  # a read that had begun is over
        quiet = len(reads)
        await asyncio.sleep(4 * QUICK.poll)
        assert len(reads) == quiet > 0  # nobody watches, so nobody asks

    asyncio.run(watch())


def test_a_stream_ends_with_its_session_or_its_mode(app: FastAPI, house: AccountPages, order: int) -> None:
    own = sessions.c.person_id == house.person(OWNER)

    async def watch(statement: Any) -> None:
        async with listening(app, house, f"/orders/{order}/live") as stream:
            await until(lambda: "event: " in stream.text)
            await until(lambda: ": still here" in stream.text)  # its session was looked at meanwhile
            assert not stream.is_over
            await asyncio.to_thread(house.execute, statement)
            await until(lambda: stream.is_over)

    asyncio.run(watch(sa.update(sessions).where(own).values(mode="live")))
    house.execute(sa.update(sessions).where(own).values(mode="test"))
    asyncio.run(watch(sa.delete(sessions).where(own)))


def test_too_many_get_no_stream(app: FastAPI, house: AccountPages, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/orders/{order}/live"
    once = house.owner.get(path)
    assert (once.status_code, once.text.count("event: ")) == (200, 3)
    monkeypatch.setattr(live_updates, "MAX_STREAMS_PER_SESSION", 0)
    refused = house.owner.get(path, headers={"Accept": "text/event-stream"})
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    hub: LiveUpdates = app.state.live_updates
    hub.end()
    with pytest.raises(Unavailable):
        hub.register(reader(1), ABOUT)


def test_nobody_takes_the_places_of_all_however_fast_they_ask(container: Container) -> None:
    hub = LiveUpdates(container.db, container.clock)

    def taken(*readers: SignedInUser) -> list[Any]:
        places = []
        for user in readers:
            with suppress(Unavailable):
                places.append(hub.register(user, ABOUT))
        return places

    first = taken(*[reader(1)] * 30)
    more = taken(*[reader(2 + n) for n in range(30)])
    of_others = taken(*[reader(100 + n, person=100 + n) for n in range(120)])
    assert [len(first), len(first + more), len(first + more + of_others)] == [
        live_updates.MAX_STREAMS_PER_SESSION, live_updates.MAX_STREAMS_PER_PERSON, live_updates.MAX_STREAMS_PER_ACCOUNT,
    ]  # fmt: skip
    assert len(taken(reader(300, person=300, account=2))) == 1
    del first, more, of_others  # they left before their streams began
    assert (hub.stream_count, len(taken(reader(1)))) == (0, 1)


def reader(session: int, *, person: int = 1, account: int = 1) -> SignedInUser:
    here = UserMembership(person, account, "Acme", "owner", None, None, False, False)
    return SignedInUser(session, person, OWNER, "Dana", here, (), "test", False, datetime(2026, 7, 1, tzinfo=UTC))


@pytest.mark.usefixtures("conninfo")  # the application is stopped
def test_a_server_that_stops_waits_for_no_stream(container: Container, house: AccountPages, order: int) -> None:
    """A real server, as the command runs it."""
    config = uvicorn.Config(
        create_app(container), port=0, http=QuillpostProtocol, log_config=None, lifespan="on",
        timeout_graceful_shutdown=10 * PLENTY,
    )  # fmt: skip

    async def serve() -> None:
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve(None))
        await until(lambda: server.started)
        lines, writer = await asyncio.open_connection("127.0.0.1", server.servers[0].sockets[0].getsockname()[1])
        writer.write(
            f"GET /orders/{order}/live HTTP/1.1\r\nHost: quillpost.test\r\nCookie: {SESSION}="
            f"{house.owner.cookie(SESSION)}\r\nAccept: text/event-stream\r\n\r\n".encode()
        )
        async with asyncio.timeout(PLENTY):
            while b"event: history" not in await lines.readline():
                pass
            server.should_exit = True
            await serving  # or it would wait for longer than we do
        writer.close()

    asyncio.run(serve())
