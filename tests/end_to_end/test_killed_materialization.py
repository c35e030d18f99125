"""A worker is killed while lists become items; another takes over, and everyone is mailed once."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from quillpost.accounts.models import Caller
from support.crash_points import CrashPoint
from support.event_receiver import EventReceiver
from support.factories import people
from support.list_rows import CENTS, make_list, make_order
from support.processes import CommandRunner
from support.repeated_crashes import crash_in_turn
from support.sender_office import SenderService, open_sender_service
from support.single_order_state import assert_all_happened_once

PIECES = 3
AT_ONCE = {
    "QUILLPOST_TEST_JOURNEY_SECONDS": "1",
    "QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.4",
    "QUILLPOST_JOB_STALL_SECONDS": "2",
}
MATERIALISING = "quillpost.orders.tasks"

STEPS = [
    # The order is taken, and nothing made; the items are there, uncounted; all but committed; committed.
    CrashPoint(f"{MATERIALISING}:_audience_criteria", "before"),
    CrashPoint("quillpost.accounts.billing.service:set_order_hold", "before"),
    CrashPoint("quillpost.accounts.billing.service:set_order_hold", "after"),
    CrashPoint("quillpost.core.jobs:enqueue_unique", "before"),
    CrashPoint("quillpost.app.tasks:materialize_order", "after"),
]


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver, **AT_ONCE) as sender_service:
        yield sender_service


def test_everyone_of_a_list_is_mailed_once(sender_service: SenderService, command_runner: CommandRunner) -> None:
    """Though one after the other dies, at every step."""
    assert_everyone_is_mailed_once(sender_service, command_runner, STEPS)


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_everyone_is_mailed_once_whatever_the_step(
    step: CrashPoint, sender_service: SenderService, command_runner: CommandRunner
) -> None:
    assert_everyone_is_mailed_once(sender_service, command_runner, [step])


def assert_everyone_is_mailed_once(
    sender_service: SenderService, command_runner: CommandRunner, deaths: Sequence[CrashPoint]
) -> None:
    caller = Caller(sender_service.sender.id, "test")
    list_id = make_list(sender_service.container, caller, people(PIECES))
    make_order(
        sender_service.container, caller, list_id, authorised=PIECES * CENTS, due_at=sender_service.container.clock()
    )

    in_flight = crash_in_turn(sender_service, command_runner, deaths)
    healthy = command_runner.start("work", settings=sender_service.settings)
    sender_service.wait_for_the_end()
    assert healthy.stop() == 0, healthy.output

    addresses = sender_service.rows("select address from items order by id")
    assert addresses == [(someone["address"],) for someone in people(PIECES)]
    assert sender_service.rows("select total_sends from mailing_lists") == [(PIECES,)]
    assert_all_happened_once(sender_service, pieces=PIECES, in_flight=in_flight, deaths=len(deaths))
