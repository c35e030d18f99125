"""Mailing lists and their people, made for tests through the API."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import webhooks
from support.factories import Account, make_live, person

TAKEN = "This address is already on this mailing list."
NO_LIST = "Mailing List Does Not Exist"
NO_SUB_ACCOUNT = "Sub Account ID does not exist"


@dataclass(frozen=True)
class ListOwner:
    """Someone who keeps lists."""

    account: Account

    def make(self, description: str = "Visitors", **fields: Any) -> int:
        made = self.account.post("/mailing-lists", {"description": description} | fields)
        assert made.status_code == 201, made.text
        return int(made.json()["id"])

    def read(self, list_id: int) -> dict[str, Any]:
        found: dict[str, Any] = self.account.get(f"/mailing-lists/{list_id}").json()
        return found

    def add(self, list_id: int, **fields: Any) -> Response:
        """Jane Doe, but for the changes."""
        return self.account.post("/recipients", person(mailing_list_id=list_id) | fields)

    def add_email(self, list_id: int, email: str, **fields: Any) -> int:
        body = {"mailing_list_id": list_id, "email": email} | fields
        return int(self.account.post("/recipients", body).json()["id"])

    def fill(self, list_id: int, *streets: str) -> list[int]:
        rows = [person(mailing_list_id=list_id, address=street) for street in streets]
        return [row["id"] for row in self.account.post("/recipients_multi", rows).json()]

    def on(self, list_id: int) -> list[dict[str, Any]]:
        """Everyone on the list, as they were added."""
        found: list[dict[str, Any]] = self.account.get(f"/mailing-lists/{list_id}/recipients").json()["data"]
        return found

    def put(self, path: str, body: dict[str, Any]) -> Response:
        return self.account.call("PUT", path, json=body)

    def delete(self, path: str) -> Response:
        return self.account.call("DELETE", path)


def message(response: Response) -> tuple[int, str]:
    return response.status_code, response.json()["message"]


def field_errors(response: Response) -> dict[str, list[str]]:
    assert response.status_code == 422, response.text
    found: dict[str, list[str]] = response.json()["errors"]
    return found


def ids(rows: Iterable[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def recipients_of_order(
    container: Container, account: Account, list_id: int, *, status: str, mode: str = "test"
) -> int:
    """An order that was sent to this list and stands there."""
    order_id = int(account.send().json()["id"])
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.update(orders)
            .where(orders.c.id == order_id)
            .values(mailing_list_ids=[list_id], status=status, mode=mode)
        )
    return order_id


def subscribe_to_list(container: Container, account: Account, list_id: int, sub_account_id: int) -> list[int]:
    """Subscriptions to the list's events: in each mode the account's and the sub account's."""
    body = {"url": "https://example.com/hook", "type": "*", "mailing_list_id": list_id}
    made = [
        caller.post("/webhooks", body | {"sub_account_id": home})
        for caller in (account, make_live(container, account))
        for home in (None, sub_account_id)
    ]
    return [int(answer.json()["id"]) for answer in made]


def subscription_scopes(container: Container, hooks: Iterable[int]) -> list[tuple[int | None, int | None]]:
    """Of each subscription: its list and its sub account."""
    with container.db.system_transaction() as tx:
        found = tx.execute(
            sa.select(webhooks.c.mailing_list_id, webhooks.c.sub_account_id)
            .where(webhooks.c.id.in_(list(hooks)))
            .order_by(webhooks.c.id)
        )
        return [(list_id, home) for list_id, home in found]
