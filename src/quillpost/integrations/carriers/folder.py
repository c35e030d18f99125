"""Carrier feeds that are files: a watched folder, pushed files, several feeds as one.

What was read moves to `done/`, what could not be read to `refused/` with the reason beside it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice

import structlog

from quillpost.core.ports import FileMissing, FileStore
from quillpost.fulfillment.tracking.ports import (
    CarrierDown,
    CarrierFeed,
    CarrierReport,
    FileBarred,
    SetAside,
    TooMuch,
)
from quillpost.integrations.folders.models import Barred, OpenPlace, Place, PlaceDown, TooLarge

AT_ONCE = 50
LARGEST = 100_000_000
UNFINISHED = (".partial", ".tmp")
DONE, REFUSED, REASON = "done", "refused", ".reason.txt"
LONGEST_REASON = 2_000
MOST_LOOKED_AT = 500
LONGEST_NAME = 150
"""Leaves room for what is put before and behind it."""


class DropFolder:
    """A file is taken once its size is what it was at the poll before: it may still be being written.

    That memory, and which files may not be read, is all it keeps, and losing it only delays a file until the
    next poll.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._sizes: Mapping[str, int] = {}
        self._barred: set[str] = set()

    def poll(self, *, now: datetime) -> CarrierReport:  # noqa: ARG002
        with self._visiting() as visit:
            sizes = _sizes(visit)
        ready = [name for name, size in sizes.items() if self._sizes.get(name) == size]
        self._sizes = sizes
        # However many may not be read, they are not in the way of the others.
        self._barred &= sizes.keys()
        ready.sort(key=self._barred.__contains__)
        return CarrierReport(ready[:AT_ONCE], expects_more=len(sizes) > min(len(ready), AT_ONCE))

    def fetch(self, name: str) -> bytes:
        with self._visiting() as visit:
            try:
                data = visit.get(name, most_bytes=LARGEST)
            except TooLarge as large:
                raise TooMuch(f"{large} Split it, or pack it with gzip.") from None
            except Barred as barred:
                self._barred.add(name)
                raise FileBarred(str(barred)) from None
        self._barred.discard(name)
        if len(data) != self._sizes.get(name, len(data)):
            raise FileMissing(name)  # it has begun to grow again: a later poll takes it
        return data

    def settle(self, name: str) -> None:
        with self._visiting() as visit:
            _move(visit, name, DONE)

    def refuse(self, name: str, reason: str) -> None:
        with self._visiting() as visit:
            moved = _move(visit, name, REFUSED)
            if moved is not None:
                visit.put(moved + REASON, reason.encode())

    def set_aside(self) -> Sequence[SetAside]:
        with self._visiting() as visit:
            names = visit.names(REFUSED)
            refused = [
                SetAside(name, _reason(visit, name) if name + REASON in names else "")
                for name in names
                if not name.endswith(REASON)
            ]
            return [*refused, *_barred(visit)]

    @contextmanager
    def _visiting(self) -> Iterator[OpenPlace]:
        try:
            with self._place.open() as visit:
                yield visit
        except PlaceDown as down:
            raise CarrierDown(f"The carrier's folder {self._place.shown}: {down}") from None


def _sizes(visit: OpenPlace) -> dict[str, int]:
    """Of the files that may be whole; folders have none."""
    wanted = (name for name in visit.names("") if name[0] != "." and len(name) <= LONGEST_NAME)
    sizes = {name: visit.size(name) for name in wanted if not name.endswith(UNFINISHED)}
    return {name: size for name, size in sizes.items() if size is not None}


def _move(visit: OpenPlace, name: str, folder: str) -> str | None:
    """Its new name, which may be numbered: a carrier may use the same one again. None if it has gone."""
    number = 0
    try:
        while True:
            target = f"{folder}/{name}" if not number else f"{folder}/{number}-{name}"
            if visit.rename(name, target):
                return target
            number += 1
    except FileMissing:
        return None


