"""A worker is killed while an automation sends; another takes over, and everyone is mailed once."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from support.automations import plan
from support.crash_points import CrashPoint
from support.event_receiver import EventReceiver
from support.mailing_lists import ListOwner
from support.processes import CommandRunner, until
from support.sender_office import SenderService, open_sender_service
from support.single_order_state import assert_all_happened_once

PIECES = 3
AT_ONCE = {
    "QUILLPOST_TEST_REVIEW_SECONDS": "0",
    "QUILLPOST_TEST_JOURNEY_SECONDS": "1",
    "QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.4",
    "QUILLPOST_JOB_STALL_SECONDS": "2",
}
SENDING = "quillpost.orders.automations.tasks"

STEPS = [
    # It is taken; prepared, and nothing stored; the order is there; all but committed; committed. Some leave
    # the same behind as their neighbours do: they are looked at in the long run.
    pytest.param(CrashPoint(f"{SENDING}:_claim_next", "after"), marks=pytest.mark.long),
    CrashPoint(f"{SENDING}:_create_order", "before"),
    pytest.param(CrashPoint("quillpost.orders.service:store_order", "after"), marks=pytest.mark.long),
    pytest.param(CrashPoint(f"{SENDING}:_record_success", "after"), marks=pytest.mark.long),
    CrashPoint(f"{SENDING}:_create_order", "after"),
]

# As if the time had passed for which a dead worker's automation is left alone.
FREE = sa.text("update automations set next_at = now() - interval '1 second'")


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver, **AT_ONCE) as sender_service:
        yield sender_service


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_everyone_is_mailed_once(
    step: CrashPoint, sender_service: SenderService, command_runner: CommandRunner
) -> None:
    lists = ListOwner(sender_service.sender)
    visitors = lists.make()
    made = sender_service.sender.post("/automations", plan(visitors))
    lists.fill(visitors, *(f"{n} Main St" for n in range(1, PIECES + 1)))

    killed = command_runner.start("work", settings=sender_service.settings, crash=step)
    assert killed.wait() == -signal.SIGKILL, f"the step was never reached:\n{killed.output}"
    in_flight = sender_service.let_leases_end()
    with sender_service.container.db.system_transaction() as tx:
        tx.execute(FREE)
    healthy = command_runner.start("work", settings=sender_service.settings)
    until(lambda: sender_service.value("select count(*) from orders") == 1, what="the automation has sent")
    sender_service.wait_for_the_end()
    assert healthy.stop() == 0, healthy.output

    known = sender_service.sender.get(f"/automations/{made.json()['id']}").json()
    assert (known["sent_count"], known["waiting"], known["last_error"]) == (PIECES, 0, None)
    assert sender_service.value("select count(*) from automation_sent") == PIECES
    assert_all_happened_once(sender_service, pieces=PIECES, in_flight=in_flight)
