"""One PostgreSQL cluster on disk: create it, start or adopt its server, stop it."""

import ctypes
import errno
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psycopg

from quillpost.core.database.embedded.accounts import Account
from quillpost.core.database.embedded.binaries import Binaries
from quillpost.core.errors import NotReady

NO_PROCESS = 2**30  # no system counts its processes that far
STATUS_LINE = 8


def disown_if_stale(data: Path) -> None:
    """Free a data folder whose `postmaster.pid` names a process that is not its server.

    After a crash of the machine or a restart of the container that number may belong to anyone,
    and PostgreSQL would believe its server alive. Only the number is replaced: by the rest of
    the file PostgreSQL still notices orphaned backends, and waits for them.
    """
    file = data / "postmaster.pid"
    try:
        text = file.read_text()
    except FileNotFoundError:
        return
    pid, _, rest = text.partition("\n")
    if not pid.isdecimal():  # cut short by a crash; PostgreSQL would not touch it
        file.unlink()
    elif not _serves(int(pid), data):
        file.write_text(f"{NO_PROCESS}\n{rest}")


def read_pid(data: Path) -> int | None:
    """The process that the file names."""
    lines = _lines(data)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def read_status(data: Path) -> str | None:
    """What the server says of itself: starting, ready, standby or stopping."""
    lines = _lines(data)
    return lines[STATUS_LINE - 1].strip() if len(lines) >= STATUS_LINE else None


def is_served(data: Path) -> bool:
    """Whether the process that the file names is there, and a server of this data."""
    pid = read_pid(data)
    return pid is not None and _serves(pid, data)


