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

from quillpost.core.database.embedded.binaries import PostgresBinaries, SystemAccount
from quillpost.core.errors import NotReady

UNUSED_PID = 2**30  # no system counts its processes that far
STATUS_LINE_NUMBER = 8


def release_stale_pid_file(data_folder: Path) -> None:
    """Free a data folder whose `postmaster.pid` names a process that is not its server. After a crash or a restart of
    the container that number may belong to any process, and PostgreSQL would believe its server alive. Only the number
    is replaced: by the rest of the file PostgreSQL still notices orphaned backends, and waits for them."""
    file = data_folder / "postmaster.pid"
    try:
        text = file.read_text()
    except FileNotFoundError:
        return
    pid, _, remaining_text = text.partition("\n")
    if not pid.isdecimal():  # cut short by a crash; PostgreSQL would not touch it
        file.unlink()
    elif not _is_server_process(int(pid), data_folder):
        file.write_text(f"{UNUSED_PID}\n{remaining_text}")


def read_pid(data_folder: Path) -> int | None:
    lines = _read_pid_file_lines(data_folder)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def read_status(data_folder: Path) -> str | None:
    """starting, ready, standby or stopping."""
    lines = _read_pid_file_lines(data_folder)
    return lines[STATUS_LINE_NUMBER - 1].strip() if len(lines) >= STATUS_LINE_NUMBER else None


def is_server_running(data_folder: Path) -> bool:
    pid = read_pid(data_folder)
    return pid is not None and _is_server_process(pid, data_folder)


