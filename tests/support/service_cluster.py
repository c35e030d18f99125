"""A whole service as its processes, each of which may be killed and comes back: server, worker, database."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import psycopg

from quillpost.app.runtime import upgrade_database
from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.processes import Command, CommandRunner, free_port, until
from support.sender_service import SenderService

Victim = Literal["server", "worker", "database"]
VICTIMS: Sequence[Victim] = ("server", "worker", "database")

# The disk outlives every process, so nothing is lost that was not flushed to it. What was committed must have
# left the server's own memory, though: `synchronous_commit` stays on.
SETTINGS = {"fsync": "off", "full_page_writes": "off"}


class Cluster:
    """A database server of its own, to be killed; its databases are copies of a migrated one."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._server = EmbeddedPostgres(home, settings=SETTINGS)
        self._server.start()
        self._administer("create database template_quillpost")
        upgrade_database(self._server.conninfo("template_quillpost"))

    def make(self, name: str) -> str:
        self._administer(f"create database {name} template template_quillpost strategy file_copy")
        return self._server.conninfo(name)

    def kill(self) -> None:
        """Kill it, and wait until it is back."""
        pid_file = self._home / "postgres" / "data" / "postmaster.pid"
        os.kill(int(pid_file.read_text().splitlines()[0]), signal.SIGKILL)
        self._server.start()

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def _administer(self, statement: str) -> None:
        with psycopg.connect(self._server.conninfo("postgres"), autocommit=True) as admin:
            admin.execute(statement)


class ServiceProcesses:
    def __init__(self, sender_service: SenderService, command_runner: CommandRunner, cluster: Cluster) -> None:
        self._office, self._command_runner, self._cluster = sender_service, command_runner, cluster
        self._port = free_port()
        self._server, self._worker = self._serve(), self._work()
        self.in_flight: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def kill(self, victim: Victim) -> None:
        """Kill it and start it again. What it was just telling somebody may be told twice."""
        if victim == "database":
            self._cluster.kill()
        elif victim == "server":
            self._server.stop(signal.SIGKILL)
            self._server = self._serve()
        else:
            self._worker.stop(signal.SIGKILL)
            self._worker = self._work()
        self.in_flight += self._office.let_leases_end()

    def tend(self) -> None:
        """As a supervisor does: what ended by itself, since the database was away when it started, begins
        again."""
        if self._server.has_ended():
            self._server = self._serve()
        if self._worker.has_ended():
            self._worker = self._work()

    def tend_until(self, look: Callable[[], bool], *, what: str) -> None:
        def tended() -> bool:
            self.tend()
            return look()

        try:
            until(tended, what=what)
        except AssertionError as vain:
            vain.add_note(self._office.standing())
            vain.add_note(f"The worker's last words:\n{self._worker.output[-2_000:]}")
            raise

    def stop(self) -> None:
        for process in (self._server, self._worker):
            process.stop()

    def _serve(self) -> Command:
        port = str(self._port)
        return self._command_runner.start("serve", "--no-jobs", "--port", port, settings=self._office.settings)

    def _work(self) -> Command:
        return self._command_runner.start("work", settings=self._office.settings)
