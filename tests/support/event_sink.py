"""Somebody else's server that is told of events, and the engine that tells it, as a worker runs it."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.settings import Settings

TIMEOUT_SECONDS = 60
"""Only a test that fails waits so long."""

HEAD = ("event_type", "event_id", "timestamp", "date_time")


@dataclass(frozen=True)
class ReceivedRequest:
    """One request. `body` is as it came."""

    verb: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        """What it says: the head of an event, and its data. Of a GET all values are texts."""
        if self.verb == "POST":
            return dict(json.loads(self.body))
        pairs = dict(parse_qsl(self.query, keep_blank_values=True, strict_parsing=True))
        head = {name: pairs.pop(name) for name in HEAD}
        return head | {"data": pairs}

    @property
    def type(self) -> str:
        return str(self.message["event_type"])

    @property
    def data(self) -> dict[str, Any]:
        return dict(self.message["data"])


class EventSink:
    """Answers 204 to everything, and keeps it in the order in which it came."""

    def __init__(self) -> None:
        self._arrived: list[ReceivedRequest] = []
        self._news = Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> "EventSink":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def at(self, path: str) -> list[ReceivedRequest]:
        with self._news:
            return self._at(path)

    def wait(self, path: str, how_many: int) -> list[ReceivedRequest]:
        """What has arrived there, once it is so much."""
        with self._news:
            came = self._news.wait_for(lambda: len(self._at(path)) >= how_many, TIMEOUT_SECONDS)
            found = self._at(path)
        assert came, f"{len(found)} of {how_many} events have arrived at {path}"
        return found

    def _at(self, path: str) -> list[ReceivedRequest]:
        return [each for each in self._arrived if each.path == path]

    def _keep(self, arrived: ReceivedRequest) -> None:
        with self._news:
            self._arrived.append(arrived)
            self._news.notify_all()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        keep = self._keep

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                place = urlsplit(self.path)
                self.send_response(204)
                self.end_headers()
                keep(ReceivedRequest(self.command, place.path, place.query, headers, body))

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *_arguments: object) -> None:
                """Nothing on the test's output."""

        return Handler


@contextmanager
def run_dispatcher(container: Container) -> Iterator[None]:
    """Meanwhile the engine runs, over real sockets."""
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
