"""The embedded database survives what happens to machines, and says what it cannot survive."""

import os
import select
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from quillpost.core.database.embedded.binaries import choose_server_account, find_binaries
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.errors import NotReady
from support.postgres_home import PREPARE, QUICK, ask, make_home, parent_of_a_server, postmaster_of

pytestmark = pytest.mark.costly

IS_ROOT = os.geteuid() == 0

MakesServers = Callable[..., EmbeddedPostgres]

# After the imports: root's own Python may be closed to others.
BECOME_ORDINARY_USER = """
if os.geteuid() == 0:
    nobody = pwd.getpwnam("nobody")
    os.setgroups([]); os.setgid(nobody.pw_gid); os.setuid(nobody.pw_uid)
"""


@pytest.fixture
def home() -> Iterator[Path]:
    with make_home() as home:
        yield home


@pytest.fixture
def make(home: Path) -> Iterator[MakesServers]:
    made: list[EmbeddedPostgres] = []

    def maker(place: Path = home, **options: object) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(place, settings=QUICK, **options))  # type: ignore[arg-type]
        return made[-1]

    yield maker
    for server in reversed(made):
        server.stop()


def fake_postgres(folder: Path, *, postgres: str, initdb: str = "exit 0") -> Path:
    """A folder of programs that fail as real ones would."""
    folder.mkdir()
    for name, script in {"postgres": postgres, "initdb": initdb}.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


def run(code: str, *arguments: Path) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_first_start_creates_the_database(make: MakesServers) -> None:
    server = make()
    server.start()
    assert ask(server, "select current_database()") == "quillpost"
    assert ask(server, "select datlocale from pg_database where datname = 'quillpost'") == "C.UTF-8"
    assert ask(server, "show listen_addresses") == ""
    assert ask(server, "show fsync") == "off"


def test_the_address_is_understood_as_well(make: MakesServers) -> None:
    server = make()
    server.start()
    with psycopg.connect(server.url(database="postgres")) as connection:
        assert connection.info.dbname == "postgres"


def test_a_server_that_was_not_started_has_no_address(make: MakesServers) -> None:
    with pytest.raises(NotReady, match="has not been started"):
        make().conninfo()


def test_a_restart_keeps_the_data(make: MakesServers) -> None:
    server = make()
    server.start()
    ask(server, "create table kept as select 7 as number")
    server.stop()
    server.start()
    assert ask(server, "select number from kept") == 7


def test_starting_twice_is_starting_once(make: MakesServers, home: Path) -> None:
    server = make()
    server.start()
    postmaster = postmaster_of(home)
    server.start()
    assert postmaster_of(home) == postmaster
    assert not server.is_adopted


def test_a_killed_postmaster_loses_nothing(make: MakesServers, home: Path) -> None:
    server = make()
    server.start()
    ask(server, "create table kept as select 7 as number")
    os.kill(postmaster_of(home), signal.SIGKILL)
    server.start()
    assert ask(server, "select number from kept") == 7


def test_a_killed_parent_leaves_nothing_in_the_way(make: MakesServers, home: Path) -> None:
    with parent_of_a_server(home) as parent:
        orphan = postmaster_of(home)
        parent.kill()
    server = make()
    server.start()
    assert ask(server, "select 7") == 7
    assert server.is_adopted == (postmaster_of(home) == orphan)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent")
def test_the_server_ends_with_a_killed_parent(home: Path) -> None:
    with parent_of_a_server(home) as parent:
        server = os.pidfd_open(postmaster_of(home))
        parent.kill()
    select.select([server], [], [])  # readable when the process has ended
    os.close(server)
    assert "received fast shutdown request" in (home / "postgres/postgres.log").read_text()


def test_a_stale_pid_file_that_names_another_process_is_disowned(make: MakesServers, home: Path) -> None:
    server = make()
    server.start()
    pid_file = home / "postgres/data/postmaster.pid"
    text = pid_file.read_text()
    server.stop()
    # It must be a process of the server's own account: PostgreSQL sees through the others itself.
    identity = choose_server_account(home / "postgres").process_identity()
    with subprocess.Popen(["sleep", "600"], **identity) as stranger:
        pid_file.write_text(text.replace(text.split()[0], str(stranger.pid), 1))
        server.start()
        assert ask(server, "select 7") == 7
        assert stranger.poll() is None
        stranger.kill()


def test_a_pid_file_cut_short_by_a_crash_is_removed(make: MakesServers, home: Path) -> None:
    server = make()
    server.start()
    server.stop()
    (home / "postgres/data/postmaster.pid").touch()
    server.start()
    assert ask(server, "select 7") == 7


def test_an_interrupted_first_start_is_repeated(make: MakesServers, home: Path) -> None:
    half = home / "postgres/data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    server = make()
    server.start()
    assert ask(server, "select 7") == 7