def _read_pid_file_lines(data_folder: Path) -> list[str]:
    try:
        return (data_folder / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def _is_server_process(pid: int, data_folder: Path) -> bool:
    """True in doubt."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cwd").samefile(data_folder)  # a server works in its data folder
        except FileNotFoundError:  # gone, or a zombie
            return False
        except PermissionError:
            return True
    else:
        command = ["ps", "-p", str(pid), "-o", "comm="]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return "postgres" in result.stdout


SUPERUSER = "postgres"
SOCKET_PORT = 5432  # only part of the socket's name: nothing listens on the network
MAX_SOCKET_PATH_BYTES = 100  # the kernel allows 107 bytes, macOS 103
SERVER_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/"}

START_TIMEOUT_SECONDS = 120.0  # seconds; a long recovery after a crash is normal work
STOP_TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.02
RETRY_SECONDS = 0.25

# A server that is on its way out still holds these; another attempt a moment later succeeds.
TRANSIENT_ERRORS = ('lock file "postmaster.pid" already exists', "pre-existing shared memory block")
NO_SPACE_MESSAGE = os.strerror(errno.ENOSPC)
PR_SET_PDEATHSIG = 1


class PostgresCluster:
    def __init__(self, folder: Path, account: SystemAccount, binaries: PostgresBinaries) -> None:
        self.account = account
        self.binaries = binaries
        self._folder = folder
        self._data_folder = folder / "data"
        self._log_file = folder / "postgres.log"
        self.socket_folder = self._choose_socket_folder()

    @property
    def is_server_running(self) -> bool:
        return is_server_running(self._data_folder)

    @property
    def is_stopping(self) -> bool:
        return read_status(self._data_folder) == "stopping"

    def send_signal(self, signal_number: int) -> None:
        pid = read_pid(self._data_folder)
        if pid is not None and self.is_server_running:
            os.kill(pid, signal_number)

    @contextmanager
    def start_lock(self, is_still_needed: Callable[[], bool] = lambda: True) -> Iterator[None]:
        with (self._folder / "starting.lock").open("w") as lock:
            while not _try_lock(lock):
                _require_still_needed(is_still_needed())
                time.sleep(POLL_SECONDS)
            yield

    def adopt_or_launch(
        self, settings: Mapping[str, str], *, ends_with_thread: bool, is_still_needed: Callable[[], bool] = lambda: True
    ) -> subprocess.Popen[bytes] | None:
        """None if a server was running already. With `ends_with_thread` the server ends with the calling thread."""
        self.account.take_ownership(self._folder)
        self._make_private(self.socket_folder)
        if not self._data_folder.exists():
            self._initialize(is_synced=settings.get("fsync") != "off")
        self._check_version()
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            _require_still_needed(is_still_needed())
            if self.accepts_connections():
                return None
            release_stale_pid_file(self._data_folder)
            self._write_access_rules()
            server, error = self._launch(
                settings, deadline, ends_with_thread=ends_with_thread, is_still_needed=is_still_needed
            )
            if error is None:
                return server
            if time.monotonic() > deadline or not any(transient_error in error for transient_error in TRANSIENT_ERRORS):
                raise NotReady(f"PostgreSQL did not start: {error} (more in {self._log_file}).")
            time.sleep(RETRY_SECONDS)

    def accepts_connections(self) -> bool:
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def ensure_database(self, name: str) -> None:
        with self._connect() as connection:
            existing = connection.execute("select from pg_database where datname = %s", [name])
            if existing.fetchone() is None:
                connection.execute(f'create database "{name}"')

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=str(self.socket_folder),
            port=SOCKET_PORT,
            user=SUPERUSER,
            dbname="postgres",
            connect_timeout=5,
            autocommit=True,
        )

    def _choose_socket_folder(self) -> Path:
        preferred = self._folder / "run"
        if len(os.fsencode(preferred / f".s.PGSQL.{SOCKET_PORT}")) <= MAX_SOCKET_PATH_BYTES:
            return preferred
        # Not TMPDIR: it can be too long itself, and another process may have a different one.
        digest = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:16]
        return Path("/tmp") / f"quillpost-{self.account.uid}-{digest}"  # noqa: S108

    def _make_private(self, folder: Path) -> None:
        """For the server's account only; in /tmp anyone could have been first."""
        try:
            folder.mkdir(mode=0o700)
            self.account.take_ownership(folder)
        except FileExistsError:
            if folder.is_symlink() or folder.stat().st_uid != self.account.uid:
                raise NotReady(f"The folder {folder} must belong to {self.account.name}: remove it.") from None
            folder.chmod(0o700)

    def _initialize(self, *, is_synced: bool) -> None:
        """Under another name first: an interrupted start leaves no half."""
        temporary_folder = self._folder / "data.new"
        shutil.rmtree(temporary_folder, ignore_errors=True)
        command = [
            self.binaries.program_path("initdb"),
            f"--pgdata={temporary_folder}",
            f"--username={SUPERUSER}",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--locale=C.UTF-8",
            "--auth-local=peer",
            "--auth-host=scram-sha-256",
            "--no-instructions",
        ]
        result = subprocess.run(
            command if is_synced else [*command, "--no-sync"],
            env=SERVER_ENVIRONMENT,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            **self.account.process_identity(),
        )
        if result.returncode != 0:
            raise NotReady(f"PostgreSQL could not create its data: {_find_error(result.stderr)}.")
        temporary_folder.rename(self._data_folder)

    def _check_version(self) -> None:
        data_version = (self._data_folder / "PG_VERSION").read_text().strip()
        if data_version != str(self.binaries.major_version):
            raise NotReady(
                f"The data in {self._data_folder} was written by PostgreSQL {data_version}, and this is "
                f"PostgreSQL {self.binaries.major_version}: move it with `quillpost backup` and `restore`."
            )

    def _write_access_rules(self) -> None:
        """The accounts that run us may log in as any role; passwords over TCP."""
        account_names = {"root", self.account.name, SystemAccount.from_uid(os.geteuid()).name}
        rules = {
            "pg_hba.conf": "local all all peer map=quillpost\nhost all all all scram-sha-256\n",
            "pg_ident.conf": "".join(f'quillpost "{name}" all\n' for name in sorted(account_names)),
        }
        for name, text in rules.items():
            file = self._data_folder / name
            file.write_text(text)
            self.account.take_ownership(file)

    def _launch(
        self,
        settings: Mapping[str, str],
        deadline: float,
        *,
        ends_with_thread: bool,
        is_still_needed: Callable[[], bool],
    ) -> tuple[subprocess.Popen[bytes], str | None]:
        """A server that answers, or one that has ended and its last message."""
        options = {**settings, "unix_socket_directories": str(self.socket_folder)}
        with self._log_file.open("ab") as log:
            self.account.take_ownership(self._log_file)
            log_start = log.tell()
            server = subprocess.Popen(
                [
                    self.binaries.program_path("postgres"),
                    f"-D{self._data_folder}",
                    *(f"--{name}={value}" for name, value in options.items()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=SERVER_ENVIRONMENT,
                cwd="/",
                start_new_session=True,  # Ctrl-C at the terminal is ours to pass on
                preexec_fn=_end_with_this_thread() if ends_with_thread else None,
                **self.account.process_identity(),
            )
        try:
            while server.poll() is None:
                _require_still_needed(is_still_needed())
                if self.accepts_connections():
                    return server, None
                if time.monotonic() > deadline:
                    raise NotReady(f"PostgreSQL takes too long to start (see {self._log_file}).")
                time.sleep(POLL_SECONDS)
        except BaseException:
            stop_server(server)
            raise
        with self._log_file.open("rb") as log:
            log.seek(log_start)
            return server, _find_error(log.read().decode(errors="replace"))


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _require_still_needed(is_still_needed: bool) -> None:
    if not is_still_needed:
        raise NotReady("The service stops: the embedded database is not started again.")


def _end_with_this_thread() -> Callable[[], None] | None:
    """Runs in the child before it becomes the server."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # found before the fork, where loading is still safe
    parent = os.getpid()

    def end_with_parent() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGINT)
        if os.getppid() != parent:  # killed before the tie was made
            os._exit(1)

    return end_with_parent


def stop_server(server: subprocess.Popen[bytes]) -> None:
    """Without waiting for clients; at once, as in a crash, if that takes too long."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        server.send_signal(signal.SIGQUIT)
        server.wait()


def _find_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any(NO_SPACE_MESSAGE in line for line in lines):
        return "the disk is full"
    error_lines = [
        line.partition(marker)[2].strip()
        for line in lines
        for marker in ("FATAL:", "PANIC:", "fatal:", "error:")
        if marker in line and "the database system is " not in line
    ]
    return (error_lines or lines or ["it ended without a word"])[-1].rstrip(".")
