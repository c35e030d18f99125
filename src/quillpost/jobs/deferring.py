"""Deferring: the job is a row of the caller's own transaction, so it exists exactly if the rest does."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta

import procrastinate
import sqlalchemy as sa

from quillpost.database import Tx, driver

# Never opened: every job is inserted over the caller's connection.
_clerk = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())

BOOKED = sa.text(
    """select 1 from procrastinate_jobs
        where task_name = :task and status = 'todo' and scheduled_at = :at limit 1"""
)


EXISTS = sa.text(
    """select 1 from procrastinate_jobs
        where task_name = :task and status::text = any(:statuses) and args = cast(:args as jsonb) limit 1"""
)


FORGET = sa.text(
    """delete from procrastinate_jobs
        where task_name = :task and status::text = any(:statuses) and args = cast(:args as jsonb)"""
)


def defer(
    tx: Tx,
    task: str,
    *,
    at: datetime | None = None,
    queue: str = "default",
    priority: int = 0,
    **args: int,
) -> None:
    """Run the task once this transaction has committed, not before `at`; those of higher priority first."""
    _clerk.configure_task(
        task, allow_unknown=True, connection=driver(tx), queue=queue, schedule_at=at, priority=priority
    ).defer(**args)


def wake(tx: Tx, task: str, *, at: datetime) -> None:
    """See that the task runs soon after `at`: one job a second at most, however many ask for it.

    A unique lock would make callers wait for each other; instead two that ask at the same moment may
    both book, and the second run finds nothing to do.
    """
    second = at.replace(microsecond=0) + timedelta(seconds=1)
    if tx.execute(BOOKED, {"task": task, "at": second}).first() is None:
        defer(tx, task, at=second)


def is_waiting(tx: Tx, task: str, **args: int) -> bool:
    """Whether such a job is yet to start."""
    return _exists(tx, task, ["todo"], args)


def is_known(tx: Tx, task: str, **args: int) -> bool:
    """Whether such a job waits, runs, or was given up and needs a person."""
    return _exists(tx, task, ["todo", "doing", "failed"], args)


def forget(tx: Tx, task: str, **args: int) -> None:
    """No such job waits any more, or is known as given up: it can be booked anew."""
    args_text = json.dumps(dict(args))
    tx.execute(FORGET, {"task": task, "statuses": ["todo", "failed"], "args": args_text})


def _exists(tx: Tx, task: str, statuses: list[str], args: Mapping[str, int]) -> bool:
    found = tx.execute(EXISTS, {"task": task, "statuses": statuses, "args": json.dumps(dict(args))})
    return found.first() is not None
