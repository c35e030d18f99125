"""The embedded database is killed under a running service, which brings it back by itself."""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from psycopg.conninfo import make_conninfo

from support.event_receiver import EventReceiver
from support.factories import people
from support.processes import FAST, Command, CommandRunner, Service, free_port, status_of, until
from support.sender_service import SenderService, assert_all_ended_once, assert_all_events_arrived, open_sender_service

SERVE = ("serve",)
PIECES = 2
NOTHING = ()
"""Whoever delivers outlives the database, holds on to what was in the air, and records it later."""


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def settings(home: Path, port: int) -> dict[str, str]:
    """No address of a database: the service starts one."""
    return {**FAST, "QUILLPOST_HOME": str(home), "QUILLPOST_PORT": str(port)}


def begin(command_runner: CommandRunner, settings: dict[str, str], command: tuple[str, ...]) -> Command | Service:
    if "--workers" not in command:
        return command_runner.start(*command, settings=settings)
    # Processes that are to start others cannot be forked off a warm one.
    output = Path(settings["QUILLPOST_HOME"]) / "serve.log"
    return Service(output, *command[1:], port=int(settings["QUILLPOST_PORT"]), settings=settings)


@contextmanager
def running(
    command_runner: CommandRunner, settings: dict[str, str], *commands: tuple[str, ...]
) -> Iterator[list[Command | Service]]:
    """The first of them owns the database; they are stopped in their order."""
    started: list[Command | Service] = []
    try:
        for command in commands:
            started.append(begin(command_runner, settings, command))
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
    commands: list[tuple[str, ...]], command_runner: CommandRunner, settings: dict[str, str], home: Path,
    receiver: EventReceiver,
) -> None:  # fmt: skip
    with running(command_runner, settings, *commands) as started, visited(home, receiver) as sender_service:
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
        assert_all_ended_once(sender_service)
        assert_all_events_arrived(sender_service, in_flight=NOTHING)
        assert not zombies_of(started[0].pid)
        assert [process.stop() for process in started] == [0] * len(started), started[0].output
        output = "".join(process.output for process in started)
        assert "postgres.restarted" in output
        assert "Traceback" not in output


@pytest.mark.long
def test_a_worker_brings_the_database_back_that_went_with_its_server(
    command_runner: CommandRunner, settings: dict[str, str], home: Path, receiver: EventReceiver
) -> None:
    with (
        running(command_runner, settings, ("serve", "--no-jobs"), ("work",)) as [server, worker],
        visited(home, receiver) as sender_service,
    ):
        assert sender_service.sender.send(recipients=people(PIECES)).status_code == 200
        server.stop(signal.SIGKILL)
        until(lambda: "postgres.restarted" in worker.output, what="the worker's own database")
        sender_service.wait_for_the_end()
        assert_all_events_arrived(sender_service, in_flight=NOTHING)
        assert worker.stop() == 0, worker.output


def test_a_service_that_stops_with_its_database_starts_nothing(
    command_runner: CommandRunner, settings: dict[str, str], home: Path
) -> None:
    """As a system's own supervisor does it: every process of the service gets the signal."""
    with running(command_runner, settings, SERVE) as [service]:
        database = os.pidfd_open(postmaster(home))
        signal.pidfd_send_signal(database, signal.SIGTERM)
        os.close(database)
        assert service.stop() == 0, service.output
    assert "postgres." not in service.output
    assert not (home / "postgres/data/postmaster.pid").exists()
