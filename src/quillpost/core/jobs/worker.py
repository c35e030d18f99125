"""The worker: runs jobs and periodic tasks, and takes over from workers that died."""

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, LiteralString

import procrastinate
import psycopg
import structlog
from procrastinate import jobs as procrastinate_jobs
from procrastinate import utils as procrastinate_utils
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from quillpost.core.errors import Unavailable
from quillpost.core.jobs.service import Task
from quillpost.core.requests import wait_for_any

log = structlog.get_logger(__name__)


class TolerantJobManager(JobManager):
    """A job that another worker has taken over is left as it is."""

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        try:
            await super().finish_job(job, status, delete_job)
        except ConnectorException as error:
            _log_or_raise(job, error)

    async def retry_job(self, job: Job, *args: Any, **kwargs: Any) -> None:
        try:
            await super().retry_job(job, *args, **kwargs)
        except ConnectorException as error:
            _log_or_raise(job, error)


def _log_or_raise(job: Job, error: ConnectorException) -> None:
    # The engine's functions raise by themselves only where the job is not as it must be.
    if not isinstance(error.__cause__, psycopg.errors.RaiseException):
        raise error
    log.warning("jobs.ownership_lost", task=job.task_name, job=job.id)


MAX_ATTEMPTS = 5  # a job tried so often when its worker dies has failed: it may be what kills workers
FINISHED_JOB_HOURS = 72
DEFAULT_QUEUE = "default"  # has the engine's own housekeeping
MAX_GRACE_SECONDS = 3.5  # for jobs to finish at shutdown; those that do not are tried again
EXTRA_GRACE_SECONDS = 1.0  # for a worker to end after its last job

# Due jobs, in queues of which no job is running.
SELECT_UNTAKEN_JOBS: LiteralString = """
    select id from procrastinate_jobs
     where status = 'todo' and queue_name = any(%(queues)s)
       and (scheduled_at is null or scheduled_at <= now())
       and not exists (select from procrastinate_jobs where status = 'doing' and queue_name = any(%(queues)s))
     order by id limit 1000
    """

SPARE_THREADS = 4  # the webhook dispatcher uses the same threads for its short transactions

_STOP: ContextVar[asyncio.Event | None] = ContextVar("stop", default=None)


def is_stopping() -> bool:
    """Whether the current job's runner is to end: a long job stops then, and is resumed later."""
    stop = _STOP.get()
    return stop is not None and stop.is_set()


@dataclass(frozen=True, slots=True)
class WorkerTiming:
    """How soon a silent worker counts as dead. The grace period at shutdown is shorter, as a worker that shuts down
    sends no heartbeats."""

    heartbeat_seconds: float = 5
    stall_seconds: float = 20

    @property
    def grace_seconds(self) -> float:
        return min(self.stall_seconds * 0.6, MAX_GRACE_SECONDS)


