"""A gateway to a licensed address service, on loopback, as our documentation asks of one."""

from collections.abc import Iterable
from typing import Any

from support.fake_server import FakeRequest, FakeResponse, FakeServer, respond

KEY = "a key of the gateway"


class VerificationServer(FakeServer):
    """Knows of a street what it is told in `knows` and `finds`; all others it delivers to."""

    path = "/gateway"

    def __init__(self) -> None:
        super().__init__({"POST /gateway/verify": self._verify, "POST /gateway/append": self._append})
        self.knows: dict[str, dict[str, Any]] = {}
        self.finds: dict[str, dict[str, Any]] = {}
        self.questions: list[dict[str, Any]] = []

    @property
    def settings(self) -> dict[str, Any]:
        return {"verifier": self.url(), "verifier_key": KEY}

    @property
    def streets(self) -> list[str]:
        """What it was asked about, call after call."""
        return [question["address"] for question in self.questions if "address" in question]

    def handle(self, request: FakeRequest) -> FakeResponse | None:
        is_known = self.answers or request.headers.get("authorization") == f"Bearer {KEY}"
        return super().handle(request) if is_known else respond(401, {})

    def _verify(self, request: FakeRequest) -> FakeResponse:
        asked = self._noted(request.json()["addresses"])
        return self._respond({"id": each["id"]} | self.knows.get(each["address"], {"dpv": "Y"}) for each in asked)

    def _append(self, request: FakeRequest) -> FakeResponse:
        asked = self._noted(request.json()["people"])
        found = ((each["id"], self.finds.get(each["email"])) for each in asked)
        return self._respond({"id": id_, "address": address} for id_, address in found if address)

    def _noted(self, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self.questions += questions
        return questions

    def _respond(self, answers: Iterable[dict[str, Any]]) -> FakeResponse:
        return respond(200, {"answers": list(answers)})


def place_of(street: str, city: str = "DALLAS", code: str = "75201-0001") -> dict[str, Any]:
    return {"address": street, "address2": None, "city": city, "state": "TX", "zip": code}
