"""Automations, made for tests through the API, and run by the jobs that workers run."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from httpx2 import Response

from quillpost.app import tasks as app_tasks
from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import automation_sent, automations
from quillpost.fulfillment.qr_scans.rules import VisitorKind
from support.factories import Account, Clock
from support.mailing_lists import ListOwner
from support.qr_scans import count_scans, record_scans

SEND: dict[str, Any] = {"piece": "postcard", "message": "Hi %FIRST_NAME|friend%, welcome!"}


def plan(list_id: int | None = None, **changes: Any) -> dict[str, Any]:
    """A good body: whoever comes onto the list is welcomed."""
    known = {"name": "Welcome", "trigger": "list_entry", "mailing_list_id": list_id, "send": SEND}
    return {**known, "enabled": True, **changes}


def birthday(list_id: int, **changes: Any) -> dict[str, Any]:
    return plan(list_id, **{"name": "Birthdays", "trigger": "date", "date_field": "dob", **changes})


@dataclass(frozen=True)
class AutomationDriver:
    """Someone who has things sent."""

    account: Account
    container: Container
    clock: Clock

    @property
    def lists(self) -> ListOwner:
        return ListOwner(self.account)

    def make(self, body: dict[str, Any]) -> int:
        made = self.account.post("/automations", body)
        assert made.status_code == 201, made.text
        return int(made.json()["id"])

    def welcome(self, *streets: str, **changes: Any) -> tuple[int, int]:
        """An automation for whoever comes onto a new list, and that list, onto which some have come."""
        made = self.make(plan(visitors := self.lists.make(), **changes))
        if streets:
            self.lists.fill(visitors, *streets)
        return made, visitors

    def read(self, automation_id: int) -> dict[str, Any]:
        found: dict[str, Any] = self.account.get(f"/automations/{automation_id}").json()
        return found

    def put(self, automation_id: int, **changes: Any) -> Response:
        return self.account.put(f"/automations/{automation_id}", changes)

    def work(self) -> None:
        """What a minute of a worker does."""
        run(self.container, "automations.find_due_dates_periodic", "automations.send_due_periodic")

    def work_of_sending(self) -> None:
        run(self.container, "automations.send_due_periodic")

    def row(self, automation_id: int) -> sa.Row[Any]:
        with self.container.db.system_transaction() as tx:
            return tx.execute(sa.select(automations).where(automations.c.id == automation_id)).one()

    def pass_days(self, days: int) -> None:
        """A day at a time, with a worker at work."""
        for _ in range(days):
            self.clock.advance(days=1)
            self.work()

    def orders(self) -> list[dict[str, Any]]:
        """Oldest first."""
        found: list[dict[str, Any]] = self.account.get("/orders").json()["data"]
        return found[::-1]

    def mailed(self) -> list[list[str]]:
        """Of each order, oldest first, the names on its pieces that were not refused."""
        return [
            [item["recipient"]["name"] for item in self.items(order["id"]) if item["failure"] is None]
            for order in self.orders()
        ]

    def items(self, order_id: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.account.get(f"/orders/{order_id}/items?items_per_page=100").json()["data"]
        return sorted(found, key=lambda item: int(item["id"]))


def run(container: Container, *names: str) -> None:
    """Periodic tasks, once each, as a worker runs them."""
    tasks = {task.name: task for task in app_tasks.build_tasks(container)}
    for name in names:
        tasks[name].run()


def scan(container: Container, item_id: int, *, kind: VisitorKind = "person") -> None:
    """The piece is scanned, and that is counted."""
    record_scans(container, item_id, kind=kind)
    assert count_scans(container) == 1


def stored_progress(container: Container, automation_id: int) -> list[tuple[str, int]]:
    """Who was taken care of, and for which year."""
    with container.db.system_transaction() as tx:
        rows = tx.execute(
            sa.select(automation_sent.c.person_key, automation_sent.c.year)
            .where(automation_sent.c.automation_id == automation_id)
            .order_by(automation_sent.c.year, automation_sent.c.person_key)
        )
        return [(row.person_key, row.year) for row in rows]
