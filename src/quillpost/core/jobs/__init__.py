"""Work that outlives a request: deferred in the caller's transaction, run by any worker."""

from quillpost.core.jobs.queries import (
    FailedTaskCount,
    QueueStatus,
    StoppedJob,
    are_workers_alive,
    count_failed_by_task,
    list_failed_jobs,
    list_queues,
    list_stalled_jobs,
    retry_failed_jobs,
    retry_job,
)
from quillpost.core.jobs.service import (
    Task,
    delete_jobs,
    enqueue,
    enqueue_unique,
    is_running,
    is_unfinished,
    is_waiting,
)
from quillpost.core.jobs.worker import JobRunner, WorkerTiming, is_stopping

__all__ = [
    "FailedTaskCount", "JobRunner", "QueueStatus", "StoppedJob", "Task", "WorkerTiming", "are_workers_alive",
    "count_failed_by_task", "delete_jobs", "enqueue", "enqueue_unique", "is_running", "is_stopping",
    "is_unfinished", "is_waiting", "list_failed_jobs", "list_queues", "list_stalled_jobs", "retry_failed_jobs",
    "retry_job",
]  # fmt: skip
