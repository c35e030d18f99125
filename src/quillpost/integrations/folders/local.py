"""Folders on this machine and in the file store, and the folder that a setting names."""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from quillpost.core.errors import NotReady
from quillpost.core.filesystem import sync_folder
from quillpost.core.ports import FileMissing, FileStore
from quillpost.integrations.folders.models import (
    FolderDown,
    RemoteFolder,
    SftpCredentials,
    UnreadableFile,
    build_too_large_error,
    check_path,
    is_usable_name,
)

# Never through a link, and never blocking on a pipe: others put files here.
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
        """Below the root, which only the operator creates."""
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


class StorageFolder:
    """A folder is only a key prefix: moving one moves file by file."""

    def __init__(self, store: FileStore, folder: str) -> None:
        self._store = store
        self._folder = folder

    @property
    def label(self) -> str:
        return f"{self._folder} in the file store"

    @contextmanager
    def open(self) -> Iterator["StorageFolder"]:
        yield self

    def put(self, name: str, data: bytes, *, is_secret: bool = False) -> None:  # noqa: ARG002
        self._store.put(self._key(name), data)

    def get(self, name: str, *, max_bytes: int | None = None) -> bytes:
        data = self._store.get(self._key(name))
        if max_bytes is not None and len(data) > max_bytes:
            raise build_too_large_error(name, max_bytes)
        return data

    def exists(self, name: str) -> bool:
        key = self._key(name)
        return self._store.exists(key) or any(self._store.keys(f"{key}/"))

    def size(self, name: str) -> int | None:
        return len(self._store.get(self._key(name))) if self._store.exists(self._key(name)) else None

    def names(self, folder: str) -> list[str]:
        key_prefix = self._key(folder) + "/"
        names = (key.removeprefix(key_prefix).partition("/")[0] for key in self._store.keys(key_prefix))
        return sorted(set(names))

    def rename(self, old: str, new: str) -> bool:
        if self.exists(new):
            return False
        old_key = self._key(old)
        old_keys = [old_key] if self._store.exists(old_key) else list(self._store.keys(f"{old_key}/"))
        for key in old_keys or [old_key]:  # a key that is not there says so
            self._store.put(self._key(new) + key.removeprefix(old_key), self._store.get(key))
        for key in old_keys:
            self._store.delete(key)
        return True

    def delete(self, name: str) -> None:
        key = self._key(name)
        # A local folder cannot be deleted like a file.
        for file_key in list(self._store.keys(f"{key}/")) or [key]:
            self._store.delete(file_key)

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}" if name else self._folder


DEFAULT_SSH_PORT = 22


def build_folder(url: str, *, credentials: SftpCredentials, setting: str) -> RemoteFolder:
    """The folder, or `NotReady` with a sentence that names the setting. No connection is made yet."""
    try:
        parsed = urlsplit(url)
        port = parsed.port
    except ValueError:
        raise NotReady(f"{setting} is not an address that we can read.") from None
    if parsed.query or parsed.fragment:
        raise NotReady(f"{setting} must end with the path of a folder.")
    match parsed.scheme:
        case "file":
            return _build_local_folder(parsed, setting)
        case "sftp":
            return _build_sftp_folder(parsed, port or DEFAULT_SSH_PORT, credentials, setting)
    raise NotReady(f"{setting} must be file:///path or sftp://user@host:port/path.")


def _build_local_folder(parsed: SplitResult, setting: str) -> RemoteFolder:
    path = Path(unquote(parsed.path))
    if parsed.netloc or not path.is_absolute():
        raise NotReady(f"{setting} must name a folder by its whole path: file:///path.")
    return LocalFolder(path)


def _build_sftp_folder(parsed: SplitResult, port: int, credentials: SftpCredentials, setting: str) -> RemoteFolder:
    if parsed.password is not None:
        raise NotReady(f"{setting} must not hold a password: set QUILLPOST_SFTP_PASSWORD.")
    if not (parsed.hostname and parsed.username):
        raise NotReady(f"{setting} must name a user and a machine: sftp://user@host:port/path.")
    # Imported here so that only services with such a folder load Paramiko.
    from quillpost.integrations.folders.sftp import SftpFolder  # noqa: PLC0415

    # As in curl: /~/jobs is in the user's home.
    folder = unquote(parsed.path).removeprefix("/~/") or "/"
    sftp_folder = SftpFolder(
        parsed.hostname, user=unquote(parsed.username), folder=folder, credentials=credentials, port=port
    )
    sftp_folder.check()
    return sftp_folder
