"""The worker: runs jobs and periodic tasks, and takes over from workers that died.

What a job does it does once, however often it runs: so whoever comes late says so, and goes on.
"""

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

log = structlog.get_logger(__name__)


class TolerantManager(JobManager):
    """For workers: a job that is no longer theirs to finish, or to put off, is left as it is."""

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        try:
            await super().finish_job(job, status, delete_job)
        except ConnectorException as fault:
            _tell_or_raise(job, fault)

    async def retry_job(self, job: Job, *how: Any, **named: Any) -> None:
        try:
            await super().retry_job(job, *how, **named)
        except ConnectorException as fault:
            _tell_or_raise(job, fault)


def _tell_or_raise(job: Job, fault: ConnectorException) -> None:
    # The engine's functions raise by themselves only where the job is not as it must be.
    if not isinstance(fault.__cause__, psycopg.errors.RaiseException):
        raise fault
    log.warning("jobs.overtaken", task=job.task_name, job=job.id)


TRIES_ALLOWED = 5
"""A job that was tried so often when its worker dies is set aside as failed: it may be what kills them."""

KEPT_HOURS = 72

OWN_QUEUE = "default"
"""Where the engine's own housekeeping waits."""

LONGEST_GRACE = 3.5
"""Seconds that jobs have to finish when their worker is to end. Those that do not are tried again."""

BEYOND_GRACE = 1.0
"""Seconds that a worker may take to end once its last job has, or was given up."""

# Those that are due, in queues of which nobody does a job.
UNTAKEN: LiteralString = """
    select id from procrastinate_jobs
     where status = 'todo' and queue_name = any(%(queues)s)
       and (scheduled_at is null or scheduled_at <= now())
       and not exists (select from procrastinate_jobs where status = 'doing' and queue_name = any(%(queues)s))
     order by id limit 1000
    """

SPARE_THREADS = 4
"""Beside the jobs, the webhook pump uses the same threads for its short transactions."""


_STOP: ContextVar[asyncio.Event | None] = ContextVar("stop", default=None)


def is_stopping() -> bool:
    """Whether the runner of this very job is to end: a long job breaks off, and is taken up again later."""
    stop = _STOP.get()
    return stop is not None and stop.is_set()


@dataclass(frozen=True, slots=True)
class Pulse:
    """How soon a silent worker counts as dead. The grace at shutdown stays below that time,
    because a worker that is shutting down no longer sends heartbeats."""

    heartbeat_seconds: float = 5
    stall_seconds: float = 20

    @property
    def grace_seconds(self) -> float:
        return min(self.stall_seconds * 0.6, LONGEST_GRACE)


