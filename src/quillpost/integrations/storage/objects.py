"""Files in a folder or in an S3 bucket, behind one port."""

import io
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, S3Store

from quillpost.core.errors import NotReady, Unavailable
from quillpost.core.filesystem import open_temporary_file, sync_folder
from quillpost.core.ports import FileMissing, FileStore

if TYPE_CHECKING:  # obstore has these types only for type checkers
    from obstore import ReadableFile
    from obstore.store import S3Config

# Names that every store and file system spells alike. None starts with a dot, which rules out `.` and `..`; none holds
# a `#`, which marks a draft.
KEY_SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}"
KEY_PATTERN = re.compile(rf"{KEY_SEGMENT}(?:/{KEY_SEGMENT})*")
PREFIX_PATTERN = re.compile(rf"(?:{KEY_SEGMENT}/)*(?:{KEY_SEGMENT})?")
DRAFT_PATTERN = re.compile(rf"{KEY_SEGMENT}#[0-9]+")
MAX_KEY_LENGTH = 900
RETRY_TIMEOUT = timedelta(seconds=15)
TRANSFER_TIMEOUT = timedelta(minutes=2)
READ_AHEAD_BYTES = 1_000_000
UPLOAD_CONCURRENCY = 2


def build_folder_store(path: Path) -> FileStore:
    """Files in a folder of this machine, created for this user only."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NotReady(f"The file folder {path} cannot be made: {error.strerror}.") from error
    return _FolderStore(path.resolve())


def build_s3_store(
    bucket: str,
    *,
    region: str,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    endpoint: str | None = None,
) -> FileStore:
    """Files in an existing bucket. Without keys, the machine's role is used. `endpoint` is for S3 from others than
    Amazon, which have the bucket in the path."""
    config: S3Config = {"region": region, "virtual_hosted_style_request": endpoint is None}
    allow_http = endpoint is not None and endpoint.startswith("http://")
    if endpoint is not None:
        config["endpoint"] = endpoint
    if access_key_id is not None and secret_access_key is not None:
        config["access_key_id"] = access_key_id
        config["secret_access_key"] = secret_access_key
    store = S3Store(
        bucket,
        config=config,
        client_options={"allow_http": allow_http, "timeout": TRANSFER_TIMEOUT},
        retry_config={"max_retries": 3, "retry_timeout": RETRY_TIMEOUT},
    )
    return _ObjectStore(store, is_storage_missing=lambda missing: "NoSuchBucket" in str(missing))


class _ObjectStore:
    """For stores whose writes are atomic and durable, such as S3. `is_storage_missing` says whether the whole
    storage is missing, not one file."""

    def __init__(self, store: LocalStore | S3Store, *, is_storage_missing: Callable[[FileNotFoundError], bool]) -> None:
        self._store = store
        self._is_storage_missing = is_storage_missing

    def put(self, key: str, data: bytes) -> None:
        _check_key(KEY_PATTERN, key)
        with _translate_errors():
            self._store.put(key, data)

    def get(self, key: str) -> bytes:
        with self._existing_file(key):
            return bytes(self._store.get(key).bytes())

    def put_file(self, key: str, file: IO[bytes]) -> None:
        _check_key(KEY_PATTERN, key)
        with _translate_errors():
            self._store.put(key, file, max_concurrency=UPLOAD_CONCURRENCY)

    def open(self, key: str) -> IO[bytes]:
        with self._existing_file(key):
            source = obstore.open_reader(self._store, key)
        return io.BufferedReader(_RemoteReader(source), READ_AHEAD_BYTES)

    def exists(self, key: str) -> bool:
        try:
            with self._existing_file(key):
                self._store.head(key)
        except FileMissing:
            return False
        return True

    def delete(self, key: str) -> None:
        with suppress(FileMissing), self._existing_file(key):
            self._store.delete(key)

    def keys(self, prefix: str) -> Iterator[str]:
        _check_key(PREFIX_PATTERN, prefix)
        # obstore's prefixes end at a slash, the port's anywhere: list the folder, then filter.
        folder = prefix.rpartition("/")[0]
        with _translate_errors():
            keys = [meta["path"] for chunk in self._store.list(folder or None, chunk_size=1000) for meta in chunk]
        return iter(sorted(key for key in keys if key.startswith(prefix)))

    def delete_unfinished(self, *, before: datetime) -> int:  # noqa: ARG002
        """Nothing is left of an unfinished write."""
        return 0

    @contextmanager
    def _existing_file(self, key: str) -> Iterator[None]:
        """Raises `FileMissing` where only this file is missing."""
        _check_key(KEY_PATTERN, key)
        with _translate_errors():
            try:
                yield
            except FileNotFoundError as missing:
                if self._is_storage_missing(missing):
                    raise
                raise FileMissing(key) from missing


class _FolderStore(_ObjectStore):
    """Reads, lists and deletes with obstore, and writes by itself: obstore does not flush a draft before renaming it,
    so that after a power cut the key could name an empty file. Drafts have the form (`name#digits`) that obstore hides.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(LocalStore(root), is_storage_missing=lambda _: not root.is_dir())
        self._root = root

    def put(self, key: str, data: bytes) -> None:
        self.put_file(key, io.BytesIO(data))

    def put_file(self, key: str, file: IO[bytes]) -> None:
        _check_key(KEY_PATTERN, key)
        path = self._root / key
        draft_path = path.with_name(f"{path.name}#{secrets.randbits(63)}")
        with _translate_errors():
            self._check_root()
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                _write_file(draft_path, file)
                draft_path.replace(path)
            except OSError:
                draft_path.unlink(missing_ok=True)
                raise
            for folder in path.parents:
                sync_folder(folder)
                if folder == self._root:
                    break

    def open(self, key: str) -> IO[bytes]:
        _check_key(KEY_PATTERN, key)
        with _translate_errors():
            try:
                return (self._root / key).open("rb")
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as missing:
                self._check_root()
                raise FileMissing(key) from missing

    def keys(self, prefix: str) -> Iterator[str]:
        with _translate_errors():
            self._check_root()
        return super().keys(prefix)

    def delete_unfinished(self, *, before: datetime) -> int:
        deleted_count = 0
        with _translate_errors():
            for path in self._root.rglob("*#*"):
                # A writer may finish, or fail, meanwhile.
                with suppress(FileNotFoundError):
                    if DRAFT_PATTERN.fullmatch(path.name) and path.stat().st_mtime < before.timestamp():
                        path.unlink()
                        deleted_count += 1
        return deleted_count

    def _check_root(self) -> None:
        """A folder that is gone must not look like an empty one, nor be replaced by one."""
        if not self._root.is_dir():
            raise FileNotFoundError(self._root)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError) as error:
        raise Unavailable("The file storage cannot be used now. Please try again.") from error


