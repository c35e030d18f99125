"""Server, worker and database are killed at moments that nobody chose, under orders of every kind.

All the while a sender and an operator call it over HTTP, and call again until they are answered. One seed in
every run, others in the long one.
"""

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from quillpost.accounts.models import Caller
from quillpost.client import Quillpost, QuillpostError
from quillpost.client.print_room import ReprintOptions
from quillpost.core.errors import Unavailable
from quillpost.core.files import delete_orphaned_files
from support.event_receiver import EventReceiver
from support.factories import make_operator, people, person
from support.final_state import assert_all_ended_once
from support.list_rows import make_list
from support.processes import CommandRunner, until
from support.sender_office import SenderService, open_sender_service
from support.service_cluster import VICTIMS, Cluster, ServiceProcesses
from support.single_order_state import assert_all_events_arrived

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 40))]
DEATHS_OF_EACH = 2
PATIENCE = 100.0
"""Seconds, on a machine that is busy with much else."""

BRISK = {
    "QUILLPOST_TEST_REVIEW_SECONDS": "1",
    "QUILLPOST_TEST_JOURNEY_SECONDS": "2",
    "QUILLPOST_TEST_LOSSES": "0.3",
    "QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.4",
    "QUILLPOST_JOB_STALL_SECONDS": "2",
}
RESERVED = ("Returned", "Rerouted", "Lost", "Undeliverable", "Printer Failure")
ABROAD = person(name="Jeanne", address="3 Rue Haute", city="Paris", province="", postal_code="75001", country="FR")
EVERYONE = [
    person(),
    ABROAD,
    *(person(name=f"Test {name}", address=f"{n} Elm St") for n, name in enumerate(RESERVED, start=1)),
]
HANDED = """
    select p.batch_id, i.id from prints p join items i on i.id = p.item_id join batches b on b.id = p.batch_id
     where i.country = 'FR' and b.handed_at is not null and not p.superseded
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    home = Path(tempfile.mkdtemp(prefix="quillpost-cluster-"))
    home.chmod(0o755)
    cluster = Cluster(home)
    yield cluster
    cluster.stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(params=SEEDS)
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def sender_service(seed: int, cluster: Cluster, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    conninfo = cluster.make(f"seed_{seed}")
    with open_sender_service(conninfo, home, receiver, QUILLPOST_TEST_SEED=str(seed), **BRISK) as sender_service:
        yield sender_service


class RetryingClient:
    """Where calls are made until they are answered, under keys that make each of them count once."""

    def __init__(self, sender_service: SenderService, url: str) -> None:
        self._office = sender_service
        operator = make_operator(sender_service.container, sender_service.sender.http)
        self._sender, self._operator = (_client(token, url) for token in (sender_service.sender.token, operator.token))
        self._list_id = make_list(sender_service.container, Caller(sender_service.sender.id, "test"), people(3))

    def do_everything(self) -> int:
        """Send, cancel and reprint; how many orders there are."""
        with self._sender, self._operator:
            later = datetime.now(UTC) + timedelta(hours=1)
            sent = [
                self._send("postcard", recipients=EVERYONE),
                self._send("postcard", mailing_list_ids=[self._list_id]),
                self._send("notecard", recipients=people(2)),
                self._send("postcard", recipients=people(1), schedule_for=later),
                self._send("postcard", recipients=people(2), send_standard_mail=True),
            ]
            *_, doomed, contended = sent
            self._sender.orders.cancel(doomed, idempotency_key="cancel-doomed")
            with suppress(QuillpostError):  # the press may have been faster
                self._sender.orders.cancel(contended, idempotency_key="cancel-contended")
            self._reprint()
        assert len(set(sent)) == len(sent)
        return len(sent)

    def _send(self, piece: str, **body: Any) -> int:
        words = {"message": "Hi %FIRST_NAME%!", "allow_duplicates": True}
        send = getattr(self._sender.send, piece)
        return int(send(idempotency_key=f"{piece} {sorted(body)}", **words | body)["id"])

    def _reprint(self) -> None:
        """What goes abroad is seen by nobody once it is printed, so it can always be printed again; what lies
        beside it only until the carrier has seen it."""
        batch, item = until(self._handed, what="a batch with the printer", seconds=PATIENCE)
        several: list[ReprintOptions] = [{"item_ids": [item]}, {"positions": [1]}]
        for number, pieces in enumerate(several):
            with suppress(QuillpostError):
                self._operator.print_room.reprint(
                    batch, reason="Smudged", idempotency_key=f"reprint-{number}", **pieces
                )

    def _handed(self) -> tuple[Any, ...] | None:
        with suppress(Unavailable):  # the database may be away
            return next(iter(self._office.rows(HANDED)), None)
        return None


def _client(token: str, url: str) -> Quillpost:
    return Quillpost(
        token,
        url,
        retries=10_000,
        deadline=PATIENCE,
        transport=httpx2.HTTPTransport(verify=False),
        sleep=lambda pause: time.sleep(min(pause, 0.2)),
    )


@pytest.mark.timeout(600)
def test_every_piece_ends_once_whoever_dies(
    seed: int, sender_service: SenderService, command_runner: CommandRunner, cluster: Cluster
) -> None:
    fate = random.Random(seed)
    victims = list(VICTIMS) * DEATHS_OF_EACH
    fate.shuffle(victims)
    house = ServiceProcesses(sender_service, command_runner, cluster)
    with ThreadPoolExecutor(1) as thread:
        deeds = thread.submit(RetryingClient(sender_service, house.url).do_everything)
        for victim in victims:
            time.sleep(fate.uniform(0.1, 1.6))  # the moment is the point, not the wait
            house.kill(victim)
            house.tend()
        house.tend_until(deeds.done, what="all calls answered", seconds=PATIENCE)
    house.tend_until(sender_service.has_ended, what="all orders ended", seconds=PATIENCE)
    house.stop()
    # What the dead had half written is removed at night.
    delete_orphaned_files(
        sender_service.container.db, sender_service.container.storage, now=datetime.now(UTC) + timedelta(days=2)
    )

    assert sender_service.value("select count(*) from orders") == deeds.result()
    assert sender_service.value("select count(*) from prints where superseded") >= 1
    assert_all_ended_once(sender_service)
    assert_all_events_arrived(sender_service, in_flight=house.in_flight)
