"""Somebody else's server, subscribed to our events."""

import json
import threading
from collections import defaultdict
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class ReceivedEvent:
    headers: dict[str, str]
    body: str

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def message(self) -> dict[str, Any]:
        return dict(json.loads(self.body))

    @property
    def type(self) -> str:
        return str(self.message["event_type"])

    @property
    def data(self) -> dict[str, Any]:
        return dict(self.message["data"])


class EventReceiver:
    """Answers 204 to everything, and keeps it by path, in the order in which it came."""

    def __init__(self) -> None:
        self._received: dict[str, list[ReceivedEvent]] = defaultdict(list)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def at(self, path: str) -> list[ReceivedEvent]:
        return list(self._received[path])

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        received = self._received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                received[self.path].append(ReceivedEvent(headers, body.decode()))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                """Nothing on the test's output."""

        return Handler
