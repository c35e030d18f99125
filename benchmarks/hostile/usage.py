"""What the server's processes use, as the kernel accounts for it: processor time, and the most memory."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_MEGABYTE = 1024
_RESET_PEAK = "5"


class Tree:
    """A process with all that it has started, and others beside it."""

    def __init__(self, *roots: int) -> None:
        self._roots = roots

    def seconds(self) -> float:
        """Of processor time: all threads, and children that have ended."""
        return sum(map(_seconds, self._all()))

    def reset_peaks(self) -> None:
        for pid in self._all():
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)

    def megabytes(self) -> float:
        """The most that any of them had since."""
        return max(map(_peak, self._all()), default=0.0)

    def _all(self) -> list[int]:
        return [pid for root in self._roots for pid in _with_children(root)]


def parent_of(pid: int) -> int:
    """In a process's line the parent follows the name, which is in brackets, and the state."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _with_children(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _with_children(int(child))


def _seconds(pid: int) -> float:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0


def _peak(pid: int) -> float:
    with suppress(OSError):
        found = _PEAK.search(Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) / _MEGABYTE if found else 0.0
    return 0.0
