"""A sender with a subscription, over a database and a home that processes share with the test, and what must be true
once all orders have ended, whatever happened on their way."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pikepdf
import sqlalchemy as sa

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.orders.rules import FINAL_STATUSES, NEXT_STATUSES, ItemStatus
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


ORDERS = """
    select id, status, order_total, recipient_count, n_over, {counts} from orders order by id
"""
ITEMS = "select id, order_id, status, is_over, price_cents from items order by id"
FACTS = """
    select item_id, previous, current, inferred from facts where item_id is not null order by id
"""
# A periodic job may be at work while we look.
LEFTOVER_JOBS = """
    select task_name, status::text from procrastinate_jobs
     where status = 'failed' or status = 'doing' and not args ? 'timestamp'
"""
PRINTS = "select batch_id, position, item_id, superseded, tracking from prints order by batch_id, position"


def assert_all_ended_once(sender_service: SenderService) -> None:
    _assert_pieces_ended(sender_service)
    _assert_orders_ended(sender_service)
    _assert_on_paper_once(sender_service)
    _assert_no_orphans(sender_service)
    assert sender_service.rows(LEFTOVER_JOBS) == []


# Pieces and orders


def _assert_pieces_ended(sender_service: SenderService) -> None:
    """Each went along allowed steps to one end; of a cancelled order one fact tells for all its pieces."""
    changes = defaultdict(list)
    for item, previous, current, inferred in sender_service.rows(FACTS):
        changes[item].append((previous, current, inferred))
    cancelled = {order for (order,) in sender_service.rows("select id from orders where status = 'cancelled'")}
    for item, order, status, is_over, _ in sender_service.rows(ITEMS):
        way = changes[item]
        assert [previous for previous, _, _ in way] == [None, *(current for _, current, _ in way[:-1])]
        for (_, before, was_inferred), (_, after, _) in pairwise(way):
            # A delivery that nobody saw may turn out to be a return.
            is_corrected = was_inferred and after == ItemStatus.RETURNED_TO_SENDER
            assert is_corrected or ItemStatus(after) in NEXT_STATUSES[ItemStatus(before)], way
        assert is_over or status in FINAL_STATUSES, f"item {item} is {status}: {way}"
        assert order in cancelled or way[-1][1] == status
        if order in cancelled:
            assert status == ItemStatus.FAILED


def _assert_orders_ended(sender_service: SenderService) -> None:
    """Counters are a count, and the money is where the pieces say, to the cent."""
    counts = ", ".join(f"n_{status.count_name}" for status in ItemStatus)
    items = defaultdict(list)
    for _, order, status, is_over, cents in sender_service.rows(ITEMS):
        items[order].append((status, is_over, cents))
    for order, status, total, recipients, over, *status_counts in sender_service.rows(ORDERS.format(counts=counts)):
        pieces = items[order]
        counted = Counter(status for status, _, _ in pieces)
        assert status in ("fulfilled", "cancelled")
        assert status_counts == [counted[status.value] for status in ItemStatus]
        assert (recipients, over) == (len(pieces), sum(is_over for _, is_over, _ in pieces))
        earned = sum(cents for status, _, cents in pieces if status != ItemStatus.FAILED)
        books = Counter(sender_service.books(order))
        assert (books["credit"], books["held"], books["earned"]) == (-earned, 0, earned)
        assert total == earned
    assert sum(sender_service.books().values()) == 0


# Paper


def _assert_on_paper_once(sender_service: SenderService) -> None:
    """Each piece that was printed counts in one batch, and lies in that batch's job at its page."""
    rows = sender_service.rows(PRINTS)
    counting = Counter(item for _, _, item, superseded, _ in rows if not superseded)
    assert set(counting.values()) <= {1}
    assert set(counting) == {item for _, _, item, _, _ in rows}
    codes = [code for *_, code in rows if code is not None]
    assert len(codes) == len(set(codes))
    lies = defaultdict(list)
    for batch, position, item, _, code in rows:
        lies[batch].append((position, item, code))
    batches = sender_service.rows("select id, status, item_count from batches order by id")
    assert {status for _, status, _ in batches} <= {"mailed"}
    for batch, _, item_count in batches:
        assert item_count == len(lies[batch])
        if lies[batch]:
            _assert_printed(sender_service.files / "print-jobs" / "test" / batch_reference(batch), lies[batch])


