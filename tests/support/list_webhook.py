"""A mailing list and the address at which other services put people on it."""

from dataclasses import dataclass
from typing import Any

from httpx2 import Response

from support.factories import Account
from support.mailing_lists import ListOwner
from support.test_client import TestClient


@dataclass(frozen=True)
class ListWebhook:
    lister: ListOwner
    list_id: int
    key: str

    @property
    def path(self) -> str:
        return f"/hooks/lists/{self.key}"

    @property
    def http(self) -> TestClient:
        return self.lister.account.http

    def send(self, body: Any, query: str = "") -> Response:
        """As JSON; nobody's token is with it."""
        return self.http.post(self.path + query, json=body)

    def send_raw(self, body: bytes, kind: str) -> Response:
        return self.http.post(self.path, content=body, headers={"Content-Type": kind} if kind else {})

    def rows(self, body: Any) -> list[dict[str, Any]]:
        answer = self.send(body)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()
        return found

    def results(self, body: Any) -> list[str]:
        return [row["result"] for row in self.rows(body)]

    def people(self) -> list[dict[str, Any]]:
        return self.lister.on(self.list_id)


def create_list_webhook(account: Account, description: str = "Visitors", **fields: Any) -> ListWebhook:
    lister = ListOwner(account)
    list_id = lister.make(description, **fields)
    return ListWebhook(lister, list_id, lister.read(list_id)["api_key"])
