"""Files on disk that survive a power cut, and a lock between processes."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, TextIO


@contextmanager
def open_temporary_file(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file beside the path, readable by its owner only; deleted in the end unless it was moved to the path."""
    # A random name that must be free: no other user can have put a file or a link in its place.
    temporary_path = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    descriptor = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield temporary_path, file
    finally:
        temporary_path.unlink(missing_ok=True)


def sync_file(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """To be called last: a synced file may otherwise have no name."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FileLock:
    """A lock between processes of one machine: `acquire` waits for the process that holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def acquire(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
