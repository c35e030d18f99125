"""The embedded database is started again when it ends, by whoever is there to do it, and by nobody at the
end."""

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from quillpost.core.database.embedded.server import EmbeddedPostgres, PostgresSupervisor, SupervisorTiming
from support.postgres_home import QUICK, ask, make_home, parent_of_a_server, postmaster_of
from support.processes import until

pytestmark = pytest.mark.costly

BRISK = SupervisorTiming(poll_seconds=0.02, first_delay=0.1, max_delay=0.2, stop_timeout=0.1)


@pytest.fixture
def home() -> Iterator[Path]:
    with make_home() as home:
        yield home


@pytest.fixture
def server(home: Path) -> EmbeddedPostgres:
    server = EmbeddedPostgres(home, settings=QUICK)
    server.start()
    return server


@pytest.fixture
def supervisor(server: EmbeddedPostgres) -> Iterator[PostgresSupervisor]:
    supervisor = PostgresSupervisor(server, BRISK)
    supervisor.start()
    yield supervisor
    supervisor.stop()


@pytest.fixture
def logs(supervisor: PostgresSupervisor) -> Iterator[list[EventDict]]:
    del supervisor
    with capture_logs() as lines:
        yield lines


def logged(logs: list[EventDict], event: str) -> Callable[[], EventDict | None]:
    return lambda: next((line for line in list(logs) if line["event"] == event), None)


def kill(home: Path, number: int = signal.SIGKILL) -> int:
    pid = postmaster_of(home)
    os.kill(pid, number)
    return pid


def test_a_killed_server_is_started_again_with_its_data(
    server: EmbeddedPostgres, home: Path, logs: list[EventDict]
) -> None:
    ask(server, "create table kept as select 7 as number")
    dead = kill(home)
    restarted = until(logged(logs, "postgres.restarted"), what="a restart")
    assert restarted["by"] == "this process"
    assert ask(server, "select number from kept") == 7
    assert postmaster_of(home) != dead
    ended = logged(logs, "postgres.exited")()
    assert ended is not None
    assert ended["exit_code"] == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):  # no zombie is left of it
        os.kill(dead, 0)


def test_it_is_started_again_as_often_as_it_ends(server: EmbeddedPostgres, home: Path, logs: list[EventDict]) -> None:
    for _ in range(2):
        logs.clear()
        kill(home)
        until(logged(logs, "postgres.restarted"), what="a restart")
    assert ask(server, "select 7") == 7


def test_a_stopping_server_does_not_wait_for_our_connections_forever(
    server: EmbeddedPostgres, home: Path, logs: list[EventDict]
) -> None:
    with psycopg.connect(server.conninfo()):
        kill(home, signal.SIGTERM)
        until(logged(logs, "postgres.stop_forced"), what="an end to the stop")
        until(logged(logs, "postgres.restarted"), what="a restart")
    assert ask(server, "select 7") == 7


def test_a_restart_that_fails_says_why_and_is_tried_again(
    server: EmbeddedPostgres, home: Path, logs: list[EventDict]
) -> None:
    control = home / "postgres/data/global/pg_control"
    aside = control.rename(home / "aside")
    kill(home)
    failed = until(logged(logs, "postgres.restart_failed"), what="a restart that fails")
    assert "pg_control" in failed["reason"]
    assert failed["retry_in_seconds"] > 0
    aside.rename(control)
    until(logged(logs, "postgres.restarted"), what="a restart")
    assert ask(server, "select 7") == 7


def test_pauses_grow_up_to_the_longest() -> None:
    pace = SupervisorTiming(first_delay=1, max_delay=30)
    assert [pace.delay_before(n) for n in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]


def test_nothing_is_started_once_the_service_stops(
    server: EmbeddedPostgres, home: Path, supervisor: PostgresSupervisor, logs: list[EventDict]
) -> None:
    supervisor.disable_restarts()
    kill(home)
    supervisor.stop()
    assert not logs
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(host=str(home / "postgres/run"), user="postgres", dbname="postgres")


def test_a_stop_in_the_middle_of_a_restart_ends_it(
    home: Path, supervisor: PostgresSupervisor, logs: list[EventDict]
) -> None:
    with (home / "postgres/starting.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # somebody else is at it, for ever
        kill(home)
        until(logged(logs, "postgres.exited"), what="the end noticed")
        stopping = Thread(target=supervisor.stop, daemon=True)
        stopping.start()
        stopping.join(30)
        assert not stopping.is_alive()
    assert logged(logs, "postgres.restarted")() is None


def test_the_process_that_adopted_a_server_starts_the_next_one(home: Path) -> None:
    with parent_of_a_server(home) as parent, capture_logs() as logs:
        server = EmbeddedPostgres(home, settings=QUICK)
        server.start()
        supervisor = PostgresSupervisor(server, BRISK)
        supervisor.start()
        try:
            parent.kill()  # and its server ends with it
            restarted = until(logged(logs, "postgres.restarted"), what="a restart")
            assert restarted["by"] == "this process"
            assert ask(server, "select 7") == 7
        finally:
            supervisor.stop()


def test_of_two_supervisors_one_starts_it_and_the_other_follows(home: Path) -> None:
    servers = [EmbeddedPostgres(home, settings=QUICK) for _ in range(2)]
    for server in servers:
        server.start()
    supervisors = [PostgresSupervisor(server, BRISK) for server in servers]
    with capture_logs() as logs:
        for supervisor in supervisors:
            supervisor.start()
        try:
            kill(home)
            until(lambda: [line for line in list(logs) if line["event"] == "postgres.exited"], what="its end")
            until(logged(logs, "postgres.restarted"), what="a restart")
            until(lambda: all(not server.has_ended for server in servers), what="both at rest")
            assert sum(not server.is_adopted for server in servers) == 1
            assert ask(servers[0], "select 7") == 7
        finally:
            # The one that follows lets go first: nobody is left to start what the other stops.
            for supervisor in sorted(supervisors, key=lambda each: not each._server.is_adopted):
                supervisor.stop()
