"""Processor time, to the microsecond: this process with all its threads, and every process of PostgreSQL."""

import time
from pathlib import Path
from typing import NamedTuple

import psycopg

_PROC = Path("/proc")
_NANOSECONDS = 1e9


class Spent(NamedTuple):
    """Seconds of processor time."""

    python: float
    postgres: float

    @property
    def total(self) -> float:
        return self.python + self.postgres


class Meter:
    """Reads the kernel's own account of a server's children, which only Linux shows to others."""

    def __init__(self, conninfo: str) -> None:
        with psycopg.connect(conninfo) as connection:
            self._postmaster = _parent_of(connection.info.backend_pid)

    def begin(self) -> Spent:
        postgres = self._postgres()
        return Spent(time.process_time(), postgres)

    def since(self, start: Spent) -> Spent:
        python = time.process_time()
        return Spent(python - start.python, self._postgres() - start.postgres)

    def _postgres(self) -> float:
        """Of all children that live; those that serve us stay in the pool between two readings."""
        root = _PROC / f"{self._postmaster}/task/{self._postmaster}/children"
        return sum(map(_on_processor, root.read_text().split())) / _NANOSECONDS


def _parent_of(pid: int) -> int:
    """In a process's line the parent follows the name, which is in brackets, and the state."""
    return int((_PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _on_processor(pid: str) -> int:
    try:
        return int((_PROC / pid / "schedstat").read_text().split()[0])
    except FileNotFoundError:
        return 0
