"""What must be true once all orders have ended, whatever they were and whatever happened on their way."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pikepdf

from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.orders.rules import FINAL_STATUSES, NEXT_STATUSES, ItemStatus
from support.sender_office import SenderService

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