def _assert_printed(job: Path, expected: list[tuple[Any, ...]]) -> None:
    pieces = json.loads((job / "manifest.json").read_text())["pieces"]
    assert [(piece["position"], piece["item_id"], piece["tracking"]) for piece in pieces] == expected
    pages = [(piece["first_page"], piece["last_page"]) for piece in pieces]
    assert pages[0][0] == 1
    assert all(after[0] == before[1] + 1 for before, after in pairwise(pages))
    with pikepdf.open(job / "print.pdf") as printed:
        assert len(printed.pages) == pages[-1][1]
    if (job / "envelopes.pdf").exists():
        assert [piece["envelope_page"] for piece in pieces] == list(range(1, len(pieces) + 1))
        with pikepdf.open(job / "envelopes.pdf") as envelopes:
            assert len(envelopes.pages) == len(pieces)


# Files


def _assert_no_orphans(sender_service: SenderService) -> None:
    """Every file is one that the database speaks of, and the other way round."""
    known = {
        f"batches/{batch}/{name}": (size, bytes(digest))
        for batch, name, size, digest in sender_service.rows("select batch_id, name, size, sha256 from batch_files")
    }
    assert {key: _measure(path) for key, path in _below(sender_service.files, "batches")} == known
    jobs = sender_service.files / "print-jobs" / "test"
    handed = sender_service.rows("select id from batches where handed_at is not null order by id")
    assert sorted(job.name for job in jobs.iterdir()) == [batch_reference(batch) for (batch,) in handed]
    for key, (size, digest) in known.items():
        _, batch, name = key.split("/")
        assert _measure(jobs / batch_reference(int(batch)) / name) == (size, digest)
    assert list(_below(sender_service.files, "sandbox")) == list(_below(sender_service.files, "tracking")) == []


def _below(files: Path, folder: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((files / folder).rglob("*")):
        if path.is_file():
            yield path.relative_to(files).as_posix(), path


def _measure(path: Path) -> tuple[int, bytes]:
    data = path.read_bytes()
    return len(data), hashlib.sha256(data).digest()


ITEM_WAY = ["Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered"]
UNREPORTED = "select count(*) from facts f where not exists (select 1 from deliveries d where d.fact_id = f.id)"
ORDER_WAY = ["reviewing", "processing", "printing", "mailed", "fulfilled"]


def assert_all_happened_once(
    sender_service: SenderService, *, pieces: int, in_flight: Sequence[str], deaths: int = 1
) -> None:
    """One order, one batch. `in_flight`: the events that dead workers had taken and not recorded."""
    assert list(sender_service.statuses().values()) == [ITEM_WAY] * pieces
    statuses = sender_service.rows("select current from facts where item_id is null order by id")
    assert [status for (status,) in statuses] == ORDER_WAY
    assert sender_service.rows("select status, item_count from batches") == [("mailed", pieces)]
    assert_all_ended_once(sender_service)
    _assert_paid_once(sender_service)
    _assert_notified(sender_service, pieces, in_flight, deaths)
    assert sender_service.value("select count(*) from procrastinate_jobs where status in ('failed', 'doing')") == 0


def _assert_paid_once(sender_service: SenderService) -> None:
    total = sender_service.value("select order_total from orders")
    assert sender_service.rows("select kind, cents from ledger_moves order by id") == [
        ("authorise", total),
        ("capture", total),
    ]
    assert sender_service.books() == {"credit": -total, "held": 0, "earned": total}


def _assert_notified(sender_service: SenderService, pieces: int, in_flight: Sequence[str], deaths: int) -> None:
    times = assert_all_events_arrived(sender_service, in_flight=in_flight)
    assert len(times) == len(ORDER_WAY) + pieces * (len(ITEM_WAY) + 1)
    assert max(times.values()) <= 1 + deaths


def assert_all_events_arrived(sender_service: SenderService, *, in_flight: Sequence[str]) -> Counter[str]:
    """Every event at least once; again only what may have been sent already, with its id and words."""
    assert sender_service.value(UNREPORTED) == 0
    times = Counter(event.id for event in sender_service.received())
    assert set(times) == {event for (event,) in sender_service.rows("select event_id::text from deliveries")}
    assert {event for event, count in times.items() if count > 1} <= set(in_flight)
    assert len({(event.id, event.body) for event in sender_service.received()}) == len(times)
    return times
