"""A service in the test's own process that dies after whatever it does that outlives it, and is started again.

What outlives a process is what it has committed, written into files and asked of others. Wherever it dies between two
of these, it leaves the same behind: what survives a death after each of them survives every death.
"""

import re
import sys
from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from threading import Lock
from types import FrameType, TracebackType
from typing import Any, LiteralString

import psycopg
import pytest
from sqlalchemy.engine.base import Connection

from quillpost.app import bootstrap, runtime
from quillpost.app.tasks import build_tasks
from quillpost.core.database import Database, engine
from quillpost.core.settings import Settings
from quillpost.fulfillment.qr_scans import queries as scan_queries
from quillpost.integrations.folders.local import LocalFolder
from quillpost.integrations.giftcards.tremendous import TremendousCards
from quillpost.integrations.storage.objects import _FolderStore
from quillpost.web.application import create_app
from support.event_receiver import EventReceiver
from support.factories import Account, Clock, make_account
from support.sender_service import SenderService
from support.test_client import TestClient

USUAL = {
    "test_review_seconds": 0,
    "test_journey_seconds": 1,
    "allow_private_urls": True,
    "calls_a_minute": 1_000_000,
    "scans_a_minute": 1_000_000,
}
EFFECTS = (
    (_FolderStore, ("put_file", "delete")),
    (LocalFolder, ("put", "rename", "delete")),
    (TremendousCards, ("issue", "return_card")),
    (scan_queries, ("insert_scans",)),  # over a connection that commits by itself
)
"""What outlives a process, beside its commits and what tests record themselves."""

NUMBER = r"[0-9a-f]*[0-9][0-9a-f-]*"
HAS_WRITTEN = "select pg_current_xact_id_if_assigned() is not null"
TAKE_JOB = """
    update procrastinate_jobs set status = 'doing' where id = (
        select id from procrastinate_jobs
         where status = 'todo' and coalesce(scheduled_at, %(now)s) <= %(now)s order by id limit 1)
    returning id, task_name, args
"""
FINISH_JOB = "update procrastinate_jobs set status = 'succeeded' where id = %s"
# The system closes what a dead process had open, and its jobs are other workers'.
END_SESSIONS = """
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
     where datname = current_database() and state like 'idle in transaction%'
"""
REQUEUE_JOBS = "update procrastinate_jobs set status = 'todo' where status = 'doing'"


class ProcessDied(BaseException):
    """No `Exception`: it passes everyone who handles failures."""


class Process:
    """What it has done that outlives it, up to that after which it dies."""

    def __init__(self, dies_after: int | None = None) -> None:
        self.effects: list[str] = []
        self._dies_after = dies_after
        self._lock = Lock()

    @property
    def is_dead(self) -> bool:
        return self._dies_after is not None and len(self.effects) >= self._dies_after

    def require_alive(self) -> None:
        if self.is_dead:
            raise ProcessDied

    def record(self, effect: str) -> None:
        with self._lock:
            self.require_alive()
            self.effects.append(effect)
            self.require_alive()


