"""A sender with a subscription, over a database and a home that worker processes share with the test."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.settings import Settings
from quillpost.web.application import create_app
from support.event_receiver import EventReceiver, ReceivedEvent
from support.factories import Account, make_account
from support.processes import FAST, until
from support.test_client import TestClient

RENEW = sa.text("update webhook_lanes set leased_until = now() where leased_by is not null")
IN_FLIGHT = sa.text(
    """select d.event_id::text from deliveries d join webhook_lanes l on l.webhook_id = d.webhook_id
        where d.status = 'pending' and l.leased_by is not null"""
)
UNFINISHED = sa.text(
    """select (select count(*) from orders where status not in ('fulfilled', 'cancelled'))
            + (select count(*) from batches where status <> 'mailed')
            + (select count(*) from fact_queue)
            + (select count(*) from deliveries where status <> 'delivered')
            + (select count(*) from procrastinate_jobs where status = 'doing')"""
)

STANDING = {
    "orders": "select id, status, recipient_count, n_processing, pool_at, audience_pending from orders",
    "items": "select order_id, status, count(*) from items where not is_over group by 1, 2",
    "batches": "select id, status, partner, trouble from batches",
    "facts": "select count(*) from fact_queue",
    "deliveries": "select id, attempts, next_at, error from deliveries where status <> 'delivered'",
    "jobs": """select id, task_name, status::text, args::text, attempts, scheduled_at
                 from procrastinate_jobs where status in ('todo', 'doing', 'failed')""",
}


@dataclass(frozen=True)
class SenderService:
    container: Container
    sender: Account
    receiver: EventReceiver
    settings: dict[str, str]
    path: str

    @property
    def files(self) -> Path:
        return Path(self.settings["QUILLPOST_HOME"]) / "files"

    def received(self) -> list[ReceivedEvent]:
        return self.receiver.at(self.path)

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        with self.container.db.system_transaction() as tx:
            return [tuple(row) for row in tx.execute(sa.text(query), values)]

    def value(self, query: str, **values: Any) -> Any:
        return self.rows(query, **values)[0][0]

    def let_leases_end(self) -> list[str]:
        """As if the time had passed for which a dead worker's deliveries are waited for; the ids of
        events that may have been told."""
        with self.container.db.system_transaction() as tx:
            in_flight = list(tx.execute(IN_FLIGHT).scalars())
            tx.execute(RENEW)
        return in_flight

    def wait_for_the_end(self) -> None:
        until(self.has_ended, what="all orders ended and all events delivered")

    def has_ended(self) -> bool:
        """Whether every order has, every batch is mailed, the carrier is silent and everyone was told."""
        in_the_mail = self.container.storage.store.keys("sandbox/")
        return self.value(UNFINISHED.text) == 0 and next(in_the_mail, None) is None

    def standing(self) -> str:
        """Where everything is, for whoever asks why it does not end."""
        seen = {name: self.rows(f"{query} order by 1") for name, query in STANDING.items()}
        seen["files"] = [(key,) for key in self.container.storage.store.keys("sandbox/")]
        return "\n".join(f"{name}: {row}" for name, rows in seen.items() for row in rows)

    def statuses(self) -> dict[int, list[str]]:
        """The statuses that each item passed through, in order, as its facts have them."""
        passed: dict[int, list[str]] = {}
        for item, status in self.rows("select item_id, current from facts where item_id is not null order by id"):
            passed.setdefault(item, []).append(status)
        return passed

    def books(self, order_id: int | None = None) -> dict[str, int]:
        """What stands in each book, of one order or of all."""
        books: Counter[str] = Counter()
        for source, target, cents in self.rows(
            "select source, target, cents from ledger_moves where order_id = coalesce(:order_id, order_id)",
            order_id=order_id,
        ):
            books[source] -= cents
            books[target] += cents
        return dict(books)


@contextmanager
def open_sender_service(conninfo: str, home: Path, receiver: EventReceiver, **settings: str) -> Iterator[SenderService]:
    """The sender's calls are answered in the test's own process; the work waits for a worker."""
    environment = {**FAST, "QUILLPOST_HOME": str(home), "QUILLPOST_DATABASE_URL": conninfo, **settings}
    chosen = {name.removeprefix("QUILLPOST_").lower(): value for name, value in environment.items()}
    container = bootstrap.build_container(Settings.model_validate(chosen), conninfo)
    path = f"/{home.name}"
    try:
        with TestClient(create_app(container), base_url="http://quillpost.test") as http:
            sender = make_account(container, http, "owner@example.com")
            subscribed = sender.post("/webhooks", {"url": receiver.url(path), "type": "*"})
            assert subscribed.status_code == 201, subscribed.text
            yield SenderService(container, sender, receiver, environment, path)
    finally:
        container.db.close()