class JobRunner:
    """Runs tasks from any queue, or from those named. Each of `serial_queues` has a worker of its own that runs one job
    at a time: its jobs need much processor and memory, and must not hold up short ones."""

    def __init__(
        self,
        conninfo: str,
        tasks: Sequence[Task],
        *,
        concurrency: int = 4,
        queues: Sequence[str] | None = None,
        serial_queues: Sequence[str] = (),
        timing: WorkerTiming | None = None,
        finished_job_hours: int = FINISHED_JOB_HOURS,
    ) -> None:
        self._timing = timing or WorkerTiming()
        queue_names = list(queues) if queues else sorted({DEFAULT_QUEUE, *(task.queue for task in tasks)})
        shared_queues = [queue for queue in queue_names if queue not in serial_queues]
        self._queue_groups = [([queue], 1) for queue in queue_names if queue in serial_queues]
        if shared_queues:
            self._queue_groups.append((shared_queues, concurrency))
        self._concurrency = sum(group_size for _, group_size in self._queue_groups)
        self._app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(
                conninfo=conninfo, min_size=1, max_size=self._concurrency + 2 + len(self._queue_groups), timeout=5
            )
        )
        self._manager = self._app.job_manager
        self._app.job_manager = TolerantJobManager(self._app.connector)
        for task in tasks:
            _register_task(self._app, task)
        _register_job_cleanup(self._app, finished_job_hours=finished_job_hours)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; a database that goes away is waited for."""
        # Tasks run on the loop's default threads; the loop ends them when it ends itself.
        _STOP.set(stop)
        threads = ThreadPoolExecutor(self._concurrency + SPARE_THREADS, thread_name_prefix="job")
        asyncio.get_running_loop().set_default_executor(threads)
        while not stop.is_set():
            try:
                async with self._app.open_async():
                    await self._run_until_broken(stop)
            except Exception as error:
                log.warning("jobs.worker_interrupted", error=repr(error))
            except asyncio.CancelledError as error:
                # Connections that break may cancel what we wait for: that is no request to end.
                if _is_cancelled():
                    raise
                log.warning("jobs.worker_interrupted", error=repr(error))
            await wait_for_any(stop, seconds=1)

    async def _run_until_broken(self, stop: asyncio.Event) -> None:
        """The engine's worker also returns when its connections break."""
        parts: list[Coroutine[object, object, object]] = [
            self._run_worker(*queue_group) for queue_group in self._queue_groups
        ]
        parts += [self._wait_until_stuck(queues) for queues, _ in self._queue_groups]
        tasks = [asyncio.create_task(part) for part in (*parts, self._requeue_stalled_jobs(), stop.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await self._cancel_all(tasks)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for error in results:
            if isinstance(error, Exception):
                raise error

    async def _cancel_all(self, tasks: Sequence[asyncio.Task[object]]) -> None:
        """A cancellation may be lost where a connection breaks, so it is repeated."""
        pending = set(tasks)
        while pending:
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=self._timing.grace_seconds + EXTRA_GRACE_SECONDS)

    async def _run_worker(self, queues: list[str], concurrency: int) -> None:
        await self._app.run_worker_async(
            queues=queues,
            concurrency=concurrency,
            install_signal_handlers=False,
            fetch_job_polling_interval=1,
            shutdown_graceful_timeout=self._timing.grace_seconds,
            update_heartbeat_interval=self._timing.heartbeat_seconds,
            stalled_worker_timeout=self._timing.stall_seconds,
        )

    async def _wait_until_stuck(self, queues: list[str]) -> None:
        """Return when no worker takes the jobs that are due: the engine may wait for a response that a broken
        connection never brings."""
        previous: set[int] = set()
        while True:
            rows = await self._app.connector.execute_query_all_async(SELECT_UNTAKEN_JOBS, queues=queues)
            untaken = {row["id"] for row in rows}
            if previous and previous <= untaken:
                log.error("jobs.queue_stalled", queues=queues, jobs=len(untaken))
                return
            previous = untaken
            await asyncio.sleep(self._timing.stall_seconds)

    async def _requeue_stalled_jobs(self) -> None:
        manager = self._manager
        while True:
            for job in await manager.get_stalled_jobs(seconds_since_heartbeat=self._timing.stall_seconds):
                with suppress(procrastinate.exceptions.ConnectorException):
                    if job.attempts >= MAX_ATTEMPTS:
                        await manager.finish_job(job, procrastinate_jobs.Status.FAILED, delete_job=False)
                    else:
                        await manager.retry_job(job, retry_at=procrastinate_utils.utcnow())
                    log.warning("jobs.stalled", task=job.task_name, job=job.id)
            await asyncio.sleep(self._timing.stall_seconds / 4)


class RetryBackoff(procrastinate.BaseRetryStrategy):
    """After 1, 2, 4 ... seconds, at most five minutes."""

    def __init__(self, max_retries: int) -> None:
        self._max_retries = max_retries

    def get_retry_decision(
        self, *, exception: BaseException, job: procrastinate_jobs.Job
    ) -> procrastinate.RetryDecision | None:
        log.warning("jobs.attempt_failed", task=job.task_name, job=job.id, error=repr(exception))
        if job.attempts >= self._max_retries:
            return None
        return procrastinate.RetryDecision(retry_in={"seconds": min(2**job.attempts, 300)})


def _register_task(app: procrastinate.App, task: Task) -> None:
    if task.cron is None:
        app.task(name=task.name, queue=task.queue, retry=RetryBackoff(task.max_retries))(task.run)
        return

    def run_periodically(timestamp: int) -> None:  # noqa: ARG001
        try:
            task.run()
        except Unavailable as error:
            log.warning("jobs.periodic_run_skipped", task=task.name, error=error.message)

    # No retry: the next tick comes by itself. An outage meanwhile needs no repair.
    app.periodic(cron=task.cron)(app.task(name=task.name, queue=task.queue)(run_periodically))


def _register_job_cleanup(app: procrastinate.App, *, finished_job_hours: int) -> None:
    async def delete_finished_jobs(timestamp: int) -> None:  # noqa: ARG001
        await app.job_manager.delete_old_jobs(nb_hours=finished_job_hours)

    app.periodic(cron="17 * * * *")(app.task(name="jobs.delete_finished", queue=DEFAULT_QUEUE)(delete_finished_jobs))


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
