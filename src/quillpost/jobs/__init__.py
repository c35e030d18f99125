"""Work that outlives a request: deferred in the caller's transaction, run by any worker."""

from quillpost.jobs.deferring import defer, forget, is_known, is_running, is_waiting, wake
from quillpost.jobs.runner import Pulse, Runner, is_stopping
from quillpost.jobs.task import Task

__all__ = [
    "Pulse", "Runner", "Task",
    "defer", "forget", "is_known", "is_running", "is_stopping", "is_waiting", "wake",
]  # fmt: skip
