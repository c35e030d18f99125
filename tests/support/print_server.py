"""A print partner on loopback that takes jobs over HTTP, as our documentation asks of one."""

import base64
import hashlib
import hmac
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from standardwebhooks import Webhook, WebhookVerificationError

SECRET = "whsec_" + base64.b64encode(b"print house secret, 32 bytes ...").decode()
PATH = re.compile(r"/press/jobs/(?P<reference>[a-z0-9-]+)(?:/(?P<file>[a-z.]+))?")


class PrintServer:
    """Believes only what is signed, for exactly this request. `answers` are given before its own, in turn;
    `breaks_off_at` names files in whose middle it hangs up, as often as they are named."""

    def __init__(self, secret: str = SECRET) -> None:
        self.secret = secret
        self.webhook = Webhook(secret)
        self.files: dict[str, dict[str, bytes]] = {}
        self.tickets: dict[str, dict[str, Any]] = {}
        self.progress: dict[str, Any] = {}
        self.answers: list[tuple[int, bytes]] = []
        self.breaks_off_at: list[str] = []
        self.asked: list[str] = []
        self.stamps: list[int] = []
        self.port = 0
        self._handler = type("Handler", (_Handler,), {"house": self})
        self._server: ThreadingHTTPServer | None = None
        self._thread = threading.Thread()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/press"

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), self._handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    house: PrintServer
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self._take("put")

    def do_GET(self) -> None:
        self._take("get")

    def _take(self, method: str) -> None:
        found = PATH.fullmatch(self.path)
        assert found is not None
        self.house.asked.append(f"{method} {self.path}")
        self.house.stamps.append(int(self.headers["webhook-timestamp"]))
        if found["file"] in self.house.breaks_off_at:
            self.house.breaks_off_at.remove(found["file"])
            self.rfile.read(10)
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, answer = self._judge(method, found["reference"], found["file"], body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        if 300 <= status < 400:
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.end_headers()
        self.wfile.write(answer)

    def _judge(self, method: str, reference: str, file: str | None, body: bytes) -> tuple[int, bytes]:
        house = self.house
        if house.answers:
            return house.answers.pop(0)
        named = f"{method}:{reference}" + (f"/{file}" if file else "")
        if not self._is_signed(body, is_json=method == "put" and file is None):
            return 401, b"This is not signed with our secret."
        if self.headers["webhook-id"] != named:
            return 401, b"This signature is for another request."
        if method == "get":
            known = reference in house.tickets
            return (200, json.dumps(house.progress).encode()) if known else (404, b"no such job")
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        if self.headers["Content-Digest"] != f"sha-256=:{digest}:":
            return 400, b"The digest does not fit."
        if file is not None:
            house.files.setdefault(reference, {})[file] = body
        else:
            house.tickets[reference] = json.loads(body)
        return 201, b""

    def _is_signed(self, body: bytes, *, is_json: bool) -> bool:
        """The library of the convention reads JSON alone; whatever else is signed is checked by hand."""
        if is_json:
            try:
                self.house.webhook.verify(body, dict(self.headers.items()))
            except WebhookVerificationError:
                return False
        key = base64.b64decode(self.house.secret.removeprefix("whsec_"))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
        genuine = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
        return f"v1,{genuine}" in self.headers["webhook-signature"].split()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tests are quiet."""