class Runner:
    """Runs the given tasks from any queue, or from those named, until it is stopped.

    A queue that is taken `singly` has a worker of its own that does one job at a time, beside the others: its
    jobs need a processor, and much memory, and must not hold up the short ones.
    """

    def __init__(
        self,
        conninfo: str,
        tasks: Sequence[Task],
        *,
        concurrency: int = 4,
        queues: Sequence[str] | None = None,
        singly: Sequence[str] = (),
        pulse: Pulse | None = None,
        kept_hours: int = KEPT_HOURS,
    ) -> None:
        self._pulse = pulse or Pulse()
        wanted = list(queues) if queues else sorted({OWN_QUEUE, *(task.queue for task in tasks)})
        shared = [queue for queue in wanted if queue not in singly]
        self._lines = [([queue], 1) for queue in wanted if queue in singly]
        if shared:
            self._lines.append((shared, concurrency))
        self._concurrency = sum(at_once for _, at_once in self._lines)
        self._app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(
                conninfo=conninfo, min_size=1, max_size=self._concurrency + 2 + len(self._lines), timeout=5
            )
        )
        self._manager = self._app.job_manager
        self._app.job_manager = TolerantManager(self._app.connector)
        for task in tasks:
            _register(self._app, task)
        _forget_finished_jobs(self._app, kept_hours=kept_hours)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; a database that goes away is waited for."""
        # Tasks run on the loop's default threads; the loop ends them when it ends itself.
        _STOP.set(stop)
        threads = ThreadPoolExecutor(self._concurrency + SPARE_THREADS, thread_name_prefix="job")
        asyncio.get_running_loop().set_default_executor(threads)
        while not stop.is_set():
            try:
                async with self._app.open_async():
                    await self._work(stop)
            except Exception as broken:
                log.warning("jobs.interrupted", error=repr(broken))
            except asyncio.CancelledError as broken:
                # Connections that break may cancel what we wait for: that is no wish to end.
                if _is_cancelled():
                    raise
                log.warning("jobs.interrupted", error=repr(broken))
            await _wait(stop, 1)

    async def _work(self, stop: asyncio.Event) -> None:
        """One stretch of work. The engine's worker also returns when its connections break."""
        parts: list[Coroutine[object, object, object]] = [self._worker(*line) for line in self._lines]
        parts += [self._watch(queues) for queues, _ in self._lines]
        tasks = [asyncio.create_task(part) for part in (*parts, self._take_over(), stop.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await self._end(tasks)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for fault in ended:
            if isinstance(fault, Exception):
                raise fault

    async def _end(self, tasks: Sequence[asyncio.Task[object]]) -> None:
        """Cancel them all. A cancellation may be lost where a connection breaks: it is repeated."""
        left = set(tasks)
        while left:
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=self._pulse.grace_seconds + BEYOND_GRACE)

    async def _worker(self, queues: list[str], at_once: int) -> None:
        await self._app.run_worker_async(
            queues=queues,
            concurrency=at_once,
            install_signal_handlers=False,
            fetch_job_polling_interval=1,
            shutdown_graceful_timeout=self._pulse.grace_seconds,
            update_heartbeat_interval=self._pulse.heartbeat_seconds,
            stalled_worker_timeout=self._pulse.stall_seconds,
        )

    async def _watch(self, queues: list[str]) -> None:
        """Return when nobody takes what is there to be taken: the engine may be left waiting for an answer
        that a broken connection never brings, and looks alive. All begins anew then."""
        seen: set[int] = set()
        while True:
            rows = await self._app.connector.execute_query_all_async(UNTAKEN, queues=queues)
            untaken = {row["id"] for row in rows}
            if seen and seen <= untaken:
                log.error("jobs.left_lying", queues=queues, jobs=len(untaken))
                return
            seen = untaken
            await asyncio.sleep(self._pulse.stall_seconds)

    async def _take_over(self) -> None:
        """Put the jobs of workers that fell silent back in the queue."""
        manager = self._manager
        while True:
            for job in await manager.get_stalled_jobs(seconds_since_heartbeat=self._pulse.stall_seconds):
                with suppress(procrastinate.exceptions.ConnectorException):
                    if job.attempts >= TRIES_ALLOWED:
                        await manager.finish_job(job, procrastinate_jobs.Status.FAILED, delete_job=False)
                    else:
                        await manager.retry_job(job, retry_at=procrastinate_utils.utcnow())
                    log.warning("jobs.taken_over", task=job.task_name, job=job.id)
            await asyncio.sleep(self._pulse.stall_seconds / 4)


class Backoff(procrastinate.BaseRetryStrategy):
    """Again after 1, 2, 4 ... seconds, at most five minutes apart."""

    def __init__(self, retries: int) -> None:
        self._retries = retries

    def get_retry_decision(
        self, *, exception: BaseException, job: procrastinate_jobs.Job
    ) -> procrastinate.RetryDecision | None:
        log.warning("jobs.failed", task=job.task_name, job=job.id, error=repr(exception))
        if job.attempts >= self._retries:
            return None
        return procrastinate.RetryDecision(retry_in={"seconds": min(2**job.attempts, 300)})


def _register(app: procrastinate.App, task: Task) -> None:
    if task.every is None:
        app.task(name=task.name, queue=task.queue, retry=Backoff(task.retries))(task.run)
        return

    def tick(timestamp: int) -> None:  # noqa: ARG001
        try:
            task.run()
        except Unavailable as away:
            log.warning("jobs.tick_missed", task=task.name, error=away.message)

    # No retry: the next tick comes by itself. What was away meanwhile is nobody's to look after.
    app.periodic(cron=task.every)(app.task(name=task.name, queue=task.queue)(tick))


def _forget_finished_jobs(app: procrastinate.App, *, kept_hours: int) -> None:
    async def forget(timestamp: int) -> None:  # noqa: ARG001
        await app.job_manager.delete_old_jobs(nb_hours=kept_hours)

    app.periodic(cron="17 * * * *")(app.task(name="jobs.forget_finished", queue=OWN_QUEUE)(forget))


def _is_cancelled() -> bool:
    """Whether someone has asked the running task to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
