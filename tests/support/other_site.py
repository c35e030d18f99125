"""Somebody else's web server: another site than ours, with whatever pages a test writes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit


@dataclass(frozen=True)
class SiteResponse:
    """An answer: a page, or where to go on."""

    words: str = ""
    kind: str = "text/html"
    goes_on_to: str | None = None


Answer = Callable[[str, bytes], SiteResponse]
"""What is told to whoever asks for a path (with its query), and sends these bytes."""


@contextmanager
def other_site(answer: Answer) -> Iterator[str]:
    """Its address."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_icon = urlsplit(self.path).path == "/favicon.ico"
            told = SiteResponse() if is_icon else answer(self.path, body)
            self.send_response(303 if told.goes_on_to else 200)
            if told.goes_on_to:
                self.send_header("Location", told.goes_on_to)
            self.send_header("Content-Type", f"{told.kind}; charset=utf-8")
            self.end_headers()
            self.wfile.write(told.words.encode())

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
