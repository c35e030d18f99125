"""A worker that was taken for dead and was only slow: its job is somebody else's by now, and may be done.

What a job does it does once, however often it runs: so whoever comes late says so, and goes on.
"""

from typing import Any

import psycopg
import structlog
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

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
