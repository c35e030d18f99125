"""What must be true once all orders have ended, whatever they were and whatever happened on their way."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pikepdf
from office import Office

from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.orders.rules import FINAL_STATUSES, NEXT_STATUSES, ItemStatus

ORDERS = """
    select id, status, order_total, recipient_count, n_over, {counts} from orders order by id
"""
ITEMS = "select id, order_id, status, is_over, price_cents from items order by id"
FACTS = """
    select item_id, previous, current, inferred from facts where item_id is not null order by id
"""
# A periodic job may be at work while we look.
LEFT_LYING = """
    select task_name, status::text from procrastinate_jobs
     where status = 'failed' or status = 'doing' and not args ? 'timestamp'
"""
PRINTS = "select batch_id, position, item_id, superseded, tracking from prints order by batch_id, position"


def assert_all_ended_once(office: Office) -> None:
    _assert_pieces_ended(office)
    _assert_orders_ended(office)
    _assert_on_paper_once(office)
    _assert_no_orphans(office)
    assert office.rows(LEFT_LYING) == []


# Pieces and orders


def _assert_pieces_ended(office: Office) -> None:
    """Each went along allowed steps to one end; of a cancelled order one fact tells for all its pieces."""
    told = defaultdict(list)
    for item, previous, current, inferred in office.rows(FACTS):
        told[item].append((previous, current, inferred))
    cancelled = {order for (order,) in office.rows("select id from orders where status = 'cancelled'")}
    for item, order, status, is_over, _ in office.rows(ITEMS):
        way = told[item]
        assert [previous for previous, _, _ in way] == [None, *(current for _, current, _ in way[:-1])]
        for (_, before, was_inferred), (_, after, _) in pairwise(way):
            # A delivery that nobody saw may turn out to be a return.
            is_corrected = was_inferred and after == ItemStatus.RETURNED_TO_SENDER
            assert is_corrected or ItemStatus(after) in NEXT_STATUSES[ItemStatus(before)], way
        assert is_over or status in FINAL_STATUSES, f"item {item} is {status}: {way}"
        assert order in cancelled or way[-1][1] == status
        if order in cancelled:
            assert status == ItemStatus.FAILED


def _assert_orders_ended(office: Office) -> None:
    """Counters are a count, and the money is where the pieces say, to the cent."""
    counts = ", ".join(f"n_{status.count_name}" for status in ItemStatus)
    items = defaultdict(list)
    for _, order, status, is_over, cents in office.rows(ITEMS):
        items[order].append((status, is_over, cents))
    for order, status, total, recipients, over, *tally in office.rows(ORDERS.format(counts=counts)):
        pieces = items[order]
        counted = Counter(status for status, _, _ in pieces)
        assert status in ("fulfilled", "cancelled")
        assert tally == [counted[status.value] for status in ItemStatus]
        assert (recipients, over) == (len(pieces), sum(is_over for _, is_over, _ in pieces))
        earned = sum(cents for status, _, cents in pieces if status != ItemStatus.FAILED)
        books = Counter(office.books(order))
        assert (books["credit"], books["held"], books["earned"]) == (-earned, 0, earned)
        assert total == earned
    assert sum(office.books().values()) == 0


# Paper


def _assert_on_paper_once(office: Office) -> None:
    """Each piece that was printed counts in one batch, and lies in that batch's job at its page."""
    rows = office.rows(PRINTS)
    counting = Counter(item for _, _, item, superseded, _ in rows if not superseded)
    assert set(counting.values()) <= {1}
    assert set(counting) == {item for _, _, item, _, _ in rows}
    codes = [code for *_, code in rows if code is not None]
    assert len(codes) == len(set(codes))
    lies = defaultdict(list)
    for batch, position, item, _, code in rows:
        lies[batch].append((position, item, code))
    batches = office.rows("select id, status, item_count from batches order by id")
    assert {status for _, status, _ in batches} <= {"mailed"}
    for batch, _, item_count in batches:
        assert item_count == len(lies[batch])
        if lies[batch]:
            _assert_printed(office.files / "print-jobs" / "test" / batch_reference(batch), lies[batch])


def _assert_printed(job: Path, wanted: list[tuple[Any, ...]]) -> None:
    pieces = json.loads((job / "manifest.json").read_text())["pieces"]
    assert [(piece["position"], piece["item_id"], piece["tracking"]) for piece in pieces] == wanted
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


def _assert_no_orphans(office: Office) -> None:
    """Every file is one that the database speaks of, and the other way round."""
    known = {
        f"batches/{batch}/{name}": (size, bytes(digest))
        for batch, name, size, digest in office.rows("select batch_id, name, size, sha256 from batch_files")
    }
    assert {key: _measure(path) for key, path in _below(office.files, "batches")} == known
    jobs = office.files / "print-jobs" / "test"
    handed = office.rows("select id from batches where handed_at is not null order by id")
    assert sorted(job.name for job in jobs.iterdir()) == [batch_reference(batch) for (batch,) in handed]
    for key, (size, digest) in known.items():
        _, batch, name = key.split("/")
        assert _measure(jobs / batch_reference(int(batch)) / name) == (size, digest)
    assert list(_below(office.files, "sandbox")) == list(_below(office.files, "tracking")) == []


def _below(files: Path, folder: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((files / folder).rglob("*")):
        if path.is_file():
            yield path.relative_to(files).as_posix(), path


def _measure(path: Path) -> tuple[int, bytes]:
    data = path.read_bytes()
    return len(data), hashlib.sha256(data).digest()
