"""The embedded database: what it survives, who starts it again when it ends, and what it says it cannot survive."""

import fcntl
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from quillpost.core.database.embedded.binaries import choose_server_account, find_binaries
from quillpost.core.database.embedded.server import EmbeddedPostgres, PostgresSupervisor, SupervisorTiming
from quillpost.core.errors import NotReady
from support.processes import until

pytestmark = pytest.mark.costly

IS_ROOT = os.geteuid() == 0
QUICK = {"fsync": "off"}
PREPARE = """
import os, pwd, sys
from pathlib import Path
import psycopg
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.errors import NotReady
home, bin_folder = Path(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2:] else None
server = EmbeddedPostgres(home, bin_folder=bin_folder, settings={"fsync": "off"})
"""
# After the imports: root's own Python may be closed to others.
BECOME_ORDINARY_USER = """
if os.geteuid() == 0:
    nobody = pwd.getpwnam("nobody")
    os.setgroups([]); os.setgid(nobody.pw_gid); os.setuid(nobody.pw_uid)
"""

MakesServers = Callable[..., EmbeddedPostgres]


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that every account can reach, as pytest's own temporary folders are not."""
    folder = Path(tempfile.mkdtemp(prefix="qp-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def make(home: Path) -> Iterator[MakesServers]:
    made: list[EmbeddedPostgres] = []

    def maker(place: Path = home, **options: object) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(place, settings=QUICK, **options))  # type: ignore[arg-type]
        return made[-1]

    yield maker
    for server in reversed(made):
        server.stop()


def ask(server: EmbeddedPostgres, question: str) -> object:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        cursor = connection.execute(question)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def postmaster_of(home: Path) -> int:
    return int((home / "postgres/data/postmaster.pid").read_text().split()[0])


def kill(home: Path, number: int = signal.SIGKILL) -> int:
    pid = postmaster_of(home)
    os.kill(pid, number)
    return pid


def run(code: str, *arguments: Path) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def parent_of_a_server(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has started the server and now waits."""
    code = PREPARE + "server.start(); print('ready', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        yield parent


def test_the_first_start_creates_the_database_and_a_second_one_changes_nothing(make: MakesServers, home: Path) -> None:
    half = home / "postgres/data.new"  # of a first start that was interrupted
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    server = make()
    with pytest.raises(NotReady, match="has not been started"):
        server.conninfo()
    starting = threading.Thread(target=server.start)  # it outlives a thread that passes
    starting.start()
    starting.join()
    assert ask(server, "select current_database()") == "quillpost"
    assert ask(server, "select datlocale from pg_database where datname = 'quillpost'") == "C.UTF-8"
    assert (ask(server, "show listen_addresses"), ask(server, "show fsync")) == ("", "off")
    with psycopg.connect(server.url(database="postgres")) as connection:
        assert connection.info.dbname == "postgres"
    postmaster = postmaster_of(home)
    if IS_ROOT:
        assert Path(f"/proc/{postmaster}").stat().st_uid != 0, "for root it runs unprivileged"
    server.start()
    assert (postmaster_of(home), server.is_adopted) == (postmaster, False)
    adopt = PREPARE + "server.start(); print(server.is_adopted); server.stop()"
    assert run(adopt, home) == "True", "a second process adopts it, and leaves it running"
    assert (postmaster_of(home), ask(server, "select 7")) == (postmaster, 7)


def test_no_kill_and_no_crash_loses_data_and_unusable_data_is_one_sentence(make: MakesServers, home: Path) -> None:
    pid_file = home / "postgres/data/postmaster.pid"
    server = make()
    server.start()
    ask(server, "create table kept as select 7 as number")
    text = pid_file.read_text()
    server.stop()
    server.start()
    assert ask(server, "select number from kept") == 7, "after a restart"
    kill(home)
    server.start()
    assert ask(server, "select number from kept") == 7, "after a kill"
    server.stop()
    pid_file.touch()
    server.start()
    assert ask(server, "select number from kept") == 7, "with a pid file that a crash has cut short"
    server.stop()
    # With a pid file that names another process of the server's own account: PostgreSQL sees through the others itself.
    identity = choose_server_account(home / "postgres").process_identity()
    with subprocess.Popen(["sleep", "600"], **identity) as stranger:
        pid_file.write_text(text.replace(text.split()[0], str(stranger.pid), 1))
        server.start()
        assert ask(server, "select number from kept") == 7
        assert stranger.poll() is None
        stranger.kill()
    server.stop()
    version = (home / "postgres/data/PG_VERSION").read_text()
    (home / "postgres/data/PG_VERSION").write_text("16\n")
    with pytest.raises(NotReady, match="written by PostgreSQL 16, and this is"):
        server.start()
    (home / "postgres/data/PG_VERSION").write_text(version)
    (home / "postgres/data/global/pg_control").unlink()
    with pytest.raises(NotReady, match=r"did not start: .*pg_control"):
        server.start()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent")
def test_the_server_ends_with_a_killed_parent_and_leaves_nothing_in_the_way(make: MakesServers, home: Path) -> None:
    with parent_of_a_server(home) as parent:
        orphan = os.pidfd_open(postmaster_of(home))
        parent.kill()
    select.select([orphan], [], [])  # readable when the process has ended
    os.close(orphan)
    assert "received fast shutdown request" in (home / "postgres/postgres.log").read_text()
    with parent_of_a_server(home) as parent:
        postmaster = postmaster_of(home)
        parent.kill()
    server = make()
    server.start()  # at once, while the other may still be there
    assert ask(server, "select 7") == 7
    assert server.is_adopted == (postmaster_of(home) == postmaster)


def test_a_long_path_keeps_its_socket_elsewhere_and_private(make: MakesServers, home: Path) -> None:
    server = make(home / ("long" * 30))
    server.start()
    socket_folder = Path(str(ask(server, "show unix_socket_directories")))
    assert home not in socket_folder.parents
    assert stat.S_IMODE(socket_folder.stat().st_mode) == 0o700
    server.stop()
    socket_folder.rmdir()


def test_an_ordinary_user_can_run_it(home: Path) -> None:
    home.chmod(0o777)
    find_binaries().copy_to(home)  # root's checkout may be closed to others
    bin_folder = find_binaries().moved_to(home).folder
    question = 'psycopg.connect(server.conninfo()).execute("select 7").fetchone()'
    code = PREPARE + BECOME_ORDINARY_USER + f"server.start(); print({question}); server.stop()"
    assert run(code, home / "ours", bin_folder) == "(7,)"
    assert (home / "ours/postgres/data").stat().st_uid != 0
    home.chmod(0o555)
    sentence = "try: server.start()\nexcept NotReady as fault: print(fault)"
    assert "no permission for" in run(PREPARE + BECOME_ORDINARY_USER + sentence, home / "var")
    home.chmod(0o755)


@pytest.mark.skipif(not IS_ROOT, reason="an ordinary user reaches its own folders")
def test_for_root_closed_folders_are_replaced_by_open_ones_or_named(make: MakesServers, home: Path) -> None:
    closed = home / "closed"
    closed.mkdir(mode=0o700)
    find_binaries().copy_to(closed)
    binaries = find_binaries().moved_to(closed)
    server = make(closed / "var", bin_folder=binaries.folder, fallback_folder=home / "shelter")
    server.start()
    ask(server, "create table kept as select 7 as number")
    assert (closed / "var/postgres").readlink().parent == home / "shelter"
    assert home / "shelter" in server.bin_folder.parents
    server.stop()
    server.start()
    assert ask(server, "select number from kept") == 7

    opened = home / "opened"
    opened.mkdir(mode=0o755)
    other = make(opened)
    other.start()
    other.stop()
    opened.chmod(0o700)
    with pytest.raises(NotReady, match=f"cannot pass through {opened}"):
        other.start()


NO_SPACE = "echo 'initdb: error: could not write file: No space left on device' >&2; exit 1"
UNUSABLE_PROGRAMS: dict[str, tuple[str, str]] = {
    "could not create its data: the disk is full": ("echo 'postgres (PostgreSQL) 18.6'", NO_SPACE),
    "cannot run: error while loading shared libraries: libz": (
        "echo 'error while loading shared libraries: libz.so.1' >&2; exit 127", "exit 0",
    ),
    r"PostgreSQL 15\.8 .* is too old": ("echo 'postgres (PostgreSQL) 15.8 (Debian)'", "exit 0"),
}  # fmt: skip


def test_unusable_programs_are_one_sentence(make: MakesServers, home: Path, subtests: pytest.Subtests) -> None:
    with pytest.raises(NotReady, match="no complete PostgreSQL"):
        make(bin_folder=home).start()
    for number, (sentence, (postgres, initdb)) in enumerate(UNUSABLE_PROGRAMS.items()):
        folder = home / f"bin-{number}"
        folder.mkdir()
        for name, script in (("postgres", postgres), ("initdb", initdb)):
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        with subtests.test(sentence), pytest.raises(NotReady, match=sentence):
            make(bin_folder=folder).start()


BRISK = SupervisorTiming(poll_seconds=0.02, first_delay=0.1, max_delay=0.2, stop_timeout=0.1)


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


def test_a_killed_server_is_started_again_as_often_as_it_ends_and_a_restart_that_fails_says_why(
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
    logs.clear()
    with psycopg.connect(server.conninfo()):  # a server that stops does not wait for our connections for ever
        kill(home, signal.SIGTERM)
        until(logged(logs, "postgres.stop_forced"), what="an end to the stop")
        until(logged(logs, "postgres.restarted"), what="another restart")
    assert ask(server, "select number from kept") == 7
    logs.clear()
    control = home / "postgres/data/global/pg_control"
    aside = control.rename(home / "aside")
    kill(home)
    failed = until(logged(logs, "postgres.restart_failed"), what="a restart that fails")
    assert "pg_control" in failed["reason"]
    assert failed["retry_in_seconds"] > 0
    aside.rename(control)
    until(logged(logs, "postgres.restarted"), what="a restart")
    assert ask(server, "select number from kept") == 7
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


def test_a_stop_amid_a_restart_ends_it(home: Path, supervisor: PostgresSupervisor, logs: list[EventDict]) -> None:
    with (home / "postgres/starting.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # somebody else is at it, for ever
        kill(home)
        until(logged(logs, "postgres.exited"), what="the end noticed")
        stopping = threading.Thread(target=supervisor.stop, daemon=True)
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
