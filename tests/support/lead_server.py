"""A provider of addresses on loopback, as docs/leads.md asks of one."""

import base64
import json
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
        super().__init__()
        self.records = records
        self.searches: list[dict[str, Any]] = []
        self.purchases: dict[str, list[str]] = {}
        self.calls = 0

    def handle(self, request: FakeRequest) -> FakeResponse:
        self.calls += 1
        at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)  # the test's own time
        if (
            Webhook(SECRET).sign(request.headers["webhook-id"], at, request.body.decode())
            != request.headers["webhook-signature"]
        ):
            return respond(401, {})
        content = json.loads(request.body)
        if self.answers:
            return self.answers.pop(0)
        if request.target == "/v1/search":
            self.searches.append(content)
            return respond(200, {"records": self.records[: content["count"]]})
        if request.target == "/v1/purchases" and request.headers["idempotency-key"] == content["reference"]:
            self.purchases.setdefault(content["reference"], content["ids"])
            return respond(200, {})
        return respond(404, {})
