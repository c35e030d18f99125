"""Work that outlives a request: deferred in the caller's transaction, run by any worker."""

from quillpost.jobs.deferring import defer, forget, is_known, is_running, is_waiting, wake
from quillpost.jobs.failed import (
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
from quillpost.jobs.runner import Pulse, Runner, is_stopping
from quillpost.jobs.task import Task

__all__ = [
    "FailedKind", "Pulse", "Queue", "Runner", "StoppedJob", "Task",
    "are_workers_alive", "defer", "failed", "failed_kinds", "forget", "is_known", "is_running", "is_stopping",
    "is_waiting", "queues", "retry", "retry_kind", "stalled", "wake",
]  # fmt: skip
