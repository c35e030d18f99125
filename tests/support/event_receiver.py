"""A server that subscribes to our events, and the dispatcher that delivers to it, as a worker runs it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Thread
from typing import Any
from urllib.parse import parse_qsl

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.settings import Settings
from support.fake_server import FakeRequest, FakeResponse, FakeServer, respond

TIMEOUT_SECONDS = 60
"""Only a test that fails waits so long."""

HEAD = ("event_type", "event_id", "timestamp", "date_time")


class ReceivedEvent(FakeRequest):
    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def message(self) -> dict[str, Any]:
        """The head of an event, and its data. Of a GET all values are texts."""
        if self.method == "POST":
            return dict(self.json())
        pairs = dict(parse_qsl(self.query, keep_blank_values=True, strict_parsing=True))
        return {name: pairs.pop(name) for name in HEAD} | {"data": pairs}

    @property
    def type(self) -> str:
        return str(self.message["event_type"])

    @property
    def data(self) -> dict[str, Any]:
        return dict(self.message["data"])


class EventReceiver(FakeServer):
    """Answers 204 to everything, and keeps it in the order in which it came."""

    def __init__(self) -> None:
        super().__init__()
        self._received: list[ReceivedEvent] = []
        self._news = Condition()

    def handle(self, request: FakeRequest) -> FakeResponse | None:
        with self._news:
            self._received.append(ReceivedEvent(**vars(request)))
            self._news.notify_all()
        return respond(204)

    def at(self, path: str) -> list[ReceivedEvent]:
        with self._news:
            return self._at(path)

    def wait(self, path: str, how_many: int) -> list[ReceivedEvent]:
        """What has arrived there, once it is so much."""
        with self._news:
            has_arrived = self._news.wait_for(lambda: len(self._at(path)) >= how_many, TIMEOUT_SECONDS)
            events = self._at(path)
        assert has_arrived, f"{len(events)} of {how_many} events have arrived at {path}"
        return events

    def _at(self, path: str) -> list[ReceivedEvent]:
        return [event for event in self._received if event.path == path]


@contextmanager
def run_dispatcher(container: Container) -> Iterator[None]:
    """Meanwhile the dispatcher runs, over real sockets."""
    stop, started = asyncio.Event(), Condition()
    settings = Settings.model_validate({"allow_private_urls": True})
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        with started:
            loops.append(asyncio.get_running_loop())
            started.notify()
        await bootstrap.build_dispatcher(settings, container).run(stop)

    thread = Thread(target=asyncio.run, args=(run(),))
    thread.start()
    with started:
        assert started.wait_for(lambda: bool(loops), TIMEOUT_SECONDS)
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join()
