"""A worker is killed at each step of an order's way; another takes over, and nothing happens twice."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from crashing_worker import CrashPoint
from event_receiver import EventReceiver
from office import Office, opened_office
from processes import Nursery
from verdict import assert_all_happened_once

from makers import people

PIECES = 3
AT_ONCE = {
    "QUILLPOST_TEST_REVIEW_SECONDS": "0",
    "QUILLPOST_TEST_JOURNEY_SECONDS": "1",
    "QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.4",
    "QUILLPOST_JOB_STALL_SECONDS": "2",
}

FULFILMENT, TRACKING, WEBHOOKS = "quillpost.fulfilment", "quillpost.tracking", "quillpost.webhooks"
FILES_PUT = "quillpost.adapters.files.objects:_FolderFiles.put"
PRINTER = "quillpost.adapters.printing.sandbox:SandboxPrinter"
POSTER = "quillpost.adapters.http.poster:WebhookPoster"

STEPS = [
    # The end of the review: inside the transaction, and after it has committed.
    CrashPoint(f"{FULFILMENT}.review:_end_review", "before"),
    CrashPoint(f"{FULFILMENT}.review:_end_review", "after"),
    CrashPoint(f"{FULFILMENT}.review:sweep", "after"),
    # Composing: three files are written, then the batch moves on.
    CrashPoint("quillpost.composition.studio:Studio.compose", "before"),
    CrashPoint(FILES_PUT, "after", call=1),
    CrashPoint(FILES_PUT, "after", call=2),
    CrashPoint(f"{FULFILMENT}.store:swap_batch", "before", call=1),
    CrashPoint(f"{FULFILMENT}.store:swap_batch", "after", call=1),
    CrashPoint(f"{FULFILMENT}.production:compose", "after"),
    # Handing over: the printer's folder is filled, ticket last.
    CrashPoint(f"{PRINTER}.submit", "before"),
    CrashPoint(FILES_PUT, "after", call=5),
    CrashPoint(f"{PRINTER}.submit", "after"),
    CrashPoint(f"{FULFILMENT}.production:hand_over", "after"),
    # Printed: the printer's mark is there, the pieces have not moved; then they have.
    CrashPoint(f"{PRINTER}.progress", "after"),
    CrashPoint(f"{FULFILMENT}.production:move_items", "before"),
    CrashPoint(f"{FULFILMENT}.production:move_items", "after"),
    CrashPoint(f"{FULFILMENT}.production:follow", "after"),
    # In the mail.
    CrashPoint(f"{TRACKING}.service:ingest", "before"),
    CrashPoint(f"{TRACKING}.service:move_items", "after"),
    CrashPoint(f"{TRACKING}.service:ingest", "after"),
    CrashPoint(f"{TRACKING}.service:poll", "after", call=2),
    # Telling the subscriber.
    CrashPoint(f"{WEBHOOKS}.store:fan_out", "after", call=2),
    CrashPoint(f"{POSTER}.post", "before"),
    CrashPoint(f"{POSTER}.post", "after"),
    CrashPoint(f"{WEBHOOKS}.store:record_outcome", "before"),
]
SENT_BUT_NOT_RECORDED = STEPS[-2:]


@pytest.fixture
def office(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[Office]:
    with opened_office(conninfo, home, receiver, **AT_ONCE) as office:
        yield office


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_each_side_effect_of_an_order_happens_once(
    step: CrashPoint, office: Office, nursery: Nursery
) -> None:
    sent = office.sender.send(recipients=people(PIECES), metadata={"case": str(step)})
    assert sent.status_code == 200, sent.text

    killed = nursery.start("work", settings=office.settings, crash=step)
    assert killed.wait() == -signal.SIGKILL, f"the step was never reached:\n{killed.output}"
    in_the_air = office.let_leases_end()
    healthy = nursery.start("work", settings=office.settings)
    office.wait_for_the_end()
    assert healthy.stop() == 0, healthy.output

    assert_all_happened_once(office, pieces=PIECES, in_the_air=in_the_air)
    if step in SENT_BUT_NOT_RECORDED:
        assert len(office.received()) > len({event.id for event in office.received()})
