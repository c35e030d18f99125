"""A provider of addresses on loopback, as docs/leads.md asks of one."""

import base64
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook

from support.fake_server import FakeRequest, FakeResponse, FakeServer, respond

SECRET = "whsec_" + base64.b64encode(b"lead house secret, 32 bytes.....").decode()


def record(number: int, **more: Any) -> dict[str, Any]:
    known = {"city": "Austin", "province": "TX", "postal_code": "78701"}
    return {"id": f"r-{number}", "name": f"Person {number}", "address": f"{number} Oak St", **known, **more}


class LeadServer(FakeServer):
    """Believes only what is signed. A reference that it knows is no other purchase."""

    path = "/v1"

    def __init__(self, records: list[dict[str, Any]]) -> None:
        super().__init__({"POST /v1/search": self._search, "POST /v1/purchases": self._sell})
        self.records = records
        self.searches: list[dict[str, Any]] = []
        self.purchases: dict[str, list[str]] = {}

    def handle(self, request: FakeRequest) -> FakeResponse | None:
        at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)  # the test's own time
        genuine = Webhook(SECRET).sign(request.headers["webhook-id"], at, request.body.decode())
        return super().handle(request) if genuine == request.headers["webhook-signature"] else respond(401, {})

    def _search(self, request: FakeRequest) -> FakeResponse:
        self.searches.append(request.json())
        return respond(200, {"records": self.records[: request.json()["count"]]})

    def _sell(self, request: FakeRequest) -> FakeResponse:
        purchase = request.json()
        if request.headers["idempotency-key"] != purchase["reference"]:
            return respond(404, {})
        self.purchases.setdefault(purchase["reference"], purchase["ids"])
        return respond(200, {})
