"""Carrier feeds that are files: a watched folder, pushed files, several feeds as one. Read files move to `done/`,
refused ones to `refused/` with the reason beside them."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice

import structlog

from quillpost.core.ports import FileMissing, FileStore
from quillpost.fulfillment.ports import (
    CarrierDown,
    CarrierFeed,
    CarrierReport,
    RefusedScanFile,
    ScanFileForbidden,
    ScanFileTooLarge,
)
from quillpost.integrations.folders.models import (
    FolderDown,
    FolderFileTooLarge,
    OpenFolder,
    RemoteFolder,
    UnreadableFile,
)

MAX_FILES_PER_POLL = 50
MAX_FILE_BYTES = 100_000_000
UNFINISHED_SUFFIXES = (".partial", ".tmp")
DONE_FOLDER, REFUSED_FOLDER, REASON_SUFFIX = "done", "refused", ".reason.txt"
MAX_REASON_BYTES = 2_000
MAX_FILES_CHECKED = 500
MAX_NAME_LENGTH = 150  # leaves room for a prefix and a suffix


class DropFolder:
    """A file is read once its size is the same as at the previous poll: it may still be being written. Losing that
    memory only delays a file until the next poll."""

    def __init__(self, folder: RemoteFolder) -> None:
        self._folder = folder
        self._sizes: Mapping[str, int] = {}
        self._unreadable: set[str] = set()

    def poll(self, *, now: datetime) -> CarrierReport:  # noqa: ARG002
        with self._open_folder() as folder:
            sizes = _read_sizes(folder)
        ready = [name for name, size in sizes.items() if self._sizes.get(name) == size]
        self._sizes = sizes
        # Unreadable files do not keep others from being read.
        self._unreadable &= sizes.keys()
        ready.sort(key=self._unreadable.__contains__)
        return CarrierReport(ready[:MAX_FILES_PER_POLL], expects_more=len(sizes) > min(len(ready), MAX_FILES_PER_POLL))

    def fetch(self, name: str) -> bytes:
        with self._open_folder() as folder:
            try:
                data = folder.get(name, max_bytes=MAX_FILE_BYTES)
            except FolderFileTooLarge as failure:
                raise ScanFileTooLarge(f"{failure} Split it, or pack it with gzip.") from None
            except UnreadableFile as unreadable:
                self._unreadable.add(name)
                raise ScanFileForbidden(str(unreadable)) from None
        self._unreadable.discard(name)
        if len(data) != self._sizes.get(name, len(data)):
            raise FileMissing(name)  # it has begun to grow again: a later poll takes it
        return data

    def settle(self, name: str) -> None:
        with self._open_folder() as folder:
            _move_file(folder, name, DONE_FOLDER)

    def refuse(self, name: str, reason: str) -> None:
        with self._open_folder() as folder:
            new_name = _move_file(folder, name, REFUSED_FOLDER)
            if new_name is not None:
                folder.put(new_name + REASON_SUFFIX, reason.encode())

    def set_aside(self) -> Sequence[RefusedScanFile]:
        with self._open_folder() as folder:
            names = folder.names(REFUSED_FOLDER)
            refused_files = [
                RefusedScanFile(name, _read_reason(folder, name) if name + REASON_SUFFIX in names else "")
                for name in names
                if not name.endswith(REASON_SUFFIX)
            ]
            return [*refused_files, *_find_unreadable(folder)]

    @contextmanager
    def _open_folder(self) -> Iterator[OpenFolder]:
        try:
            with self._folder.open() as folder:
                yield folder
        except FolderDown as failure:
            raise CarrierDown(f"The carrier's folder {self._folder.label}: {failure}") from None


def _read_sizes(folder: OpenFolder) -> dict[str, int]:
    names = (name for name in folder.names("") if name[0] != "." and len(name) <= MAX_NAME_LENGTH)
    sizes = {name: folder.size(name) for name in names if not name.endswith(UNFINISHED_SUFFIXES)}
    return {name: size for name, size in sizes.items() if size is not None}


def _move_file(folder: OpenFolder, name: str, target_folder: str) -> str | None:
    """Its new name, numbered where it exists; None if the file is gone."""
    number = 0
    try:
        while True:
            target = f"{target_folder}/{name}" if not number else f"{target_folder}/{number}-{name}"
            if folder.rename(name, target):
                return target
            number += 1
    except FileMissing:
        return None


def _read_reason(folder: OpenFolder, name: str) -> str:
    try:
        return folder.get(f"{REFUSED_FOLDER}/{name}{REASON_SUFFIX}", max_bytes=MAX_REASON_BYTES).decode(
            errors="replace"
        )
    except (FileMissing, FolderFileTooLarge, UnreadableFile):
        return ""


def _find_unreadable(folder: OpenFolder) -> Iterator[RefusedScanFile]:
    """Waiting files that may not be read, judged by the first byte."""
    for name in islice(_read_sizes(folder), MAX_FILES_CHECKED):
        try:
            folder.get(name, max_bytes=0)
        except (FileMissing, FolderFileTooLarge):
            continue
        except UnreadableFile as unreadable:
            yield RefusedScanFile(name, f"{unreadable} Let the service read it.")


class StoredInbox:
    def __init__(self, store: FileStore, folder: str = "tracking") -> None:
        self._store = store
        self._inbox_prefix, self._refused_prefix = f"{folder}/inbox/", f"{folder}/refused/"

    def store(self, data: bytes) -> None:
        self._store.put(self._inbox_prefix + hashlib.sha256(data).hexdigest(), data)

    def poll(self, *, now: datetime) -> CarrierReport:  # noqa: ARG002
        names = [key.removeprefix(self._inbox_prefix) for key in self._store.keys(self._inbox_prefix)]
        return CarrierReport(names[:MAX_FILES_PER_POLL], expects_more=len(names) > MAX_FILES_PER_POLL)

    def fetch(self, name: str) -> bytes:
        return self._store.get(self._inbox_prefix + name)

    def settle(self, name: str) -> None:
        self._store.delete(self._inbox_prefix + name)

    def refuse(self, name: str, reason: str) -> None:
        """The reason first, so that no refused file is without one."""
        try:
            data = self._store.get(self._inbox_prefix + name)
        except FileMissing:
            return
        self._store.put(self._refused_prefix + name + REASON_SUFFIX, reason.encode())
        self._store.put(self._refused_prefix + name, data)
        self._store.delete(self._inbox_prefix + name)

    def set_aside(self) -> Sequence[RefusedScanFile]:
        names = [key.removeprefix(self._refused_prefix) for key in self._store.keys(self._refused_prefix)]
        return [RefusedScanFile(name, self._read_reason(name)) for name in names if not name.endswith(REASON_SUFFIX)]

    def _read_reason(self, name: str) -> str:
        try:
            return self._store.get(self._refused_prefix + name + REASON_SUFFIX).decode()
        except FileMissing:
            return ""


log = structlog.get_logger(__name__)


class CombinedFeed:
    """A file's name begins with its feed's, and a slash."""

    def __init__(self, feeds: Mapping[str, CarrierFeed]) -> None:
        self._feeds = feeds

    def poll(self, *, now: datetime) -> CarrierReport:
        names: list[str] = []
        expects_more = False
        for feed, report in self._poll_feeds(now):
            names += [f"{feed}/{name}" for name in report.file_names]
            expects_more = expects_more or report.expects_more
        return CarrierReport(names, expects_more)

    def fetch(self, name: str) -> bytes:
        feed, file_name = self._find_feed(name)
        return feed.fetch(file_name)

    def settle(self, name: str) -> None:
        feed, file_name = self._find_feed(name)
        feed.settle(file_name)

    def refuse(self, name: str, reason: str) -> None:
        feed, file_name = self._find_feed(name)
        feed.refuse(file_name, reason)

    def set_aside(self) -> Sequence[RefusedScanFile]:
        files: list[RefusedScanFile] = []
        for name, feed in self._feeds.items():
            files += [RefusedScanFile(f"{name}/{file.name}", file.reason) for file in feed.set_aside()]
        return files

    def _poll_feeds(self, now: datetime) -> list[tuple[str, CarrierReport]]:
        reports, errors = [], []
        for name, feed in self._feeds.items():
            try:
                reports.append((name, feed.poll(now=now)))
            except CarrierDown as failure:
                log.warning("tracking.feed_unavailable", feed=name, reason=str(failure))
                errors.append(failure)
        if errors and not reports:
            raise errors[0]
        return reports

    def _find_feed(self, name: str) -> tuple[CarrierFeed, str]:
        feed_name, _, file_name = name.partition("/")
        return self._feeds[feed_name], file_name
