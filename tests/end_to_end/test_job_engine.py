"""Jobs: there exactly if their transaction is, run by whoever lives, and forgotten in the end."""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import procrastinate
import psycopg
import pytest
import sqlalchemy as sa
from procrastinate.jobs import Status
from procrastinate.manager import JobManager
from procrastinate.worker import Worker
from structlog.testing import capture_logs

from quillpost.core import jobs
from quillpost.core.database import Database
from quillpost.core.database.engine import conninfo_for_role
from quillpost.core.errors import Unavailable
from quillpost.core.jobs import JobRunner, Task, WorkerTiming
from quillpost.core.jobs.worker import TolerantJobManager
from support.processes import PATIENCE, until

BREAK_CONNECTIONS = """
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()
    """


DOING = "update procrastinate_jobs set status = 'doing'"
ENDED = """
    update procrastinate_jobs
       set status = case when task_name = 'old_failure' then 'failed' else 'succeeded' end::procrastinate_job_status
    """
LONG_AGO = """
    update procrastinate_events set at = at - interval '73 hours'
     where job_id in (select id from procrastinate_jobs where task_name like 'old%')
    """


@pytest.fixture
def db(conninfo: str) -> Iterator[Database]:
    db = Database(conninfo)
    yield db
    db.close()


@contextmanager
def running(conninfo: str, *tasks: Task) -> Iterator[None]:
    """A worker for these tasks, on a thread of its own."""
    runner = JobRunner(conninfo_for_role(conninfo, "quillpost_worker"), tasks, timing=WorkerTiming(0.2, 1))
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    def work() -> None:
        loop.run_until_complete(runner.run(stop))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def enqueue(db: Database, task: str, *, number: int = 1) -> None:
    with db.system_transaction() as tx:
        jobs.enqueue(tx, task, number=number)


def statuses(db: Database, task: str) -> list[str]:
    query = sa.text("select status::text from procrastinate_jobs where task_name = :task order by id")
    with db.system_transaction() as tx:
        return list(tx.execute(query, {"task": task}).scalars())


def signalling(event: threading.Event) -> Callable[..., None]:
    def run(**_arguments: int) -> None:
        event.set()

    return run


def test_a_job_exists_if_its_transaction_does_and_outlives_broken_connections(db: Database, conninfo: str) -> None:
    def enqueue_and_fail() -> None:
        with db.system_transaction() as tx:
            jobs.enqueue(tx, "greet", number=1)
            jobs.enqueue_unique(tx, "look", at=tx.execute(sa.text("select now()")).scalar_one())
            raise InterruptedError

    with pytest.raises(InterruptedError):
        enqueue_and_fail()
    assert statuses(db, "greet") == statuses(db, "look") == []
    ran, again = threading.Event(), threading.Event()
    with running(conninfo, Task("greet", signalling(ran)), Task("part", signalling(again))):
        with db.system_transaction() as tx:
            jobs.enqueue(tx, "greet", number=1)
            assert not ran.is_set()
        assert ran.wait(PATIENCE)
        until(lambda: statuses(db, "greet") == ["succeeded"], what="the job done")
        with psycopg.connect(conninfo) as admin:
            admin.execute(BREAK_CONNECTIONS)
        enqueue(db, "part")
        assert again.wait(PATIENCE)


def test_a_periodic_task_leaves_it_to_the_next_tick_without_a_database(db: Database, conninfo: str) -> None:
    def find_it_away() -> None:
        raise Unavailable("The database does not answer.")

    with running(conninfo, Task("tick", find_it_away, cron="* * * * * *")):
        until(lambda: statuses(db, "tick")[:1] == ["succeeded"], what="a tick done")
    assert "failed" not in statuses(db, "tick")


def test_a_job_that_fails_is_tried_again_unless_its_workers_keep_dying(db: Database, conninfo: str) -> None:
    attempts: list[int] = []
    ran = threading.Event()

    def fail_once(number: int) -> None:
        attempts.append(number)
        if len(attempts) == 1:
            raise InterruptedError

    for task in ("deadly", "orphan"):
        enqueue(db, task)
    with db.system_transaction() as tx:
        tx.execute(sa.text(DOING + ", attempts = case task_name when 'deadly' then 5 else 1 end"))
    tasks = Task("stumble", fail_once), Task("deadly", signalling(ran)), Task("orphan", signalling(threading.Event()))
    with running(conninfo, *tasks):
        enqueue(db, "stumble", number=7)
        until(lambda: statuses(db, "stumble") == ["succeeded"], what="the job done")
        until(lambda: statuses(db, "deadly") == ["failed"], what="the job set aside")
        until(lambda: statuses(db, "orphan") == ["succeeded"], what="the job of a worker that died done by another")
    assert attempts == [7, 7]
    assert not ran.is_set()


