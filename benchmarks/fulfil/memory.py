"""The most memory that processes ever had, as the kernel remembers it (`VmHWM`), while they live."""

import re
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

_EVERY = 0.1
_MEGABYTE = 1024
_FIELD = re.compile(r"^(VmHWM|RssShmem):\s+(\d+) kB$", re.MULTILINE)
_PARENT = re.compile(r"^PPid:\s+(\d+)$", re.MULTILINE)


class Watch:
    """Looks at the processes that it was told of, and at PostgreSQL's, again and again until it ends.

    What PostgreSQL's processes share is counted once for all in `shared`, not for each that has touched it.
    """

    def __init__(self) -> None:
        self._known: dict[int, str] = {}
        self._peaks: dict[str, float] = {}
        self._postmaster: int | None = None
        self._over = Event()
        self._thread = Thread(target=self._look_again, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def add(self, pid: int, name: str) -> None:
        self._known[pid] = name

    def add_children_of(self, backend: int) -> None:
        """All processes of the PostgreSQL that this is a backend of."""
        found = _PARENT.search(Path(f"/proc/{backend}/status").read_text())
        assert found is not None
        self._postmaster = int(found[1])

    @property
    def ours(self) -> dict[str, float]:
        """Megabytes, by the command."""
        return {name: peak for name, peak in self._peaks.items() if name.startswith("quillpost")}

    @property
    def postgres(self) -> dict[str, float]:
        """Megabytes of its fattest process, with and without what all of them share."""
        return {name: peak for name, peak in self._peaks.items() if name.startswith("PostgreSQL")}

    def _look_again(self) -> None:
        while not self._over.wait(_EVERY):
            for pid, name in list(self._known.items()):
                self._note(name, _peak(pid)[0])
            for pid in _children(self._postmaster):
                whole, shared = _peak(pid)
                self._note("PostgreSQL backend, with shared buffers", whole)
                self._note("PostgreSQL backend, its own", whole - shared)

    def _note(self, name: str, megabytes: float) -> None:
        self._peaks[name] = max(self._peaks.get(name, 0.0), round(megabytes, 1))


def _peak(pid: int) -> tuple[float, float]:
    """The most it had, and what it shares now, in megabytes; nothing of one that is gone."""
    with suppress(OSError):
        found = {name: int(size) for name, size in _FIELD.findall(Path(f"/proc/{pid}/status").read_text())}
        return found.get("VmHWM", 0) / _MEGABYTE, found.get("RssShmem", 0) / _MEGABYTE
    return 0.0, 0.0


def _children(pid: int | None) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
