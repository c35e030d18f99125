"""Houses that issue gift cards, on loopback, as Tremendous and Tango document theirs."""

import base64
import threading
from abc import abstractmethod
from collections.abc import Mapping
from itertools import count
from typing import Any
from urllib.parse import parse_qs

from support.fake_server import FakeRequest, FakeResponse, FakeServer, Route, respond

TREMENDOUS_KEY = "TEST_key-of-tremendous"
TANGO_KEY = "QuillpostTest:key-of-tango"
FUNDING_SOURCE, CUSTOMER, ACCOUNT = "GCTHLCMFVYMD", "quillpost", "cards"
SOURCE = {"method": "balance", "id": FUNDING_SOURCE, "status": "active"}


class GiftcardServer(FakeServer):
    """Makes a card for each reference, once. Of the next `lost` it makes the card and hangs up; while `is_silent` it
    says nothing."""

    authorization: str

    def __init__(self, routes: Mapping[str, Route]) -> None:
        super().__init__(routes)
        self.orders: dict[str, dict[str, Any]] = {}
        self.lost = 0
        self.is_silent = False
        self._numbers = count(1)
        self._lock = threading.Lock()

    @property
    @abstractmethod
    def secrets(self) -> list[str]:
        """All that nobody but whoever claims may see."""

    def handle(self, request: FakeRequest) -> FakeResponse | None:
        if self.is_silent:
            self.closing.wait()
            return None
        with self._lock:
            if not self.answers and request.headers.get("authorization") != self.authorization:
                return respond(401, {"errors": {"message": "Unauthorized access"}})
            is_lost = not self.answers and request.method == "POST" and self.lost > 0
            self.lost -= is_lost
            answer = super().handle(request)
            return None if is_lost else answer

    def number(self) -> str:
        return f"{next(self._numbers):06d}"


class TremendousServer(GiftcardServer):
    """`status` is that of new orders; a reward can be cancelled while `cancels`, and has its link at once
    unless it `links_later`."""

    authorization = f"Bearer {TREMENDOUS_KEY}"

    def __init__(self) -> None:
        routes: dict[str, Route] = {
            "POST /api/v2/orders": self._order,
            "GET /api/v2/orders": self._find,
            "POST /api/v2/rewards/{id}/generate_link": self._link,
            "POST /api/v2/rewards/{id}/cancel": self._cancel,
            "GET /api/v2/funding_sources": lambda _: respond(200, {"funding_sources": [SOURCE]}),
        }
        super().__init__(routes)
        self.status, self.cancels, self.links_later = "EXECUTED", True, False

    @property
    def secrets(self) -> list[str]:
        return [_link(order) for order in self.orders.values()]

    def _find(self, request: FakeRequest) -> FakeResponse:
        found = self.orders.get(_parameter(request, "external_id"))
        return respond(200, {"orders": [found] if found else [], "total_count": int(found is not None)})

    def _link(self, _: FakeRequest, id_: str) -> FakeResponse:
        return respond(200, {"reward": {"id": id_, "link": _link(self._by_reward(id_))}})

    def _cancel(self, _: FakeRequest, id_: str) -> FakeResponse:
        if not self.cancels:
            return respond(422, {"errors": {"message": "Only rewards with a delivery failure"}})
        self._by_reward(id_)["status"] = "CANCELED"
        return respond(200, {})

    def _order(self, request: FakeRequest) -> FakeResponse:
        content = request.json()
        reference, reward = content["external_id"], content["reward"]
        if reference in self.orders:
            return respond(201, {"order": self._shown(self.orders[reference])})
        assert content["payment"] == {"funding_source_id": FUNDING_SOURCE}
        assert (reward["delivery"], reward["value"]["currency_code"]) == ({"method": "LINK"}, "USD")
        if reward["products"] == ["UNKNOWN"]:
            return respond(422, {"errors": {"message": "Order failed", "payload": {"products": "unknown"}}})
        number = self.number()
        made = {"id": f"RW{number}", "order_id": f"OR{number}", "value": reward["value"]}
        made["delivery"] = {"method": "LINK", "status": "SUCCEEDED"}
        self.orders[reference] = {
            "id": f"OR{number}", "external_id": reference, "status": self.status, "rewards": [made],
        }  # fmt: skip
        return respond(200, {"order": self._shown(self.orders[reference])})

    def _shown(self, order: dict[str, Any]) -> dict[str, Any]:
        if self.links_later or order["status"] != "EXECUTED":
            return order
        [reward] = order["rewards"]
        delivery = reward["delivery"] | {"link": _link(order)}
        return order | {"rewards": [reward | {"delivery": delivery}]}

    def _by_reward(self, id_: str) -> dict[str, Any]:
        return next(order for order in self.orders.values() if order["rewards"][0]["id"] == id_)


class TangoServer(GiftcardServer):
    """A reference that it knows is answered with the first order; while `is_late` it has no card yet."""

    authorization = f"Basic {base64.b64encode(TANGO_KEY.encode()).decode()}"

    def __init__(self) -> None:
        routes: dict[str, Route] = {
            "POST /raas/v2/orders": self._order,
            "GET /raas/v2/orders": self._find,
            "GET /raas/v2/orders/{id}": lambda _, id_: respond(200, self._shown(id_)),
            f"GET /raas/v2/accounts/{ACCOUNT}": lambda _: respond(
                200, {"accountIdentifier": ACCOUNT, "currentBalance": 100.0}
            ),
        }
        super().__init__(routes)
        self.is_late = False

    @property
    def secrets(self) -> list[str]:
        made = (order["reward"]["credentialList"] for order in self.orders.values())
        return [credential["value"] for each in made for credential in each]

    def _find(self, request: FakeRequest) -> FakeResponse:
        found = self.orders.get(_parameter(request, "externalRefID"))
        brief = {name: value for name, value in (found or {}).items() if name != "reward"}
        return respond(200, {"page": {"number": 0}, "orders": [brief] if found else []})

    def _order(self, request: FakeRequest) -> FakeResponse:
        content = request.json()
        reference = content["externalRefID"]
        if reference in self.orders:
            return respond(200, self._shown(self.orders[reference]["referenceOrderID"]))
        assert (content["customerIdentifier"], content["accountIdentifier"]) == (CUSTOMER, ACCOUNT)
        assert content["sendEmail"] is False
        if content["utid"] == "UNKNOWN":
            return respond(422, {"httpCode": 422, "errors": [{"path": "utid"}]})
        number = self.number()
        credentials = [
            {"label": "Gift Code", "value": f"TANGO-{number}-SECRET", "type": "text"},
            {"label": "PIN", "value": f"9{number}", "type": "text"},
        ]
        self.orders[reference] = {
            "referenceOrderID": f"RA{number[:3]}-{number[3:]}", "externalRefID": reference,
            "status": "COMPLETE", "denomination": {"value": content["amount"], "currencyCode": "USD"},
            "reward": {"credentialList": credentials},
        }  # fmt: skip
        return respond(201, self._shown(self.orders[reference]["referenceOrderID"]))

    def _shown(self, id_: str) -> dict[str, Any]:
        order = next(order for order in self.orders.values() if order["referenceOrderID"] == id_)
        if not self.is_late:
            return order
        return {name: value for name, value in order.items() if name != "reward"} | {"status": "PENDING"}


def _link(order: dict[str, Any]) -> str:
    return f"https://reward.example/r/{order['id']}-SECRET"


def _parameter(request: FakeRequest, name: str) -> str:
    return parse_qs(request.query)[name][0]
