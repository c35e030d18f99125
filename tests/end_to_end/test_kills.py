"""Worker, server and database are killed under orders: each by itself at a chosen moment, and all of them at random;
and the embedded database under a service that brings it back. What else a death may leave behind is looked at in
`test_process_deaths.py`, within one process."""

import fcntl
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from quillpost.accounts.models import Caller
from quillpost.client import Quillpost, QuillpostError
from quillpost.client.print_room import ReprintOptions
from quillpost.core.errors import Unavailable
from quillpost.core.files import delete_orphaned_files
from support import sender_service as sender_services
from support.event_receiver import EventReceiver
from support.factories import make_operator, people, person, postcard
from support.mailing_lists import make_list
from support.processes import FAST, PATIENCE, Command, CommandRunner, CrashPoint, Service, free_port, status_of, until
from support.sender_service import SenderService, open_sender_service
from support.service_cluster import VICTIMS, Cluster, ServiceProcesses

PIECES = 2
BRISK = {
    "QUILLPOST_TEST_REVIEW_SECONDS": "0",
    "QUILLPOST_TEST_JOURNEY_SECONDS": "1",
    "QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.4",
    "QUILLPOST_JOB_STALL_SECONDS": "2",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    home = Path(tempfile.mkdtemp(prefix="quillpost-cluster-"))
    home.chmod(0o755)
    cluster = Cluster(home)
    yield cluster
    cluster.stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver, **BRISK) as sender_service:
        yield sender_service


def test_an_order_outlives_two_workers_that_are_killed(sender_service: SenderService, runner: CommandRunner) -> None:
    assert sender_service.sender.send(recipients=people(PIECES)).status_code == 200
    deaths = [
        CrashPoint("quillpost.integrations.storage.objects:_write_file", "before", call=6),
        CrashPoint("quillpost.integrations.http.client:WebhookPoster.post", "after"),
    ]
    in_flight = []
    for death in deaths:
        killed = runner.start("work", settings=sender_service.settings, crash=death)
        assert killed.wait() == -signal.SIGKILL, f"{death} was never reached:\n{killed.output}"
        in_flight += sender_service.let_leases_end()
    healthy = runner.start("work", settings=sender_service.settings)
    sender_service.wait_for_the_end()
    assert healthy.stop() == 0, healthy.output
    sender_services.assert_all_happened_once(sender_service, pieces=PIECES, in_flight=in_flight, deaths=len(deaths))
    assert len(sender_service.received()) > len({event.id for event in sender_service.received()})


def test_the_key_of_a_dead_call_is_free_at_once(sender_service: SenderService, runner: CommandRunner) -> None:
    """The next call with it is the first again, and is never told that the dead one still runs."""
    headers = {"Authorization": f"Bearer {sender_service.sender.token}", "Idempotency-Key": "dead"}
    held = "select 1 from pg_locks join pg_database d on d.oid = database where locktype = 'advisory' and datname = %s"

    def call(server: Command) -> httpx2.Response:
        return httpx2.post(f"{server.url}/api/v2/send/postcard", json=postcard(), headers=headers, timeout=PATIENCE)

    with (
        runner.serving("--no-jobs", settings=sender_service.settings) as first,
        psycopg.connect(sender_service.container.db.conninfo) as blocker,
        ThreadPoolExecutor(1) as thread,
    ):
        blocker.execute("lock table orders in share mode")  # no order can be stored meanwhile
        called = thread.submit(call, first)
        until(lambda: blocker.execute(held, [blocker.info.dbname]).fetchone(), what="a call in flight")
        first.stop(signal.SIGKILL)
        assert isinstance(called.exception(), httpx2.TransportError)
    with runner.serving("--no-jobs", settings=sender_service.settings) as server:
        again = call(server)
        assert again.status_code == 200, again.text
        assert call(server).json() == again.json()
        assert sender_service.rows("select id from orders") == [(again.json()["id"],)]
        assert server.stop() == 0, server.output