def test_a_long_path_keeps_its_socket_elsewhere_and_private(make: MakesServers, home: Path) -> None:
    server = make(home / ("long" * 30))
    server.start()
    socket_folder = Path(str(ask(server, "show unix_socket_directories")))
    assert home not in socket_folder.parents
    assert stat.S_IMODE(socket_folder.stat().st_mode) == 0o700
    server.stop()
    socket_folder.rmdir()


def test_a_second_process_adopts_the_server_and_leaves_it_running(make: MakesServers, home: Path) -> None:
    server = make()
    server.start()
    postmaster = postmaster_of(home)
    assert run(PREPARE + "server.start(); print(server.is_adopted); server.stop()", home) == "True"
    assert postmaster_of(home) == postmaster
    assert ask(server, "select 7") == 7


def test_a_server_started_on_a_passing_thread_outlives_it(make: MakesServers) -> None:
    server = make()
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    assert ask(server, "select 7") == 7


def test_an_ordinary_user_can_run_it(home: Path) -> None:
    home.chmod(0o777)
    find_binaries().copy_to(home)  # root's checkout may be closed to others
    bin_folder = find_binaries().moved_to(home).folder
    question = 'psycopg.connect(server.conninfo()).execute("select 7").fetchone()'
    code = PREPARE + BECOME_ORDINARY_USER + f"server.start(); print({question}); server.stop()"
    assert run(code, home / "ours", bin_folder) == "(7,)"
    assert (home / "ours/postgres/data").stat().st_uid != 0


@pytest.mark.skipif(not IS_ROOT, reason="an ordinary user runs the server as itself")
def test_for_root_the_server_runs_unprivileged(make: MakesServers, home: Path) -> None:
    make().start()
    assert Path(f"/proc/{postmaster_of(home)}").stat().st_uid != 0


@pytest.mark.skipif(not IS_ROOT, reason="an ordinary user reaches its own folders")
def test_for_root_closed_folders_are_replaced_by_open_ones(make: MakesServers, home: Path) -> None:
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


@pytest.mark.skipif(not IS_ROOT, reason="an ordinary user reaches its own folders")
def test_a_cluster_behind_a_closed_folder_is_named(make: MakesServers, home: Path) -> None:
    closed = home / "closed"
    closed.mkdir(mode=0o755)
    server = make(closed)
    server.start()
    server.stop()
    closed.chmod(0o700)
    with pytest.raises(NotReady, match=f"cannot pass through {closed}"):
        server.start()


def test_a_home_that_is_not_writable_is_one_sentence(home: Path) -> None:
    home.chmod(0o555)
    sentence = "try: server.start()\nexcept NotReady as fault: print(fault)"
    assert "no permission for" in run(PREPARE + BECOME_ORDINARY_USER + sentence, home / "var")
    home.chmod(0o755)


def test_a_full_disk_is_one_sentence(make: MakesServers, home: Path) -> None:
    full = "echo 'initdb: error: could not write file: No space left on device' >&2; exit 1"
    folder = fake_postgres(home / "bin", postgres="echo 'postgres (PostgreSQL) 18.6'", initdb=full)
    with pytest.raises(NotReady, match="could not create its data: the disk is full"):
        make(bin_folder=folder).start()


def test_data_of_another_major_version_is_one_sentence(make: MakesServers, home: Path) -> None:
    server = make()
    server.start()
    server.stop()
    (home / "postgres/data/PG_VERSION").write_text("16\n")
    with pytest.raises(NotReady, match="written by PostgreSQL 16, and this is"):
        server.start()


def test_a_server_that_ends_at_once_gives_its_reason(make: MakesServers, home: Path) -> None:
    server = make()
    server.start()
    server.stop()
    (home / "postgres/data/global/pg_control").unlink()
    with pytest.raises(NotReady, match=r"did not start: .*pg_control"):
        server.start()


def test_a_missing_library_is_one_sentence(make: MakesServers, home: Path) -> None:
    missing = "echo 'error while loading shared libraries: libz.so.1' >&2; exit 127"
    folder = fake_postgres(home / "bin", postgres=missing)
    with pytest.raises(NotReady, match="cannot run: error while loading shared libraries: libz"):
        make(bin_folder=folder).start()


def test_an_old_postgres_is_one_sentence(make: MakesServers, home: Path) -> None:
    folder = fake_postgres(home / "bin", postgres="echo 'postgres (PostgreSQL) 15.8 (Debian)'")
    with pytest.raises(NotReady, match=r"PostgreSQL 15\.8 .* is too old"):
        make(bin_folder=folder).start()


def test_an_empty_folder_is_no_postgres(make: MakesServers, home: Path) -> None:
    with pytest.raises(NotReady, match="no complete PostgreSQL"):
        make(bin_folder=home).start()
