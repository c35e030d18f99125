"""Jobs are rows of the caller's own transaction: they exist exactly if the rest does."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import procrastinate
import sqlalchemy as sa

from quillpost.core.database import Tx, driver_connection

# Never opened: every job is inserted over the caller's connection.
_app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())

SELECT_SCHEDULED = sa.text(
    """select 1 from procrastinate_jobs
        where task_name = :task and status = 'todo' and scheduled_at = :at limit 1"""
)


def _jobs_statement(statuses: str, *, action: str) -> sa.TextClause:
    """A statement about jobs of one task and its arguments; written out, the statuses find their index."""
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
    """Run the task once this transaction has committed, not before `at`; those of higher priority first."""
    _app.configure_task(
        task, allow_unknown=True, connection=driver_connection(tx), queue=queue, schedule_at=at, priority=priority
    ).defer(**args)


def enqueue_unique(tx: Tx, task: str, *, at: datetime) -> None:
    """See that the task runs soon after `at`: one job a second at most, however many ask for it.

    A unique lock would make callers wait for each other; instead two that ask at the same moment may
    both book, and the second run finds nothing to do.
    """
    second = at.replace(microsecond=0) + timedelta(seconds=1)
    if tx.execute(SELECT_SCHEDULED, {"task": task, "at": second}).first() is None:
        enqueue(tx, task, at=second)


def is_waiting(tx: Tx, task: str, **args: int) -> bool:
    """Whether such a job is yet to start."""
    return tx.execute(SELECT_WAITING, _job_params(task, args)).first() is not None


def is_running(tx: Tx, task: str, **args: int) -> bool:
    """Whether such a job is at work, or was when its worker died, until others take it over."""
    return tx.execute(SELECT_RUNNING, _job_params(task, args)).first() is not None


def is_unfinished(tx: Tx, task: str, **args: int) -> bool:
    """Whether such a job waits, runs, or was given up and needs a person."""
    return tx.execute(SELECT_UNFINISHED, _job_params(task, args)).first() is not None


def delete_jobs(tx: Tx, task: str, **args: int) -> None:
    """No such job waits any more, or is known as given up: it can be booked anew."""
    tx.execute(DELETE_NOT_RUNNING, _job_params(task, args))


def _job_params(task: str, args: Mapping[str, int]) -> dict[str, str]:
    return {"task": task, "args": json.dumps(dict(args))}


@dataclass(frozen=True, slots=True)
class Task:
    """Work that may run again after a crash, so it must be an idempotent step.

    `run` takes the arguments that `enqueue` was given, by name; a periodic task takes none.
    `cron` is a cron line (five fields, or six with seconds first).
    """

    name: str
    run: Callable[..., None]
    queue: str = "default"
    cron: str | None = None
    max_retries: int = 20
