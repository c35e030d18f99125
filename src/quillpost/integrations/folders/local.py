"""A folder on this machine, or one that is mounted here. It must be there: one that has gone away, as a
disk that is not mounted has, is not replaced by an empty one."""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quillpost.core.files import sync_folder
from quillpost.core.ports import FileMissing
from quillpost.integrations.folders.models import (
    FolderDown,
    UnreadableFile,
    build_too_large_error,
    check_path,
    is_usable_name,
)

# Never through a link, and never waiting for whoever writes to a pipe: others put files here.
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
NAME_TAKEN_ERRORS = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR}


class LocalFolder:
    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def label(self) -> str:
        return str(self._root)

    @contextmanager
    def open(self) -> Iterator["LocalFolder"]:
        with self._translate_errors():
            if not self._root.is_dir():
                raise FolderDown(f"The folder {self._root} is not there: make it, or mount its disk.")
        yield self

    def put(self, name: str, data: bytes, *, is_secret: bool = False) -> None:
        path = self._path(name)
        draft_path = path.with_name(f".{secrets.token_hex(8)}.tmp")
        with self._translate_errors():
            self._make_folder(path.parent, mode=0o750 if is_secret else 0o777)
            try:
                with os.fdopen(os.open(draft_path, WRITE_FLAGS, 0o640 if is_secret else 0o666), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                draft_path.replace(path)
            except OSError:
                draft_path.unlink(missing_ok=True)
                raise
            sync_folder(path.parent)

    def get(self, name: str, *, max_bytes: int | None = None) -> bytes:
        with self._translate_errors():
            try:
                descriptor = os.open(self._path(name), READ_FLAGS)
            except (FileNotFoundError, NotADirectoryError):
                raise FileMissing(name) from None
            except OSError as error:
                raise self._build_unreadable_error(name, error) from error
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise UnreadableFile(f"{self._path(name)} is not a plain file.")
                try:
                    data = file.read() if max_bytes is None else file.read(max_bytes + 1)
                except OSError as error:
                    raise self._build_unreadable_error(name, error) from error
        if max_bytes is not None and len(data) > max_bytes:
            raise build_too_large_error(name, max_bytes)
        return data

    def exists(self, name: str) -> bool:
        with self._translate_errors():
            return os.path.lexists(self._path(name))

    def size(self, name: str) -> int | None:
        with self._translate_errors():
            try:
                file_status = self._path(name).lstat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        return file_status.st_size if stat.S_ISREG(file_status.st_mode) else None

    def names(self, folder: str) -> list[str]:
        with self._translate_errors():
            try:
                return sorted(filter(is_usable_name, os.listdir(self._path(folder))))  # noqa: PTH208
            except FileNotFoundError:
                return []

    def rename(self, old: str, new: str) -> bool:
        source, target = self._path(old), self._path(new)
        with self._translate_errors():
            if not os.path.lexists(source):
                raise FileMissing(old)
            if os.path.lexists(target):
                return False
            self._make_folder(target.parent)
            try:
                source.rename(target)
            except OSError as error:
                if error.errno in NAME_TAKEN_ERRORS:
                    return False
                raise
            sync_folder(target.parent)
        return True

    def delete(self, name: str) -> None:
        path = self._path(name)
        with self._translate_errors():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _build_unreadable_error(self, name: str, error: OSError) -> UnreadableFile:
        return UnreadableFile(f"{self._path(name)} cannot be read: {error.strerror}.")

    def _path(self, name: str) -> Path:
        return self._root / check_path(name) if name else self._root

    def _make_folder(self, folder: Path, *, mode: int = 0o777) -> None:
        """Below the root, which nobody makes but the operator."""
        for step in reversed([folder, *folder.parents][: len(folder.relative_to(self._root).parts)]):
            if not step.is_dir():
                step.mkdir(mode, exist_ok=True)
                sync_folder(step.parent)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FolderDown(f"The folder {self._root} cannot be used: {error.strerror}.") from error
