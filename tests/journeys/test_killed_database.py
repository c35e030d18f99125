"""The database server is killed under a working service, and comes back."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from event_receiver import EventReceiver
from office import Office, opened_office
from processes import Nursery, until
from verdict import assert_all_happened_once

from makers import people
from quillpost.app.runtime import upgrade_database
from quillpost.core.database.embedded.server import EmbeddedPostgres

PIECES = 2


@pytest.fixture
def server(home: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(home)
    server.start()
    upgrade_database(server.conninfo())
    yield server
    server.stop()


@pytest.fixture
def office(server: EmbeddedPostgres, home: Path, receiver: EventReceiver) -> Iterator[Office]:
    with opened_office(server.conninfo(), home, receiver) as office:
        yield office


def postmaster(home: Path) -> int:
    return int((home / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])


def test_an_order_outlives_a_database_that_is_killed_and_one_that_is_stopped(
    server: EmbeddedPostgres, office: Office, nursery: Nursery, home: Path
) -> None:
    worker = nursery.start("work", settings=office.settings)
    assert office.sender.send(recipients=people(PIECES)).status_code == 200

    until(lambda: office.value("select count(*) from batches") == 1, what="a batch made")
    os.kill(postmaster(home), signal.SIGKILL)
    server.start()
    in_the_air = office.let_leases_end()

    until(lambda: office.value("select count(*) from carrier_scans") > 0, what="the pieces in the mail")
    server.stop()
    assert office.sender.get("/orders/list").status_code == 503
    server.start()
    in_the_air += office.let_leases_end()

    office.wait_for_the_end()
    assert worker.stop() == 0, worker.output
    assert_all_happened_once(office, pieces=PIECES, in_the_air=in_the_air)