def _check_key(pattern: re.Pattern[str], key: str) -> None:
    """Keys are ours, never a caller's: a wrong one is a bug."""
    if len(key) > MAX_KEY_LENGTH or not pattern.fullmatch(key):
        raise ValueError(f"{key!r} is not a file key.")


class _RemoteReader(io.RawIOBase):
    """A file of a bucket as a Python file; a broken connection is `Unavailable`."""

    def __init__(self, source: "ReadableFile") -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _translate_errors():
            chunk = bytes(self._source.read(len(buffer)))
        buffer[: len(chunk)] = chunk
        return len(chunk)


def _write_file(path: Path, source: IO[bytes]) -> None:
    with path.open("xb") as file:
        shutil.copyfileobj(source, file, READ_AHEAD_BYTES)
        file.flush()
        os.fsync(file.fileno())


class FaceFolder:
    """Prepared font faces, each made once for all processes. A file is complete, as it is renamed when written. Without
    the folder, faces are made again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, key: str) -> bool:
        return (self._folder / key).is_file()

    def get(self, key: str) -> bytes | None:
        try:
            return (self._folder / key).read_bytes()
        except OSError:
            return None

    def put(self, key: str, data: bytes) -> None:
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with open_temporary_file(self._folder / key) as (draft_path, file):
                file.write(data)
                file.flush()
                draft_path.chmod(0o644)
                draft_path.replace(self._folder / key)
