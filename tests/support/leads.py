"""A street of houses that can be searched and bought, and a provider of addresses, as docs/leads.md asks of one."""

import base64
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook

from quillpost.app.container import Container
from quillpost.core.database.tables.recipients import lead_purchases, lead_sources, leads
from quillpost.recipients.leads.files import LeadRow
from quillpost.recipients.leads.imports import replace_source_rows
from support.factories import postcard
from support.fake_server import FakeRequest, FakeResponse, FakeServer, respond

CENTRE = "100 Sample Oak St, Austin, TX 78701"
TABLES = leads, lead_sources, lead_purchases


def make_address(number: int, **more: str) -> dict[str, str]:
    """The first is number 100; the next, 101, is some forty metres farther on."""
    return {
        "lat": f"{30.27 + (number - 100) * 0.0004:.6f}", "lon": "-97.74", "number": str(number),
        "street": "Sample Oak St", "city": "Austin", "region": "TX", "postcode": "78701",
        "name": f"Sample Resident {number}", **more,
    }  # fmt: skip


def store_addresses(container: Container, houses: list[dict[str, str]], *, live: bool = False) -> None:
    """Put them into the table: for testing mode, or as an operator's own for live."""
    rows = [LeadRow(place, fields) for place, fields in enumerate(houses, start=1)]
    source = "county" if live else "sample"
    replace_source_rows(container.db, rows, source=source, country="US", is_sample=not live, now=container.clock())


def radius_search(count: int, **more: Any) -> dict[str, Any]:
    return {"address": CENTRE, "record_count": count, **more}


def card(**changes: Any) -> dict[str, Any]:
    """A good postcard to whom the changes say."""
    return postcard(recipients=None, **changes)


def radius_card(count: int, /, **changes: Any) -> dict[str, Any]:
    """To those around, but for the changes to the search."""
    return card(radius_search=radius_search(count, **changes))


def once_card(count: int, /, **changes: Any) -> dict[str, Any]:
    """To nobody again so soon."""
    return radius_card(count, **changes) | {"allow_duplicates": False}


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
