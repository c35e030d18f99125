"""A gateway to a licensed address service, on loopback, as our documentation asks of one."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

KEY = "a key of the gateway"


class VerifyHouse:
    """Knows of a street what it is told in `knows` and `finds`; all others it delivers to. `answers` are
    given before its own, in turn."""

    def __init__(self) -> None:
        self.knows: dict[str, dict[str, Any]] = {}
        self.finds: dict[str, dict[str, Any]] = {}
        self.answers: list[tuple[int, bytes]] = []
        self.asked: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, str]]] = []
        handler = type("Handler", (_Handler,), {"house": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/gateway"

    @property
    def settings(self) -> dict[str, Any]:
        return {"verifier": self.url, "verifier_key": KEY}

    @property
    def streets(self) -> list[str]:
        """What it was asked about, call after call."""
        return [question["address"] for question in self.asked if "address" in question]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        self.calls.append((path, headers))
        if self.answers:
            return self.answers.pop(0)
        if headers.get("Authorization") != f"Bearer {KEY}":
            return 401, b"{}"
        told = json.loads(body)
        questions = told["addresses" if path.endswith("/verify") else "people"]
        self.asked += questions
        said = [self._of(question) for question in questions]
        return 200, json.dumps({"answers": [answer for answer in said if answer]}).encode()

    def _of(self, question: dict[str, Any]) -> dict[str, Any] | None:
        if "email" in question:
            found = self.finds.get(question["email"])
            return found and {"id": question["id"], "address": found}
        return {"id": question["id"]} | self.knows.get(question["address"], {"dpv": "Y"})


class _Handler(BaseHTTPRequestHandler):
    house: VerifyHouse

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, answer = self.house.answer(self.path, dict(self.headers), body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Nothing on the standard error."""


def place_of(street: str, city: str = "DALLAS", code: str = "75201-0001") -> dict[str, Any]:
    return {"address": street, "address2": None, "city": city, "state": "TX", "zip": code}