def _lines(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def _serves(pid: int, data: Path) -> bool:
    """Whether that process is a server of this data; in doubt, yes."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cwd").samefile(data)  # a server works in its data folder
        except FileNotFoundError:  # gone, or a zombie
            return False
        except PermissionError:
            return True
    else:
        command = ["ps", "-p", str(pid), "-o", "comm="]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        return "postgres" in answer.stdout


SUPERUSER = "postgres"
PORT = 5432  # only part of the socket's name: nothing listens on the network
LONGEST_SOCKET_PATH = 100  # the kernel allows 107 bytes, macOS 103
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/"}

PATIENCE_TO_START = 120.0  # seconds; a long recovery after a crash is normal work
PATIENCE_TO_STOP = 60.0
BETWEEN_LOOKS = 0.02
BETWEEN_ATTEMPTS = 0.25

# A server that is on its way out still holds these; another attempt a moment later succeeds.
PASSING_FAULTS = ('lock file "postmaster.pid" already exists', "pre-existing shared memory block")
NO_SPACE = os.strerror(errno.ENOSPC)
PR_SET_PDEATHSIG = 1


class Cluster:
    """The files of one PostgreSQL on disk, and what can be done with them."""

    def __init__(self, folder: Path, account: Account, binaries: Binaries) -> None:
        self.account = account
        self.binaries = binaries
        self._folder = folder
        self._data = folder / "data"
        self._log = folder / "postgres.log"
        self.socket_folder = self._choose_socket_folder()

    @property
    def is_served(self) -> bool:
        return is_served(self._data)

    @property
    def is_stopping(self) -> bool:
        return read_status(self._data) == "stopping"

    def signal(self, number: int) -> None:
        pid = read_pid(self._data)
        if pid is not None and self.is_served:
            os.kill(pid, number)

    @contextmanager
    def one_starter_at_a_time(self, is_wanted: Callable[[], bool] = lambda: True) -> Iterator[None]:
        with (self._folder / "starting.lock").open("w") as lock:
            while not _is_taken(lock):
                _require(is_wanted())
                time.sleep(BETWEEN_LOOKS)
            yield

    def adopt_or_launch(
        self,
        settings: Mapping[str, str],
        *,
        is_tied: bool,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> subprocess.Popen[bytes] | None:
        """The process of a server that we started, or None for one that was there already. A server that
        `is_tied` ends with the thread that calls this."""
        self.account.own(self._folder)
        self._make_private(self.socket_folder)
        if not self._data.exists():
            self._initialise(synced=settings.get("fsync") != "off")
        self._check_version()
        deadline = time.monotonic() + PATIENCE_TO_START
        while True:
            _require(is_wanted())
            if self.answers():
                return None
            disown_if_stale(self._data)
            self._write_access_rules()
            server, fault = self._launch(settings, deadline, is_tied=is_tied, is_wanted=is_wanted)
            if fault is None:
                return server
            if time.monotonic() > deadline or not any(known in fault for known in PASSING_FAULTS):
                raise NotReady(f"PostgreSQL did not start: {fault} (more in {self._log}).")
            time.sleep(BETWEEN_ATTEMPTS)

    def answers(self) -> bool:
        """Whether a server takes connections on our socket."""
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def ensure_database(self, name: str) -> None:
        """Create the database unless it is there."""
        with self._connect() as connection:
            known = connection.execute("select from pg_database where datname = %s", [name])
            if known.fetchone() is None:
                connection.execute(f'create database "{name}"')

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=str(self.socket_folder),
            port=PORT,
            user=SUPERUSER,
            dbname="postgres",
            connect_timeout=5,
            autocommit=True,
        )

    def _choose_socket_folder(self) -> Path:
        beside = self._folder / "run"
        if len(os.fsencode(beside / f".s.PGSQL.{PORT}")) <= LONGEST_SOCKET_PATH:
            return beside
        # Not TMPDIR: it can be too long itself, and another process may have a different one.
        digest = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:16]
        return Path("/tmp") / f"quillpost-{self.account.uid}-{digest}"  # noqa: S108

    def _make_private(self, folder: Path) -> None:
        """Create it for the server's account alone; in /tmp anyone could have been first."""
        try:
            folder.mkdir(mode=0o700)
            self.account.own(folder)
        except FileExistsError:
            if folder.is_symlink() or folder.stat().st_uid != self.account.uid:
                raise NotReady(
                    f"The folder {folder} must belong to {self.account.name}: remove it."
                ) from None
            folder.chmod(0o700)

    def _initialise(self, *, synced: bool) -> None:
        """Create the data folder under another name first: an interrupted start leaves no half."""
        half = self._folder / "data.new"
        shutil.rmtree(half, ignore_errors=True)
        command = [
            self.binaries.program("initdb"),
            f"--pgdata={half}",
            f"--username={SUPERUSER}",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--locale=C.UTF-8",
            "--auth-local=peer",
            "--auth-host=scram-sha-256",
            "--no-instructions",
        ]
        made = subprocess.run(
            command if synced else [*command, "--no-sync"],
            env=ENVIRONMENT,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            **self.account.identity(),
        )
        if made.returncode != 0:
            raise NotReady(f"PostgreSQL could not create its data: {_fault_in(made.stderr)}.")
        half.rename(self._data)

    def _check_version(self) -> None:
        theirs = (self._data / "PG_VERSION").read_text().strip()
        if theirs != str(self.binaries.major):
            raise NotReady(
                f"The data in {self._data} was written by PostgreSQL {theirs}, and this is "
                f"PostgreSQL {self.binaries.major}: move it with `quillpost backup` and `restore`."
            )

    def _write_access_rules(self) -> None:
        """Let the accounts that run us in as any role, and nobody else; passwords over TCP."""
        ours = {"root", self.account.name, Account.of_uid(os.geteuid()).name}
        rules = {
            "pg_hba.conf": "local all all peer map=quillpost\nhost all all all scram-sha-256\n",
            "pg_ident.conf": "".join(f'quillpost "{name}" all\n' for name in sorted(ours)),
        }
        for name, text in rules.items():
            file = self._data / name
            file.write_text(text)
            self.account.own(file)

    def _launch(
        self,
        settings: Mapping[str, str],
        deadline: float,
        *,
        is_tied: bool,
        is_wanted: Callable[[], bool],
    ) -> tuple[subprocess.Popen[bytes], str | None]:
        """A server that answers, or one that has ended and what it said last."""
        options = {**settings, "unix_socket_directories": str(self.socket_folder)}
        with self._log.open("ab") as log:
            self.account.own(self._log)
            already_written = log.tell()
            server = subprocess.Popen(
                [
                    self.binaries.program("postgres"),
                    f"-D{self._data}",
                    *(f"--{name}={value}" for name, value in options.items()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,  # Ctrl-C at the terminal is ours to pass on
                preexec_fn=_tie_to_this_thread() if is_tied else None,
                **self.account.identity(),
            )
        try:
            while server.poll() is None:
                _require(is_wanted())
                if self.answers():
                    return server, None
                if time.monotonic() > deadline:
                    raise NotReady(f"PostgreSQL takes too long to start (see {self._log}).")
                time.sleep(BETWEEN_LOOKS)
        except BaseException:
            stop_server(server)
            raise
        with self._log.open("rb") as log:
            log.seek(already_written)
            return server, _fault_in(log.read().decode(errors="replace"))


def _is_taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _require(is_wanted: bool) -> None:
    if not is_wanted:
        raise NotReady("The service stops: the embedded database is not started again.")


def _tie_to_this_thread() -> Callable[[], None] | None:
    """What the child does just before it becomes the server, so that it ends when we do."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # found before the fork, where loading is still safe
    parent = os.getpid()

    def tie() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGINT)
        if os.getppid() != parent:  # killed before the tie was made
            os._exit(1)

    return tie


def stop_server(server: subprocess.Popen[bytes]) -> None:
    """Stop without waiting for clients; and at once, as in a crash, if even that takes too long."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(PATIENCE_TO_STOP)
    except subprocess.TimeoutExpired:
        server.send_signal(signal.SIGQUIT)
        server.wait()


def _fault_in(output: str) -> str:
    """The line that explains a failure, among all that PostgreSQL writes."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any(NO_SPACE in line for line in lines):
        return "the disk is full"
    grave = [
        line.partition(mark)[2].strip()
        for line in lines
        for mark in ("FATAL:", "PANIC:", "fatal:", "error:")
        if mark in line and "the database system is " not in line
    ]
    return (grave or lines or ["it ended without a word"])[-1].rstrip(".")
