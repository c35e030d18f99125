"""Waiting for what another thread or process brings about, where there is no event to wait for."""

import time
from collections.abc import Callable


def wait_until(is_so: Callable[[], bool], *, seconds: float = 20) -> None:
    """Return as soon as it is so; fail when it has not become so in time."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "It did not come to pass."
        time.sleep(0.02)
