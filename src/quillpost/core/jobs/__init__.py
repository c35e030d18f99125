"""Work that outlives a request: deferred in the caller's transaction, run by any worker."""

from quillpost.core.jobs.queries import (
    FailedKind,
    Queue,
    StoppedJob,
    are_workers_alive,
    failed,
    failed_kinds,
    queues,
    retry,
    retry_kind,
    stalled,
)
from quillpost.core.jobs.service import Task, defer, forget, is_known, is_running, is_waiting, wake
from quillpost.core.jobs.worker import Pulse, Runner, is_stopping

__all__ = [
    "FailedKind", "Pulse", "Queue", "Runner", "StoppedJob", "Task",
    "are_workers_alive", "defer", "failed", "failed_kinds", "forget", "is_known", "is_running", "is_stopping",
    "is_waiting", "queues", "retry", "retry_kind", "stalled", "wake",
]  # fmt: skip
