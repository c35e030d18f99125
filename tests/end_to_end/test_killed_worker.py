"""A worker is killed at each step of an order's way; another takes over, and nothing happens twice."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.crash_points import CrashPoint
from support.event_receiver import EventReceiver
from support.factories import people
from support.processes import CommandRunner
from support.repeated_crashes import crash_in_turn
from support.sender_office import SenderService, open_sender_service
from support.single_order_state import assert_all_happened_once

PIECES = 3
AT_ONCE = {
    "QUILLPOST_TEST_REVIEW_SECONDS": "0",
    "QUILLPOST_TEST_JOURNEY_SECONDS": "1",
    "QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.4",
    "QUILLPOST_JOB_STALL_SECONDS": "2",
}

FULFILMENT, TRACKING, WEBHOOKS = (
    "quillpost.fulfillment",
    "quillpost.fulfillment.tracking",
    "quillpost.notifications.webhooks",
)
FILES_PUT = "quillpost.integrations.storage.objects:_FolderStore.put"
PRINTER = "quillpost.integrations.printing.sandbox:SandboxPrinter"
MAILBOX = "quillpost.integrations.carriers.sandbox:SandboxMailbox"
CARRIER = "quillpost.integrations.carriers.sandbox:SandboxCarrier"
MOVE = "quillpost.orders.items.service:MoveItemsStatement.run"
POSTER = "quillpost.integrations.http.client:WebhookPoster"
POSTED = CrashPoint(f"{POSTER}.post", "after")
NOT_RECORDED = CrashPoint(f"{WEBHOOKS}.outcomes:record_outcomes", "before")


def _long(step: CrashPoint) -> Any:
    """A death that leaves the same behind as its neighbour does: looked at in the long run."""
    return pytest.param(step, marks=pytest.mark.long)


TO_THE_PRINTER = [
    # The end of the review: inside the transaction, and after it has committed.
    CrashPoint(f"{FULFILMENT}.review.service:_end_reviews", "before"),
    CrashPoint(f"{FULFILMENT}.review.service:_end_reviews", "after"),
    # Pooling: nothing is batched yet; the batch is there, uncommitted; committed.
    CrashPoint(f"{FULFILMENT}.review.service:pool_due_orders", "before"),
    CrashPoint(f"{FULFILMENT}.batches.service:pool_orders", "before"),
    CrashPoint(f"{FULFILMENT}.batches.service:pool_orders", "after"),
    CrashPoint(f"{FULFILMENT}.review.service:pool_due_orders", "after"),
    # Composing: four files are written, then the batch moves on and its files are written down.
    CrashPoint(f"{FULFILMENT}.batches.files:draw_batch_files", "before"),
    CrashPoint(f"{FULFILMENT}.batches.files:draw_batch_files", "after"),
    CrashPoint(FILES_PUT, "after", call=1),
    CrashPoint(FILES_PUT, "after", call=4),
    CrashPoint(f"{FULFILMENT}.batches.queries:swap_batch_status", "after", call=1),
    CrashPoint(f"{FULFILMENT}.batches.queries:insert_batch_files", "after"),
    CrashPoint(f"{FULFILMENT}.batches.tasks:compose_batch", "after"),
    # Handing over: the printer's folder is filled, ticket last.
    CrashPoint(f"{PRINTER}.submit", "before"),
    CrashPoint(FILES_PUT, "after", call=6),
    CrashPoint(f"{PRINTER}.submit", "after"),
    CrashPoint(f"{FULFILMENT}.batches.queries:swap_batch_status", "after", call=2),
    CrashPoint(f"{FULFILMENT}.batches.tasks:hand_over_batch", "after"),
]
ALIKE = {
    CrashPoint(f"{FULFILMENT}.review.service:_end_reviews", "before"),
    CrashPoint(f"{FULFILMENT}.review.service:pool_due_orders", "before"),
    CrashPoint(f"{FULFILMENT}.batches.files:draw_batch_files", "before"),
    CrashPoint(f"{FULFILMENT}.batches.files:draw_batch_files", "after"),
    CrashPoint(FILES_PUT, "after", call=4),
    CrashPoint(f"{FULFILMENT}.batches.tasks:compose_batch", "after"),
    CrashPoint(f"{PRINTER}.submit", "before"),
    CrashPoint(f"{FULFILMENT}.batches.queries:swap_batch_status", "after", call=2),
}
"""Of these, deaths that leave the same behind as a neighbour's."""
FROM_THERE = [
    # Printed: the printer's mark is there, the pieces have not moved; then they have.
    _long(CrashPoint(f"{PRINTER}.progress", "after")),
    _long(CrashPoint(f"{FULFILMENT}.batches.tasks:record_printer_progress", "before")),
    _long(CrashPoint(MOVE, "before")),
    CrashPoint(MOVE, "after"),
    _long(CrashPoint(f"{FULFILMENT}.batches.tasks:record_printer_progress", "after")),
    _long(CrashPoint(f"{FULFILMENT}.batches.tasks:poll_printer", "after")),
    # Mailed: the carrier has the pieces, and the printer has not said so; then it has.
    _long(CrashPoint(f"{MAILBOX}.mail_items", "before")),
    _long(CrashPoint(f"{MAILBOX}.mail_items", "after")),
    # In the mail: a chunk of scans is kept, its pieces move, and only then the file is settled.
    _long(CrashPoint(f"{TRACKING}.service:ingest_scans", "before")),
    CrashPoint(f"{TRACKING}.queries:insert_scans", "after"),
    _long(CrashPoint(MOVE, "after", call=2)),
    _long(CrashPoint(f"{TRACKING}.service:ingest_scans", "after")),
    _long(CrashPoint(f"{CARRIER}.settle", "before", call=2)),
    _long(CrashPoint(f"{CARRIER}.settle", "after")),
    _long(CrashPoint(f"{TRACKING}.service:poll_carriers", "after", call=2)),
    # Telling the subscriber.
    CrashPoint(f"{WEBHOOKS}.tasks:fan_out_facts", "after", call=2),
    _long(CrashPoint(f"{POSTER}.post", "before")),
    POSTED,
    _long(NOT_RECORDED),
]
SENT_BUT_NOT_RECORDED = [POSTED, NOT_RECORDED]


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver, **AT_ONCE) as sender_service:
        yield sender_service