def test_an_order_outlives_a_database_that_is_killed_and_one_that_is_stopped(
    cluster: Cluster, home: Path, receiver: EventReceiver, runner: CommandRunner
) -> None:
    with open_sender_service(cluster.make("killed"), home, receiver) as sender_service:
        worker = runner.start("work", settings=sender_service.settings)
        assert sender_service.sender.send(recipients=people(PIECES)).status_code == 200

        until(lambda: sender_service.value("select count(*) from batches") == 1, what="a batch made")
        cluster.kill()
        in_flight = sender_service.let_leases_end()
        until(lambda: sender_service.value("select count(*) from carrier_scans") > 0, what="the pieces in the mail")
        cluster.stop()
        assert sender_service.sender.get("/orders/list").status_code == 503
        cluster.start()
        in_flight += sender_service.let_leases_end()

        sender_service.wait_for_the_end()
        assert worker.stop() == 0, worker.output
        sender_services.assert_all_happened_once(sender_service, pieces=PIECES, in_flight=in_flight)


# All of them at random


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 40))]
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
        return int(getattr(self._sender.send, piece)(idempotency_key=f"{piece} {sorted(body)}", **words | body)["id"])

    def _reprint(self) -> None:
        """What goes abroad is seen by nobody once it is printed, so it can always be printed again; what lies
        beside it only until the carrier has seen it."""
        batch, item = until(self._handed, what="a batch with the printer")
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


@pytest.mark.parametrize("seed", SEEDS)
def test_every_piece_ends_once_whoever_dies(
    seed: int, cluster: Cluster, home: Path, receiver: EventReceiver, runner: CommandRunner
) -> None:
    fate = random.Random(seed)
    victims = list(VICTIMS) * (2 if seed else 1)
    fate.shuffle(victims)
    settings = {**BRISK, "QUILLPOST_TEST_SEED": str(seed), "QUILLPOST_TEST_LOSSES": "0.3"}
    with open_sender_service(cluster.make(f"seed_{seed}"), home, receiver, **settings) as sender_service:
        house = ServiceProcesses(sender_service, runner, cluster)
        with ThreadPoolExecutor(1) as thread:
            deeds = thread.submit(RetryingClient(sender_service, house.url).do_everything)
            for victim in victims:
                time.sleep(fate.uniform(0.1, 1.6))  # the moment is the point, not the wait
                house.kill(victim)
                house.tend()
            house.tend_until(deeds.done, what="all calls answered")
        house.tend_until(sender_service.has_ended, what="all orders ended")
        house.stop()
        # What the dead had half written is removed at night.
        parts, tomorrow = sender_service.container, datetime.now(UTC) + timedelta(days=2)
        delete_orphaned_files(parts.db, parts.storage, now=tomorrow)

        assert sender_service.value("select count(*) from orders") == deeds.result()
        assert sender_service.value("select count(*) from prints where superseded") >= 1
        sender_services.assert_all_ended_once(sender_service)
        sender_services.assert_all_events_arrived(sender_service, in_flight=house.in_flight)


SERVE = ("serve",)
NOTHING = ()
"""Whoever delivers outlives the database, holds on to what was in the air, and records it later."""


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def settings(home: Path, port: int) -> dict[str, str]:
    """No address of a database: the service starts one."""
    return {**FAST, "QUILLPOST_HOME": str(home), "QUILLPOST_PORT": str(port)}


def begin(runner: CommandRunner, settings: dict[str, str], command: tuple[str, ...]) -> Command | Service:
    if "--workers" not in command:
        return runner.start(*command, settings=settings)
    # Processes that are to start others cannot be forked off a warm one.
    output = Path(settings["QUILLPOST_HOME"]) / "serve.log"
    return Service(output, *command[1:], port=int(settings["QUILLPOST_PORT"]), settings=settings)


@contextmanager
def running(
    runner: CommandRunner, settings: dict[str, str], *commands: tuple[str, ...]
) -> Iterator[list[Command | Service]]:
    """The first of them owns the database; they are stopped in their order."""
    started: list[Command | Service] = []
    try:
        for command in commands:
            started.append(begin(runner, settings, command))
            until(lambda: status_of(address(settings, "/health")) == 200, what="the service open")
        until(lambda: status_of(address(settings, "/ready")) == 200, what="the service ready")
        yield started
    finally:
        for process in started:
            process.stop()


