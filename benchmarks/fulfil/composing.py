"""Batches are composed by one worker and by two, in turns: how much faster two are. Then they are mailed."""

from contextlib import ExitStack
from itertools import islice
from statistics import median
from typing import Any

from benchmarks.fulfil.office import Office
from quillpost.core import jobs
from quillpost.fulfillment.batches.rules import MAX_BATCH_ITEMS
from quillpost.fulfillment.models import COMPOSE, enqueue_step
from quillpost.orders.rules import SWEEP_TASK

BATCHES = 4
_WORK = ("work", "--queues", "compose", "--concurrency", "1")
_FULL = "select id from batches where item_count = %s and status = 'new' order by id"

_UNMAILED = "select count(*) from batches where status in ('composed', 'handed', 'printed')"


def pool(office: Office, order_id: int, rows: int) -> dict[str, Any]:
    """End the order's review: its pieces become batches. What that takes, and how many they are."""
    office.admin.execute("update orders set due_at = now() where id = %s", (order_id,))
    office.tidy()
    before = office.last_job()
    with office.parts.db.system_transaction() as tx:
        jobs.enqueue(tx, SWEEP_TASK)
    with office.running("work", "--queues", "default"):
        seconds = office.span(SWEEP_TASK, before)
    made, pieces = office.admin.execute("select count(*), sum(item_count) from batches").fetchone() or (0, 0)
    if pieces != rows:
        raise RuntimeError(f"Not {rows} pieces are in batches, but {pieces}.")
    # Each is composed when it is measured, and not before.
    office.admin.execute("delete from procrastinate_jobs where status = 'todo' and queue_name = 'compose'")
    return {"batches": made, "rows a second": round(rows / seconds)}


def compared(office: Office, *, rounds: int) -> dict[str, Any]:
    """Pieces a second of one worker and of two; each has composed a batch before it is measured."""
    waiting = iter([number for (number,) in office.admin.execute(_FULL, (MAX_BATCH_ITEMS,)).fetchall()])
    found: dict[int, list[float]] = {1: [], 2: []}
    for number in range(rounds):
        for workers in (1, 2) if number % 2 == 0 else (2, 1):
            with ExitStack() as running:
                for _ in range(workers):
                    running.enter_context(office.running(*_WORK))
                _compose(office, list(islice(waiting, workers)))
                found[workers].append(_compose(office, list(islice(waiting, BATCHES))))
    rates = {workers: BATCHES * MAX_BATCH_ITEMS / median(seconds) for workers, seconds in found.items()}
    return {
        "batches": BATCHES,
        "rounds": rounds,
        "pieces a second": {f"{workers} at work": round(rate) for workers, rate in rates.items()},
        "two against one": round(rates[2] / rates[1], 2),
    }


def mail(office: Office) -> int:
    """Hand over what was composed, and follow it until all of it is in the mail: how many batches.

    Composing has booked the first step of each. Nothing is timed: what it takes is memory.
    """
    waiting = int(office.one(_UNMAILED))
    if not waiting:
        raise RuntimeError("There is nothing to hand over.")
    with office.running("work", "--queues", "default,hand_over"):
        office.wait(lambda: office.one(_UNMAILED) == 0, "the printer")
    return waiting


def _compose(office: Office, batches: list[int]) -> float:
    before = office.last_job()
    with office.parts.db.system_transaction() as tx:
        for batch_id in batches:
            enqueue_step(tx, COMPOSE, batch_id)
    return office.span(COMPOSE, before)
