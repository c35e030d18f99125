"""A worker is killed while lists become items; another takes over, and everyone is mailed once."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from crashing_worker import CrashPoint
from deaths import die_in_turn
from event_receiver import EventReceiver
from listing import CENTS, make_list, make_order
from office import Office, opened_office
from processes import Nursery
from verdict import assert_all_happened_once

from makers import people
from quillpost.accounts.models import Caller

PIECES = 3
AT_ONCE = {
    "QUILLPOST_TEST_JOURNEY_SECONDS": "1",
    "QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.4",
    "QUILLPOST_JOB_STALL_SECONDS": "2",
}
MATERIALISING = "quillpost.orders.tasks"

STEPS = [
    # The order is taken, and nothing made; the items are there, uncounted; all but committed; committed.
    CrashPoint(f"{MATERIALISING}:_claim_order", "after"),
    CrashPoint("quillpost.accounts.billing.service:set_order_hold", "before"),
    CrashPoint("quillpost.accounts.billing.service:set_order_hold", "after"),
    CrashPoint("quillpost.core.jobs:enqueue_unique", "before"),
    CrashPoint("quillpost.app.tasks:materialize_order", "after"),
]


@pytest.fixture
def office(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[Office]:
    with opened_office(conninfo, home, receiver, **AT_ONCE) as office:
        yield office


def test_everyone_of_a_list_is_mailed_once(office: Office, nursery: Nursery) -> None:
    """Though one after the other dies, at every step."""
    assert_everyone_is_mailed_once(office, nursery, STEPS)


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_everyone_is_mailed_once_whatever_the_step(step: CrashPoint, office: Office, nursery: Nursery) -> None:
    assert_everyone_is_mailed_once(office, nursery, [step])


def assert_everyone_is_mailed_once(office: Office, nursery: Nursery, deaths: Sequence[CrashPoint]) -> None:
    caller = Caller(office.sender.id, "test")
    list_id = make_list(office.container, caller, people(PIECES))
    make_order(office.container, caller, list_id, authorised=PIECES * CENTS, due_at=office.container.clock())

    in_the_air = die_in_turn(office, nursery, deaths)
    healthy = nursery.start("work", settings=office.settings)
    office.wait_for_the_end()
    assert healthy.stop() == 0, healthy.output

    addresses = office.rows("select address from items order by id")
    assert addresses == [(someone["address"],) for someone in people(PIECES)]
    assert office.rows("select total_sends from mailing_lists") == [(PIECES,)]
    assert_all_happened_once(office, pieces=PIECES, in_the_air=in_the_air, deaths=len(deaths))
