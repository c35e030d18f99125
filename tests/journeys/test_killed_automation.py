"""A worker is killed while an automation sends; another takes over, and everyone is mailed once."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from automated import plan
from crashing_worker import CrashPoint
from event_receiver import EventReceiver
from list_keeper import Lister
from office import Office, opened_office
from processes import Nursery, until
from verdict import assert_all_happened_once

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
    pytest.param(CrashPoint("quillpost.orders.creation:store_order", "after"), marks=pytest.mark.long),
    pytest.param(CrashPoint(f"{SENDING}:_record_success", "after"), marks=pytest.mark.long),
    CrashPoint(f"{SENDING}:_create_order", "after"),
]

# As if the time had passed for which a dead worker's automation is left alone.
FREE = sa.text("update automations set next_at = now() - interval '1 second'")


@pytest.fixture
def office(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[Office]:
    with opened_office(conninfo, home, receiver, **AT_ONCE) as office:
        yield office


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_everyone_is_mailed_once(step: CrashPoint, office: Office, nursery: Nursery) -> None:
    lists = Lister(office.sender)
    visitors = lists.make()
    made = office.sender.post("/automations", plan(visitors))
    lists.fill(visitors, *(f"{n} Main St" for n in range(1, PIECES + 1)))

    killed = nursery.start("work", settings=office.settings, crash=step)
    assert killed.wait() == -signal.SIGKILL, f"the step was never reached:\n{killed.output}"
    in_the_air = office.let_leases_end()
    with office.container.db.system_transaction() as tx:
        tx.execute(FREE)
    healthy = nursery.start("work", settings=office.settings)
    until(lambda: office.value("select count(*) from orders") == 1, what="the automation has sent")
    office.wait_for_the_end()
    assert healthy.stop() == 0, healthy.output

    known = office.sender.get(f"/automations/{made.json()['id']}").json()
    assert (known["sent_count"], known["waiting"], known["last_error"]) == (PIECES, 0, None)
    assert office.value("select count(*) from automation_sent") == PIECES
    assert_all_happened_once(office, pieces=PIECES, in_the_air=in_the_air)