@pytest.mark.parametrize("call", ["finish_job", "retry_job"])
def test_a_broken_connection_is_not_taken_for_another_owner(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def break_down(*_what: object, **_how: object) -> None:
        raise procrastinate.exceptions.ConnectorException from psycopg.OperationalError()

    monkeypatch.setattr(JobManager, call, break_down)
    with capture_logs() as logs, pytest.raises(procrastinate.exceptions.ConnectorException):
        asyncio.run(getattr(TolerantJobManager(Mock()), call)(Mock(), Status.SUCCEEDED, False))
    assert logs == []


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_one_that_is_late_goes_on(db: Database, conninfo: str, outcome: str, caplog: pytest.LogCaptureFixture) -> None:
    """Another worker has done the job meanwhile."""
    ran = threading.Event()

    def overtaken(**_arguments: int) -> None:
        with db.system_transaction() as tx:
            tx.execute(sa.text("update procrastinate_jobs set status = 'succeeded' where task_name = 'slow'"))
        if outcome == "failed":
            raise InterruptedError

    with capture_logs() as logs, running(conninfo, Task("slow", overtaken), Task("greet", signalling(ran))):
        enqueue(db, "slow")
        until(lambda: [line for line in logs if line["event"] == "jobs.ownership_lost"], what="it told")
        enqueue(db, "greet")
        assert ran.wait(PATIENCE)
    gc.collect()  # where nobody has looked at a fault of a task, it is told when the task is forgotten
    assert statuses(db, "slow") == ["succeeded"]
    assert "jobs.worker_interrupted" not in [line["event"] for line in logs]
    assert "never retrieved" not in caplog.text


def test_finished_jobs_are_forgotten_after_three_days_and_failed_ones_kept(db: Database, conninfo: str) -> None:
    with db.system_transaction() as tx:
        for task in ("old", "old_failure", "recent"):
            jobs.enqueue(tx, task, number=1)
        for step in (DOING, ENDED, LONG_AGO):
            tx.execute(sa.text(step))
        jobs.enqueue(tx, "jobs.delete_finished", timestamp=0)
    with running(conninfo):
        # For some minutes of every hour the worker books one of its own beside it.
        until(lambda: statuses(db, "jobs.delete_finished")[:1] == ["succeeded"], what="the tidying done")
    assert statuses(db, "old") == []
    assert statuses(db, "old_failure") == ["failed"]
    assert statuses(db, "recent") == ["succeeded"]


def test_an_odd_cancellation_or_error_ends_no_worker(
    db: Database, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, opened, list_stalled = threading.Event(), procrastinate.App.open_async, JobManager.get_stalled_jobs
    cancellations, errors = iter([True]), iter([True])

    def open_async(app: procrastinate.App) -> Any:
        if next(cancellations, False):
            raise asyncio.CancelledError
        return opened(app)

    async def get_stalled_jobs(manager: JobManager, **how: Any) -> Any:
        if next(errors, False):
            raise procrastinate.exceptions.ConnectorException
        return await list_stalled(manager, **how)

    monkeypatch.setattr(procrastinate.App, "open_async", open_async)
    monkeypatch.setattr(JobManager, "get_stalled_jobs", get_stalled_jobs)
    with capture_logs() as logs, running(conninfo, Task("greet", signalling(done))):
        enqueue(db, "greet")
        assert done.wait(PATIENCE)
        until(lambda: len([line for line in logs if line["event"] == "jobs.worker_interrupted"]) > 1, what="both told")
        done.clear()
        enqueue(db, "greet")
        assert done.wait(PATIENCE)


def test_a_cancellation_that_is_lost_is_repeated(conninfo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stretch of work that does not end would hold up all that follow, and the end of the process."""
    at_work, lost = threading.Event(), threading.Event()

    async def work_on(_worker: Worker) -> None:
        at_work.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            lost.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Worker, "run", work_on)
    with running(conninfo, Task("greet", signalling(threading.Event()))):
        assert at_work.wait(PATIENCE)
    assert lost.is_set()


def test_a_stuck_worker_is_restarted(db: Database, conninfo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done, stuck = threading.Event(), threading.Event()
    fetch: Callable[[Worker], Awaitable[None]] = Worker._fetch_and_process_jobs

    async def fetch_or_wait(worker: Worker) -> None:
        if not stuck.is_set():
            stuck.set()
            await asyncio.Event().wait()
        await fetch(worker)

    monkeypatch.setattr(Worker, "_fetch_and_process_jobs", fetch_or_wait)
    with running(conninfo, Task("greet", signalling(done))):
        assert stuck.wait(PATIENCE)
        enqueue(db, "greet")
        assert done.wait(PATIENCE)