def _reason(visit: OpenPlace, name: str) -> str:
    try:
        return visit.get(f"{REFUSED}/{name}{REASON}", most_bytes=LONGEST_REASON).decode(errors="replace")
    except (FileMissing, TooLarge, Barred):
        return ""


def _barred(visit: OpenPlace) -> Iterator[SetAside]:
    """Files that wait and may not be read: a look at the first byte tells."""
    for name in islice(_sizes(visit), MOST_LOOKED_AT):
        try:
            visit.get(name, most_bytes=0)
        except (FileMissing, TooLarge):
            continue
        except Barred as barred:
            yield SetAside(name, f"{barred} Let the service read it.")


"""Files of one poll. Others wait for the next, which comes soon."""

REASON_FILE = ".reason.txt"


class Inbox:
    """`inbox/` holds what is to be read, `refused/` what could not be, each with a text that says why."""

    def __init__(self, store: FileStore, folder: str = "tracking") -> None:
        self._store = store
        self._inbox, self._refused = f"{folder}/inbox/", f"{folder}/refused/"

    def keep(self, data: bytes) -> None:
        self._store.put(self._inbox + hashlib.sha256(data).hexdigest(), data)

    def poll(self, *, now: datetime) -> CarrierReport:  # noqa: ARG002
        names = [key.removeprefix(self._inbox) for key in self._store.keys(self._inbox)]
        return CarrierReport(names[:AT_ONCE], expects_more=len(names) > AT_ONCE)

    def fetch(self, name: str) -> bytes:
        return self._store.get(self._inbox + name)

    def settle(self, name: str) -> None:
        self._store.delete(self._inbox + name)

    def refuse(self, name: str, reason: str) -> None:
        """The reason first: a file without one would be a riddle."""
        try:
            data = self._store.get(self._inbox + name)
        except FileMissing:
            return
        self._store.put(self._refused + name + REASON_FILE, reason.encode())
        self._store.put(self._refused + name, data)
        self._store.delete(self._inbox + name)

    def set_aside(self) -> Sequence[SetAside]:
        names = [key.removeprefix(self._refused) for key in self._store.keys(self._refused)]
        return [SetAside(name, self._reason(name)) for name in names if not name.endswith(REASON_FILE)]

    def _reason(self, name: str) -> str:
        try:
            return self._store.get(self._refused + name + REASON_FILE).decode()
        except FileMissing:
            return ""


log = structlog.get_logger(__name__)


class SeveralFeeds:
    """A file's name begins with its feed's, and a slash."""

    def __init__(self, feeds: Mapping[str, CarrierFeed]) -> None:
        self._feeds = feeds

    def poll(self, *, now: datetime) -> CarrierReport:
        names: list[str] = []
        expects_more = False
        for feed, report in self._reports(now):
            names += [f"{feed}/{name}" for name in report.names]
            expects_more = expects_more or report.expects_more
        return CarrierReport(names, expects_more)

    def fetch(self, name: str) -> bytes:
        feed, own = self._found(name)
        return feed.fetch(own)

    def settle(self, name: str) -> None:
        feed, own = self._found(name)
        feed.settle(own)

    def refuse(self, name: str, reason: str) -> None:
        feed, own = self._found(name)
        feed.refuse(own, reason)

    def set_aside(self) -> Sequence[SetAside]:
        found: list[SetAside] = []
        for name, feed in self._feeds.items():
            found += [SetAside(f"{name}/{each.name}", each.reason) for each in feed.set_aside()]
        return found

    def _reports(self, now: datetime) -> list[tuple[str, CarrierReport]]:
        reports, faults = [], []
        for name, feed in self._feeds.items():
            try:
                reports.append((name, feed.poll(now=now)))
            except CarrierDown as down:
                log.warning("tracking.feed_down", feed=name, reason=str(down))
                faults.append(down)
        if faults and not reports:
            raise faults[0]
        return reports

    def _found(self, name: str) -> tuple[CarrierFeed, str]:
        feed, _, own = name.partition("/")
        return self._feeds[feed], own
