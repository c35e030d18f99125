"""The service as processes of its own, on a PostgreSQL of its own, with one sender who has a token."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.fulfil.memory import Watch
from quillpost.accounts import service as account_service
from quillpost.accounts.queries import insert_token
from quillpost.app import bootstrap
from quillpost.app.runtime import upgrade_database
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.settings import Settings
from quillpost.core.telemetry import configure_logging
from quillpost.rendering.handwriting.models import DEFAULT_STYLE

# Prepared hands are kept where the tests keep theirs.
_FACES = Path(__file__).parents[2] / ".tools" / "faces"
_ENDLESS = 10**9
_PATIENCE = 3_600.0
_A_MOMENT = 0.02

# What is cleaned up by itself would fall on whoever runs at that time: it is done between the rounds.
_POSTGRES = {"autovacuum": "off"}

_SPAN = """
    select extract(epoch from max(e.at) - min(e.at))
      from procrastinate_events e join procrastinate_jobs j on j.id = e.job_id
     where j.task_name = %s and e.type in ('started', 'succeeded') and j.id > %s
"""
_LEFT = """
    select count(*) from procrastinate_jobs
     where task_name = %s and id > %s and status in ('todo', 'doing')
"""


class Office:
    """Reviews never end by themselves here: each stage begins when it is measured."""

    def __init__(self, home: Path, conninfo: str, watch: Watch) -> None:
        self.home, self.conninfo, self.watch = home, conninfo, watch
        self.admin = psycopg.connect(conninfo, autocommit=True)
        self.settings = Settings(home=home, faces_folder=_FACES, calls_a_minute=_ENDLESS)
        self.parts = bootstrap.build_container(self.settings, conninfo)
        self.parts.renderer.hands.hand(DEFAULT_STYLE.number)
        with self.parts.db.system_transaction() as tx:
            now = self.parts.clock()
            self.account = account_service.create_account(tx, email="bench@example.com", name="Bench", now=now)
            self.token = insert_token(tx, self.account, mode="test", name="bench", now=now)[1]
        self._processes: list[subprocess.Popen[bytes]] = []
        self.more_settings: dict[str, str] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])

    def close(self) -> None:
        self.admin.close()
        self.parts.db.close()

    @contextmanager
    def running(self, *words: str) -> Iterator[int]:
        """`quillpost` with these words, as long as it is needed; its process."""
        process = self._start(*words)
        self._processes.append(process)
        try:
            yield process.pid
        finally:
            self._processes.remove(process)
            process.send_signal(signal.SIGTERM)
            process.wait(_PATIENCE)

    def run(self, *words: str, name: str) -> None:
        """`quillpost` with these words, until it ends by itself."""
        if self._start(*words, name=name).wait(_PATIENCE) != 0:
            raise RuntimeError(f"It did not succeed: {name}.")

    def _start(self, *words: str, name: str | None = None) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "QUILLPOST_HOME": str(self.home),
            "QUILLPOST_DATABASE_URL": self.conninfo,
            "QUILLPOST_FACES_FOLDER": str(_FACES),
            "QUILLPOST_PORT": str(self._port),
            "QUILLPOST_CALLS_A_MINUTE": str(_ENDLESS),
            "QUILLPOST_TEST_REVIEW_SECONDS": str(7 * 24 * 3_600),
            "QUILLPOST_LOG_LEVEL": "error",
            **self.more_settings,
        }
        run = [sys.executable, "-c", "from quillpost.cli import main; main()", *words]
        # What a command says about its work is no part of the result.
        process = subprocess.Popen(run, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.watch.add(process.pid, name or "quillpost " + " ".join(words))
        return process

    @contextmanager
    def serving(self) -> Iterator[int]:
        with self.running("serve", "--no-jobs") as process:
            self.wait(self._answers, "the server")
            yield process

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"http://127.0.0.1:{self._port}"

    def call(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            return json.load(answer)

    def last_job(self) -> int:
        return int(self.one("select coalesce(max(id), 0) from procrastinate_jobs"))

    def span(self, task: str, after: int) -> float:
        """Seconds from the start of the first job of this task to the end of the last, once all are done."""
        self.wait(lambda: self.one(_LEFT, task, after) == 0, task)
        failed = "select count(*) from procrastinate_jobs where task_name = %s and id > %s and status = 'failed'"
        if self.one(failed, task, after):
            raise RuntimeError(f"A job of {task} failed.")
        return float(self.one(_SPAN, task, after))

    def one(self, query: str, *values: object) -> Any:
        row = self.admin.execute(query, values).fetchone()
        return None if row is None else row[0]

    def tidy(self) -> None:
        """What the round before left to be done is done, on nobody's time."""
        self.admin.execute("truncate fact_queue")
        self.admin.execute("vacuum analyze items, facts, orders, recipients, prints, carrier_scans")
        self.admin.execute("checkpoint")

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def wait(self, look: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not look():
            if time.monotonic() > deadline or any(one.poll() is not None for one in self._processes):
                raise RuntimeError(f"Waited in vain for {what}.")
            time.sleep(_A_MOMENT)


@contextmanager
def open_office() -> Iterator[Office]:
    configure_logging(as_json=False, level="error")
    home = Path(tempfile.mkdtemp(prefix="quillpost-bench-"))
    home.chmod(0o755)
    server = EmbeddedPostgres(home, settings=_POSTGRES)
    server.start()
    try:
        upgrade_database(server.conninfo())
        with Watch() as watch:
            office = Office(home, server.conninfo(), watch)
            watch.add_children_of(int(office.one("select pg_backend_pid()")))
            try:
                yield office
            finally:
                office.close()
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)