class MortalService:
    """Its database and files outlive its processes. Time is turned by hand, and jobs run when a test says so."""

    def __init__(self, conninfo: str, home: Path, patch: pytest.MonkeyPatch, mode: str, **settings: object) -> None:
        self.clock = Clock()
        self.process = Process()
        self._conninfo, self.home = conninfo, home
        self._settings = Settings.model_validate({"home": home, **USUAL, **settings})
        self._db = Database(conninfo)
        self._admin = psycopg.connect(conninfo, autocommit=True)
        self._running = ExitStack()
        patch.setattr(Connection, "_commit_impl", self._recorded_commit(Connection._commit_impl))
        for owner, names in EFFECTS:
            for name in names:
                patch.setattr(owner, name, self._recorded(getattr(owner, name)))
        self._start()
        self._account = make_account(self.container, self.http, "owner@example.com", mode=mode)

    def close(self) -> None:
        self._stop()
        self._db.close()
        self._admin.close()

    @property
    def sender(self) -> Account:
        """Whose service it is, at the process that runs now."""
        return Account(self._account.id, self._account.token, self.http)

    @property
    def office(self) -> SenderService:
        """As the checks of what has come of orders want it."""
        return SenderService(self.container, self.sender, EventReceiver(), {"QUILLPOST_HOME": str(self.home)}, "/")

    def work(self, *, times: int = 1) -> None:
        """Do all jobs that are due; between two times all simulated mail arrives."""
        for _ in range(times):
            self.clock.advance(seconds=2)
            while job := self._admin.execute(TAKE_JOB, {"now": self.clock.now()}).fetchone():
                job_id, name, arguments = job
                self._tasks[name].run(**arguments)
                self._admin.execute(FINISH_JOB, [job_id])

    def run(self, *names: str) -> None:
        """Periodic tasks, as every worker runs them now and then."""
        for name in names:
            self._tasks[name].run()

    def rows(self, query: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        return self._admin.execute(query, values).fetchall()

    def die_everywhere(self, flow: Callable[["Death"], None]) -> list[str]:
        """Run the flow with a death after its first effect, then with one after its second, and so on until it ends
        without; all effects of the last run. In each run they are the same up to its death."""
        deaths: list[Death] = []
        while not deaths or deaths[-1].process.is_dead:
            deaths.append(Death(self, len(deaths) + 1))
            try:
                flow(deaths[-1])
            except BaseException as error:
                error.add_note(f"when it had died after {deaths[-1].process.effects}")
                raise
        effects = deaths[-1].process.effects
        for death in deaths:
            assert death.process.effects == effects[: death.number], f"{death.process.effects} is no part of {effects}"
        return effects

    def restart(self) -> None:
        """Another process takes over once it has missed the one before for long enough."""
        self._stop()
        self._admin.execute(END_SESSIONS)
        self._admin.execute(REQUEUE_JOBS)
        self.clock.advance(hours=1)
        self._start()

    def _start(self) -> None:
        self.process = Process()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime, "Database", lambda *_, **__: self._db)  # its connections serve the next process
            self.container = bootstrap.build_container(self._settings, self._conninfo, clock=self.clock.now)
        self._tasks = {task.name: task for task in build_tasks(self.container)}
        app = self._disconnecting(create_app(self.container))
        self.http = self._running.enter_context(TestClient(app, base_url="http://quillpost.test"))

    def _stop(self) -> None:
        self._running.close()
        self.container.scan_recorder.close()
        self._db.locks.close()

    def _disconnecting(self, app: Any) -> Any:
        async def disconnect_when_dead(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            try:
                await app(scope, receive, send)
            except ProcessDied:
                raise ConnectionResetError from None

        return disconnect_when_dead

    def _recorded(self, effect: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(effect)
        def act(*args: Any, **options: Any) -> Any:
            self.process.require_alive()
            result = effect(*args, **options)
            folders = [re.sub(NUMBER, "N", name.rpartition("/")[0]) for name in args if isinstance(name, str)]
            self.process.record(" ".join([effect.__qualname__, *folders]))
            return result

        return act

    def _recorded_commit(self, commit: Callable[[Connection], None]) -> Callable[[Connection], None]:
        @wraps(commit)
        def act(connection: Connection) -> None:
            self.process.require_alive()
            driver = connection.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            [has_written] = driver.execute(HAS_WRITTEN).fetchone() or [False]
            commit(connection)
            if has_written:
                self.process.record(_committing_function())

        return act


class Death:
    """The body of `with` is done by a process that dies after so many effects, if it has them; another follows it."""

    def __init__(self, service: MortalService, number: int) -> None:
        self.number = number
        self.process = Process(number)
        self._service = service

    def __enter__(self) -> None:
        self._service.process = self.process

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._service.process = Process()
        if self.process.is_dead:
            self._service.restart()
        return self.process.is_dead  # whatever the dead had to say


def _committing_function() -> str:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals["__name__"]
        if module.startswith("quillpost.") and module != engine.__name__:
            return f"{module.removeprefix('quillpost.')}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return "the test"
