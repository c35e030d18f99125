"""Jobs, enqueued in the caller's own transaction."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import procrastinate
import sqlalchemy as sa

from quillpost.core.database import Tx

# Never opened: every job is inserted over the caller's connection.
_app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())

SELECT_SCHEDULED = sa.text(
    """select 1 from procrastinate_jobs
        where task_name = :task and status = 'todo' and scheduled_at = :at limit 1"""
)


def _jobs_statement(statuses: str, *, action: str) -> sa.TextClause:
    """Statuses are written out so that their index is used."""
    return sa.text(
        f"""{action} from procrastinate_jobs
             where task_name = :task and status in ({statuses}) and args = cast(:args as jsonb)"""
    )


SELECT_WAITING = _jobs_statement("'todo'", action="select 1")
SELECT_RUNNING = _jobs_statement("'doing'", action="select 1")
SELECT_UNFINISHED = _jobs_statement("'todo', 'doing', 'failed'", action="select 1")
DELETE_NOT_RUNNING = _jobs_statement("'todo', 'failed'", action="delete")


def enqueue(
    tx: Tx, task: str, *, at: datetime | None = None, queue: str = "default", priority: int = 0, **args: int
) -> None:
    """Run the task once this transaction has committed, not before `at`; higher priority first."""
    connection = tx.connection.driver_connection
    _app.configure_task(
        task, allow_unknown=True, connection=connection, queue=queue, schedule_at=at, priority=priority
    ).defer(**args)


def enqueue_unique(tx: Tx, task: str, *, at: datetime) -> None:
    """Run the task soon after `at`, at most one job a second. A unique lock would make callers wait for each other;
    instead two callers at the same moment may both enqueue, and the second run finds nothing to do."""
    second = at.replace(microsecond=0) + timedelta(seconds=1)
    if tx.execute(SELECT_SCHEDULED, {"task": task, "at": second}).first() is None:
        enqueue(tx, task, at=second)


def is_waiting(tx: Tx, task: str, **args: int) -> bool:
    return tx.execute(SELECT_WAITING, _job_params(task, args)).first() is not None


def is_running(tx: Tx, task: str, **args: int) -> bool:
    """Also true of a job whose worker died, until another worker takes it."""
    return tx.execute(SELECT_RUNNING, _job_params(task, args)).first() is not None


def is_unfinished(tx: Tx, task: str, **args: int) -> bool:
    """Whether such a job waits, runs, or has failed for good."""
    return tx.execute(SELECT_UNFINISHED, _job_params(task, args)).first() is not None


def delete_jobs(tx: Tx, task: str, **args: int) -> None:
    """Delete what waits or has failed for good."""
    tx.execute(DELETE_NOT_RUNNING, _job_params(task, args))


def _job_params(task: str, args: Mapping[str, int]) -> dict[str, str]:
    return {"task": task, "args": json.dumps(dict(args))}


@dataclass(frozen=True, slots=True)
class Task:
    """An idempotent step, as it may run again after a crash. `run` takes the arguments of `enqueue` by name; a periodic
    task takes none. `cron` has five fields, or six with seconds first."""

    name: str
    run: Callable[..., None]
    queue: str = "default"
    cron: str | None = None
    max_retries: int = 20