def health(settings: dict[str, str]) -> dict[str, object]:
    return dict(httpx2.get(address(settings, "/health"), timeout=5).json())


def address(settings: dict[str, str], path: str) -> str:
    return f"http://127.0.0.1:{settings['QUILLPOST_PORT']}{path}"


@contextmanager
def visited(home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    """A sender at the service's own database."""
    place = make_conninfo(host=str(home / "postgres/run"), port=5432, user="postgres", dbname="quillpost")
    with open_sender_service(place, home, receiver) as sender_service:
        yield sender_service


def postmaster(home: Path) -> int:
    return int((home / "postgres/data/postmaster.pid").read_text().splitlines()[0])


def zombies_of(pid: int) -> list[str]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent = rest.split()[:2]
        if state == "Z" and int(parent) == pid:
            found.append(name)
    return found


@contextmanager
def killed(home: Path) -> Iterator[None]:
    """Kill it, and let nobody start it until the end."""
    with (home / "postgres/starting.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.kill(postmaster(home), signal.SIGKILL)
        yield


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param([SERVE], id="one process"),
        pytest.param([("serve", "--workers", "2")], id="two server processes", marks=pytest.mark.long),
        pytest.param([("serve", "--no-jobs"), ("work",)], id="a worker beside", marks=pytest.mark.long),
    ],
)
def test_the_service_goes_on_when_its_database_is_killed(
    commands: list[tuple[str, ...]], runner: CommandRunner, settings: dict[str, str], home: Path,
    receiver: EventReceiver,
) -> None:  # fmt: skip
    with running(runner, settings, *commands) as started, visited(home, receiver) as sender_service:
        assert sender_service.sender.send(recipients=people(PIECES)).status_code == 200
        before = postmaster(home)
        with killed(home):
            until(lambda: health(settings)["database"] == "unreachable", what="health told of it")
            assert health(settings)["status"] == "degraded"
            assert status_of(address(settings, "/ready")) == 503
        until(lambda: status_of(address(settings, "/ready")) == 200, what="the service ready again")
        until(lambda: health(settings) == {"status": "ok", "database": "ok"}, what="health told of it")
        assert postmaster(home) != before
        sender_service.wait_for_the_end()
        sender_services.assert_all_ended_once(sender_service)
        sender_services.assert_all_events_arrived(sender_service, in_flight=NOTHING)
        assert not zombies_of(started[0].pid)
        assert [process.stop() for process in started] == [0] * len(started), started[0].output
        output = "".join(process.output for process in started)
        assert "postgres.restarted" in output
        assert "Traceback" not in output


@pytest.mark.long
def test_a_worker_brings_the_database_back_that_went_with_its_server(
    runner: CommandRunner, settings: dict[str, str], home: Path, receiver: EventReceiver
) -> None:
    with (
        running(runner, settings, ("serve", "--no-jobs"), ("work",)) as [server, worker],
        visited(home, receiver) as sender_service,
    ):
        assert sender_service.sender.send(recipients=people(PIECES)).status_code == 200
        server.stop(signal.SIGKILL)
        until(lambda: "postgres.restarted" in worker.output, what="the worker's own database")
        sender_service.wait_for_the_end()
        sender_services.assert_all_events_arrived(sender_service, in_flight=NOTHING)
        assert worker.stop() == 0, worker.output


def test_a_service_that_stops_starts_nothing(runner: CommandRunner, settings: dict[str, str], home: Path) -> None:
    """As a system's own supervisor does it: every process of the service gets the signal."""
    with running(runner, settings, SERVE) as [service]:
        database = os.pidfd_open(postmaster(home))
        signal.pidfd_send_signal(database, signal.SIGTERM)
        os.close(database)
        assert service.stop() == 0, service.output
    assert "postgres." not in service.output
    assert not (home / "postgres/data/postmaster.pid").exists()
