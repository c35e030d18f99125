"""A kind of work, by name."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """Work that may run again after a crash, so it must be an idempotent step.

    `run` takes the arguments that `defer` was given, by name; a periodic task takes none.
    `every` is a cron line (five fields, or six with seconds first).
    """

    name: str
    run: Callable[..., None]
    queue: str = "default"
    every: str | None = None
    retries: int = 20