def test_an_order_outlives_a_death_at_every_step_to_the_printer(
    sender_service: SenderService, command_runner: CommandRunner
) -> None:
    deaths = [step for step in TO_THE_PRINTER if step not in ALIKE]
    assert_each_side_effect_happens_once(sender_service, command_runner, deaths)


@pytest.mark.parametrize("step", [*map(_long, TO_THE_PRINTER), *FROM_THERE], ids=str)
def test_each_side_effect_of_an_order_happens_once(
    step: CrashPoint, sender_service: SenderService, command_runner: CommandRunner
) -> None:
    assert_each_side_effect_happens_once(sender_service, command_runner, [step])


def assert_each_side_effect_happens_once(
    sender_service: SenderService, command_runner: CommandRunner, deaths: Sequence[CrashPoint]
) -> None:
    sent = sender_service.sender.send(recipients=people(PIECES))
    assert sent.status_code == 200, sent.text

    in_flight = crash_in_turn(sender_service, command_runner, deaths)
    healthy = command_runner.start("work", settings=sender_service.settings)
    sender_service.wait_for_the_end()
    assert healthy.stop() == 0, healthy.output

    assert_all_happened_once(sender_service, pieces=PIECES, in_flight=in_flight, deaths=len(deaths))
    if not set(SENT_BUT_NOT_RECORDED).isdisjoint(deaths):
        assert len(sender_service.received()) > len({event.id for event in sender_service.received()})
