"""A provider of addresses on loopback, as docs/leads.md asks of one."""

import base64
import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from standardwebhooks import Webhook

SECRET = "whsec_" + base64.b64encode(b"lead house secret, 32 bytes.....").decode()


def record(number: int, **more: Any) -> dict[str, Any]:
    known = {"city": "Austin", "province": "TX", "postal_code": "78701"}
    return {"id": f"r-{number}", "name": f"Person {number}", "address": f"{number} Oak St", **known, **more}


class LeadHouse:
    """Believes only what is signed. A reference that it knows is no other purchase. `answers` come first."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self.records = records
        self.searches: list[dict[str, Any]] = []
        self.purchases: dict[str, list[str]] = {}
        self.calls = 0
        self.answers: list[tuple[int, bytes]] = []
        house = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = house.answer(self.path, body, dict(self.headers.items()))
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        self.calls += 1
        given = {name.lower(): value for name, value in headers.items()}
        at = datetime.fromtimestamp(int(given["webhook-timestamp"]), UTC)  # the test's own time
        if Webhook(SECRET).sign(given["webhook-id"], at, body.decode()) != given["webhook-signature"]:
            return 401, b"{}"
        asked = json.loads(body)
        if self.answers:
            return self.answers.pop(0)
        if path == "/v1/search":
            self.searches.append(asked)
            return 200, json.dumps({"records": self.records[: asked["count"]]}).encode()
        if path == "/v1/purchases" and headers["Idempotency-Key"] == asked["reference"]:
            self.purchases.setdefault(asked["reference"], asked["ids"])
            return 200, b"{}"
        return 404, b"{}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
