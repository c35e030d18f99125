"""A gateway to a licensed address service, on loopback, as our documentation asks of one."""

import json
from collections.abc import Mapping
from typing import Any

from support.fake_server import FakeRequest, FakeResponse, FakeServer, respond

KEY = "a key of the gateway"


class VerificationServer(FakeServer):
    """Knows of a street what it is told in `knows` and `finds`; all others it delivers to."""

    path = "/gateway"

    def __init__(self) -> None:
        super().__init__()
        self.knows: dict[str, dict[str, Any]] = {}
        self.finds: dict[str, dict[str, Any]] = {}
        self.requests: list[dict[str, Any]] = []
        self.calls: list[tuple[str, Mapping[str, str]]] = []

    @property
    def settings(self) -> dict[str, Any]:
        return {"verifier": self.url, "verifier_key": KEY}

    @property
    def streets(self) -> list[str]:
        """What it was asked about, call after call."""
        return [question["address"] for question in self.requests if "address" in question]

    def handle(self, request: FakeRequest) -> FakeResponse:
        self.calls.append((request.target, request.headers))
        if self.answers:
            return self.answers.pop(0)
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return respond(401, {})
        content = json.loads(request.body)
        questions = content["addresses" if request.target.endswith("/verify") else "people"]
        self.requests += questions
        found = [self._of(question) for question in questions]
        return respond(200, {"answers": [answer for answer in found if answer]})

    def _of(self, question: dict[str, Any]) -> dict[str, Any] | None:
        if "email" in question:
            found = self.finds.get(question["email"])
            return found and {"id": question["id"], "address": found}
        return {"id": question["id"]} | self.knows.get(question["address"], {"dpv": "Y"})


def place_of(street: str, city: str = "DALLAS", code: str = "75201-0001") -> dict[str, Any]:
    return {"address": street, "address2": None, "city": city, "state": "TX", "zip": code}
