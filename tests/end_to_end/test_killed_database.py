"""The database server is killed under a working service, and comes back."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from quillpost.app.runtime import upgrade_database
from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.event_receiver import EventReceiver
from support.factories import people
from support.processes import CommandRunner, until
from support.sender_office import SenderService, open_sender_service
from support.single_order_state import assert_all_happened_once

PIECES = 2


@pytest.fixture
def server(home: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(home)
    server.start()
    upgrade_database(server.conninfo())
    yield server
    server.stop()


@pytest.fixture
def sender_service(server: EmbeddedPostgres, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(server.conninfo(), home, receiver) as sender_service:
        yield sender_service


def postmaster(home: Path) -> int:
    return int((home / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])


def test_an_order_outlives_a_database_that_is_killed_and_one_that_is_stopped(
    server: EmbeddedPostgres, sender_service: SenderService, command_runner: CommandRunner, home: Path
) -> None:
    worker = command_runner.start("work", settings=sender_service.settings)
    assert sender_service.sender.send(recipients=people(PIECES)).status_code == 200

    until(lambda: sender_service.value("select count(*) from batches") == 1, what="a batch made")
    os.kill(postmaster(home), signal.SIGKILL)
    server.start()
    in_flight = sender_service.let_leases_end()

    until(lambda: sender_service.value("select count(*) from carrier_scans") > 0, what="the pieces in the mail")
    server.stop()
    assert sender_service.sender.get("/orders/list").status_code == 503
    server.start()
    in_flight += sender_service.let_leases_end()

    sender_service.wait_for_the_end()
    assert worker.stop() == 0, worker.output
    assert_all_happened_once(sender_service, pieces=PIECES, in_flight=in_flight)
