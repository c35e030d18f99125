"""Taking turns between processes on one machine. The system ends a turn whose holder has died."""

import fcntl
from pathlib import Path
from typing import TextIO


class Turn:
    """A lock on a file: whoever takes it waits for whoever holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def take(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def end(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
