"""What every contender can do, and the measures of those that work in one process."""

import resource
import sys
import time
from pathlib import Path
from typing import Protocol

_STATUS = Path("/proc/self/status")


class Contender(Protocol):
    def compose(self, count: int, out: Path) -> None:
        """A PDF with the first so many pieces, front and back of each."""

    def cpu_seconds(self) -> float:
        """Spent so far by all that works for it."""

    def peak_bytes(self) -> int:
        """The most memory that it held."""

    def close(self) -> None:
        """End what it started."""


class InThisProcess:
    """Measures for a contender that starts no process."""

    def cpu_seconds(self) -> float:
        return time.process_time()

    def peak_bytes(self) -> int:
        return peak_bytes_here()

    def close(self) -> None:
        """Nothing was started."""


class Absent(Exception):
    """What the contender needs is not on this machine."""


def peak_bytes_here() -> int:
    """This process's own peak: `ru_maxrss` would start from its parent's."""
    if _STATUS.exists():
        fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
