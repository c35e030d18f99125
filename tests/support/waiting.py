"""Waiting for what another thread or process brings about, where there is no event to wait for."""

import time
from collections.abc import Callable

from support.rows import Where, scalar


def wait_until(is_so: Callable[[], bool], *, seconds: float = 20) -> None:
    """Return as soon as it is so; fail when it has not become so in time."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "It did not come to pass."
        time.sleep(0.02)


def is_lock_awaited(where: Where) -> bool:
    """Whether anybody on this server waits for somebody else."""
    return bool(scalar(where, "select count(*) from pg_locks where not granted"))
