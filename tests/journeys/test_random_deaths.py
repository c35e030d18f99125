"""Workers are killed at moments that nobody chose; one seed in every run, the others in the long one."""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from event_receiver import EventReceiver
from office import Office, opened_office
from processes import Nursery
from verdict import assert_all_happened_once

from makers import people

PIECES = 4
DEATHS = 4
BRISK = {
    "QUILLPOST_TEST_REVIEW_SECONDS": "1",
    "QUILLPOST_TEST_JOURNEY_SECONDS": "2",
    "QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.4",
    "QUILLPOST_JOB_STALL_SECONDS": "2",
}


@pytest.fixture
def office(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[Office]:
    with opened_office(conninfo, home, receiver, **BRISK) as office:
        yield office


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 12))])
def test_an_order_outlives_deaths_at_random_moments(seed: int, office: Office, nursery: Nursery) -> None:
    moments = random.Random(seed)
    assert office.sender.send(recipients=people(PIECES)).status_code == 200
    in_the_air: list[str] = []
    for _ in range(DEATHS):
        worker = nursery.start("work", settings=office.settings)
        time.sleep(moments.uniform(0.2, 2.5))  # the moment is the point, not the wait
        worker.stop(signal.SIGKILL)
        in_the_air += office.let_leases_end()
    healthy = nursery.start("work", settings=office.settings)
    office.wait_for_the_end()
    healthy.stop()  # it may still be starting, where the order had ended before
    assert_all_happened_once(office, pieces=PIECES, in_the_air=in_the_air, deaths=DEATHS)
