"""Failed and stalled jobs, as operators see them, and how they are retried."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.errors import NotFound
from quillpost.core.paging import Page, PageRequest

# Jobs that succeeded are many, and stay for days. Written like this, the condition matches a partial index.
_OPEN = "j.status in ('todo', 'doing', 'failed')"

COUNT_FAILED_BY_TASK = sa.text(
    f"""
    select j.task_name as task, count(*) as how_many,
           (select max(e.at) from procrastinate_events e
             where e.job_id = max(j.id) and e.type = 'failed') as last_at
      from procrastinate_jobs j where {_OPEN} and j.status = 'failed'
     group by j.task_name order by j.task_name
    """
)
SELECT_FAILED_PAGE = sa.text(
    f"""
    with page as (
        select j.id, j.task_name as task, j.queue_name as queue, j.args, j.attempts
          from procrastinate_jobs j
         where {_OPEN} and j.status = 'failed' and j.task_name = coalesce(:task, j.task_name)
         order by j.id desc offset :skip limit :most)
    select p.*, (select max(e.at) from procrastinate_events e
                  where e.job_id = p.id and e.type = 'failed') as failed_at
      from page p order by p.id desc
    """
)
COUNT_FAILED = sa.text(
    f"""
    select count(*) from procrastinate_jobs j
     where {_OPEN} and j.status = 'failed' and j.task_name = coalesce(:task, j.task_name)
    """
)
SELECT_QUEUES = sa.text(
    f"""
    select j.queue_name as name,
           count(*) filter (where j.status = 'todo' and coalesce(j.scheduled_at <= now(), true)) as ready,
           count(*) filter (where j.status = 'todo' and j.scheduled_at > now()) as later,
           count(*) filter (where j.status = 'doing') as running,
           min(j.scheduled_at) filter (where j.status = 'todo' and j.scheduled_at <= now()) as oldest
      from procrastinate_jobs j where {_OPEN} and j.status <> 'failed'
     group by j.queue_name order by j.queue_name
    """
)
SELECT_STALLED = sa.text(
    f"""
    select j.id, j.task_name as task, j.queue_name as queue, j.args, j.attempts,
           w.last_heartbeat as failed_at
      from procrastinate_jobs j left join procrastinate_workers w on w.id = j.worker_id
     where {_OPEN} and j.status = 'doing'
       and coalesce(w.last_heartbeat < now() - make_interval(secs => :silent), true)
     order by j.id limit :most
    """
)
COUNT_LIVE_WORKERS = sa.text(
    "select count(*) from procrastinate_workers where last_heartbeat > now() - make_interval(secs => :silent)"
)

# A job that is queued or running again needs no retry, and is deleted. One run makes up for all missed ticks.
_RETRY = """
    with chosen as materialized (
        select j.id, j.task_name, j.args,
               row_number() over (partition by j.task_name, j.args - 'timestamp' order by j.id desc) as place
          from procrastinate_jobs j where j.status in ('todo', 'doing', 'failed') and j.status = 'failed'
           and {which}),
    spare as (
        delete from procrastinate_jobs j using chosen c
         where j.id = c.id and j.status = 'failed'
           and (c.place > 1 or exists (
                select 1 from procrastinate_jobs o
                 where o.task_name = c.task_name and o.args = c.args
                   and o.status in ('todo', 'doing', 'failed') and o.status <> 'failed'))
        returning j.id)
    update procrastinate_jobs j set status = 'todo', attempts = 0, scheduled_at = null, worker_id = null
      from chosen c
     where j.id = c.id and j.status = 'failed' and c.place = 1 and not exists (
           select 1 from procrastinate_jobs o
            where o.task_name = c.task_name and o.args = c.args
              and o.status in ('todo', 'doing', 'failed') and o.status <> 'failed')
    returning j.id
"""
RETRY_ONE = sa.text(_RETRY.replace("{which}", "j.id = :job_id"))
RETRY_TASK = sa.text(_RETRY.replace("{which}", "j.task_name = :task"))
SELECT_FAILED_TASK = sa.text("select task_name from procrastinate_jobs where id = :job_id and status = 'failed'")

MAX_STALLED = 50


@dataclass(frozen=True, slots=True)
class FailedTaskCount:
    task: str
    how_many: int
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoppedJob:
    """A job that failed for good, or whose worker was last alive at `failed_at`."""

    id: int
    task: str
    queue: str
    args: Mapping[str, Any]
    attempts: int
    failed_at: datetime | None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Jobs ready to run, the first since `oldest`, and jobs for a later time."""

    name: str
    ready: int
    later: int
    running: int
    oldest: datetime | None


def count_failed_by_task(tx: Tx) -> list[FailedTaskCount]:
    return [FailedTaskCount(**row._mapping) for row in tx.execute(COUNT_FAILED_BY_TASK)]


def list_failed_jobs(tx: Tx, page_request: PageRequest, *, task: str | None = None) -> Page[StoppedJob]:
    """The newest first."""
    total = int(tx.execute(COUNT_FAILED, {"task": task}).scalar_one())
    rows = tx.execute(SELECT_FAILED_PAGE, {"task": task, "skip": page_request.offset, "most": page_request.per_page})
    return Page([StoppedJob(**row._mapping) for row in rows], total, page_request)


def list_stalled_jobs(tx: Tx, *, silent_seconds: float) -> list[StoppedJob]:
    """The first running jobs whose worker was not heard of for so long."""
    rows = tx.execute(SELECT_STALLED, {"silent": silent_seconds, "most": MAX_STALLED})
    return [StoppedJob(**row._mapping) for row in rows]


def list_queues(tx: Tx) -> list[QueueStatus]:
    return [QueueStatus(**row._mapping) for row in tx.execute(SELECT_QUEUES)]


def are_workers_alive(tx: Tx, *, silent_seconds: float) -> bool:
    return bool(tx.execute(COUNT_LIVE_WORKERS, {"silent": silent_seconds}).scalar_one())


def retry_job(tx: Tx, job_id: int) -> str:
    """Run a failed job again, with all its tries; its task. Raises `NotFound`."""
    task = tx.execute(SELECT_FAILED_TASK, {"job_id": job_id}).scalar()
    if task is None:
        raise NotFound
    tx.execute(RETRY_ONE, {"job_id": job_id})
    return str(task)


def retry_failed_jobs(tx: Tx, task: str) -> int:
    """How many run again."""
    return tx.execute(RETRY_TASK, {"task": task}).rowcount
